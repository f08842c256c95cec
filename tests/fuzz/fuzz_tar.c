/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tar, and as the index of one: the first byte says which, and
 * whether headers get the checksum that they should have, which no mutation
 * would find. */
#include "source.h"

#include "source/tarindex.h"

/* Records that whoever wrote the index file may have thought out. */
static void fuzz_index(const uint8_t *data, size_t size)
{
	struct mr_tar_index x = { .file_size = 1 << 20 };
	struct mr_tar_sample s;
	struct mr_tar_member m;
	struct mr_err err;

	x.records = malloc(size ? size : 1);
	memcpy(x.records, data, size);
	x.bytes = x.cap = size;
	if (mr_names_add(&x.ext, "jpg", 3, &err) ||
	    mr_names_add(&x.ext, "cls", 3, &err))
		abort();
	if (mr_tar_index_check(&x, &err) == 0) {
		for (size_t i = 0; i < x.samples; i++) {
			mr_tar_sample_get(&x, i, &s);
			while (mr_tar_member_next(&s, &m))
				if (m.data > x.file_size || m.ext > 1 ||
				    m.size > x.file_size - m.data)
					abort();
		}
	}
	mr_tar_index_fini(&x);
}

static void set_checksums(uint8_t *p, size_t size)
{
	for (; size >= 512; p += 512, size -= 512) {
		unsigned sum = 0;

		if (memcmp(p + 257, "ustar", 5) != 0)
			continue;
		memset(p + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += p[i];
		snprintf((char *)p + 148, 8, "%06o", sum);
	}
}

static int tar_file(const uint8_t *data, size_t size, bool set)
{
	uint8_t *copy = malloc(size ? size : 1);
	int fd;

	memcpy(copy, data, size);
	if (set)
		set_checksums(copy, size);
	fd = memory_file(copy, size);
	free(copy);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd;

	if (!size)
		return 0;
	if (*data == 'i') {
		fuzz_index(data + 1, size - 1);
		return 0;
	}
	fd = tar_file(data + 1, size - 1, *data == 's');
	fuzz_source("tar /proc/self/fd/%d index=no unpack=1M", fd);
	fuzz_source("tar /proc/self/fd/%d index=no unpack=1M "
		    "fields=jpg;png,cls decode=no",
		    fd);
	return 0;
}
