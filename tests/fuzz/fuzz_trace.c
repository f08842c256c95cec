/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a trace, through all that a trace becomes. Checksums keep
 * chance out, so that the first byte chooses: the bytes as they are, or
 * chunks of them, each with a kind, a thread and its checksum.
 */
#include "report/html.h"
#include "source.h"
#include "trace/sink/sinks.h"

static uint8_t file[1 << 16];

static size_t build(const uint8_t *data, size_t size)
{
	static const char *const kinds[] = { "META", "THRD", "NAME", "SPAN",
					     "KEYS", "DROP", "DONE", "SPAN" };
	size_t n = MR_MRT_HEADER, at = 0;

	mr_mrt_put_header(file, &(struct mr_mrt_header){ .pid = 7,
							 .monotonic = 1000,
							 .rank = 1,
							 .ranks = 2 });
	while (size - at >= 4) {
		uint32_t thread = data[at + 1];
		size_t bytes = data[at + 2] | (size_t)(data[at + 3] & 3) << 8;
		const char *kind = kinds[data[at] & 7];

		thread = thread == 255 ? ~0u : thread;
		at += 4;
		bytes = bytes < size - at ? bytes : size - at;
		if (n + MR_MRT_CHUNK + bytes > sizeof(file))
			break;
		mr_mrt_put_chunk(file + n, kind, thread, data + at, bytes);
		memcpy(file + n + MR_MRT_CHUNK, data + at, bytes);
		n += MR_MRT_CHUNK + bytes;
		at += bytes;
	}
	return n;
}

static void write_all(struct mr_mrt *m)
{
	static int (*const to[])(struct mr_out *, struct mr_roll *,
				 struct mr_mrt *, struct mr_err *) = {
		mr_chrome_write, mr_folded_write, mr_csv_write, mr_html_write
	};
	struct mr_err err = { 0 };
	struct mr_roll r;
	struct mr_out o;

	if (mr_roll_read(&r, m, &err))
		abort(); /* there is memory */
	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		if (mr_out_open(&o, "/dev/null", &err) ||
		    to[i](&o, &r, m, &err) || mr_out_close(&o, &err))
			abort();
	}
	mr_roll_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mr_mrt m;
	struct mr_err err = { 0 };
	char path[64];
	int fd;

	if (!size)
		return 0;
	fd = data[0] & 1 ? memory_file(file, build(data + 1, size - 1)) :
			   memory_file(data + 1, size - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mr_mrt_open(&m, path, &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	write_all(&m);
	mr_mrt_close(&m);
	return 0;
}
