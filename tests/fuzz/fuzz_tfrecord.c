/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a TFRecord file; and, since nobody guesses a CRC, as the data
 * of records that are framed as they should be. The first byte says which.
 */
#include "source.h"

#include "core/le.h"
#include "kernel/crc32c.h"

static uint32_t masked(const void *p, size_t n)
{
	uint32_t c = mr_crc32c(p, n);

	return (c >> 15 | c << 17) + 0xa282ead8u;
}

static size_t frame(uint8_t *to, const uint8_t *data, size_t n)
{
	mr_le64_put(to, n);
	mr_le32_put(to + 8, masked(to, 8));
	memcpy(to + 12, data, n);
	mr_le32_put(to + 12 + n, masked(data, n));
	return n + 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *file;
	size_t n, half;

	if (size < 2)
		return 0;
	if (data[0] % 4 == 0) {
		fuzz_source("tfrecord /proc/self/fd/%d index=no unpack=1M",
			    memory_file(data + 1, size - 1));
		return 0;
	}
	/* Two records, or one twice; types come from the first alone. */
	half = data[0] % 4 == 1 ? size - 2 : (size - 2) * data[1] / 255;
	file = malloc(2 * size + 64);
	n = frame(file, data + 2, half);
	n += frame(file + n, data + 2 + (half == size - 2 ? 0 : half),
		   half == size - 2 ? half : size - 2 - half);
	fuzz_source(data[0] % 4 == 3 ?
			    "tfrecord /proc/self/fd/%d index=no examine=1 "
			    "map=yes" :
			    "tfrecord /proc/self/fd/%d index=no",
		    memory_file(file, n));
	free(file);
	return 0;
}
