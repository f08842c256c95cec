/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a NumPy file: as data, and as the labels of itself. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memory_file(data, size);

	fuzz_source("npy /proc/self/fd/%d", fd);
	fuzz_source("npy /proc/self/fd/%d labels=/proc/self/fd/%d", fd);
	return 0;
}
