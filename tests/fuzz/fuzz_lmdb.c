/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an LMDB file, all of it and a database in it. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memory_file(data, size);

	fuzz_source("lmdb /proc/self/fd/%d", fd);
	fuzz_source("lmdb /proc/self/fd/%d db=a keys='*1'", fd);
	return 0;
}
