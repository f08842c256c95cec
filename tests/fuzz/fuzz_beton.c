/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a data set of FFCV's. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_source("beton /proc/self/fd/%d", memory_file(data, size));
	return 0;
}
