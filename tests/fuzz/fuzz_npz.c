/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .npz file, by row and by file. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memory_file(data, size);

	fuzz_source("npz /proc/self/fd/%d unpacked=1M", fd);
	fuzz_source("npz /proc/self/fd/%d each=file", fd);
	fuzz_source("npz /proc/self/fd/%d array=x", fd);
	return 0;
}
