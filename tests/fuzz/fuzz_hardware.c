/* SPDX-License-Identifier: Apache-2.0 */
/* Any chunks as a trace, with checksums that are right: a letter for the
 * kind, a byte for the thread, two for the size, the contents. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/hardware.h"
#include "core/json.h"
#include "core/le.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same file each time, with these bytes. */
static int memory_file(const char *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	if (fd < 0 || ftruncate(fd, 0) < 0 ||
	    pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

static const char *kind_of(uint8_t letter)
{
	switch (letter) {
	case 'M':
		return "META";
	case 'T':
		return "THRD";
	case 'N':
		return "NAME";
	case 'S':
		return "SPAN";
	case 'C':
		return "CNTR";
	case 'P':
		return "SMPL";
	case 'D':
		return "DONE";
	default:
		return "MAPS";
	}
}

static void make_trace(struct mr_str *out, const uint8_t *data, size_t size)
{
	struct mr_mrt_header h = { .pid = 7, .ranks = 1 };
	uint8_t head[MR_MRT_HEADER];

	mr_mrt_put_header(head, &h);
	mr_str_addn(out, (char *)head, sizeof(head));
	while (size >= 4) {
		size_t n = mr_le16(data + 2);
		uint8_t chunk[MR_MRT_CHUNK];

		n = n < size - 4 ? n : size - 4;
		mr_mrt_put_chunk(chunk, kind_of(data[0]), data[1], data + 4, n);
		mr_str_addn(out, (char *)chunk, sizeof(chunk));
		mr_str_addn(out, (const char *)data + 4, n);
		data += 4 + n;
		size -= 4 + n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mr_attribution a;
	struct mr_str file = { 0 }, text = { 0 };
	struct mr_json j = { 0 };
	struct mr_err err;
	char path[64];

	make_trace(&file, data, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d",
		 memory_file(file.text, file.len));
	if (!mr_attribute(&a, path, false, &err)) {
		mr_hardware_print(&a, &text);
		mr_json_open(&j, NULL, '{');
		mr_hardware_json(&a, &j);
		mr_json_close(&j, '}');
		free(mr_folded_text(&a));
		mr_attribution_fini(&a);
	}
	mr_str_fini(&file);
	mr_str_fini(&text);
	mr_str_fini(&j.out);
	return 0;
}
