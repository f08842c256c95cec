/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/mrt.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/le.h"

static const char magic[] = "MRTRACE1";

const char *mr_span_name(unsigned kind)
{
	static const char *const names[MR_SPAN_KINDS] = {
		[MR_SPAN_BATCH] = "batch",     [MR_SPAN_SAMPLE] = "sample",
		[MR_SPAN_STEP] = "step",       [MR_SPAN_FETCH] = "fetch",
		[MR_SPAN_WAIT_IN] = "wait_in", [MR_SPAN_WAIT_OUT] = "wait_out",
		[MR_SPAN_COLLATE] = "collate", [MR_SPAN_NEXT] = "next",
		[MR_SPAN_CONSUME] = "consume", [MR_SPAN_WORK] = "work",
		[MR_SPAN_PIN] = "pin",	       [MR_SPAN_START] = "start",
	};

	return kind < MR_SPAN_KINDS && names[kind] ? names[kind] : "?";
}

/* ---- writing ---- */

/* Which run of which machine this is; 0 when the system does not say. */
static uint64_t boot_id(void)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[40] = "";
	uint64_t v = 0;
	int n = 0;

	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	for (const char *p = text; *p && n < 16; p++) {
		const char *digits = "0123456789abcdef";
		const char *d = strchr(digits, *p);

		if (!d)
			continue;
		/* byte n / 2, its upper half first */
		v |= (uint64_t)(d - digits) << (8 * (n / 2) + 4 * !(n & 1));
		n++;
	}
	return v;
}

void mr_mrt_now(struct mr_mrt_header *h)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	*h = (struct mr_mrt_header){
		.pid = (uint32_t)getpid(),
		.monotonic = mr_clock_ns(),
		.realtime =
			(uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec,
		.boot = boot_id(),
		.ranks = 1,
	};
}

void mr_mrt_put_header(uint8_t to[MR_MRT_HEADER], const struct mr_mrt_header *h)
{
	memset(to, 0, MR_MRT_HEADER);
	memcpy(to, magic, 8);
	mr_le32_put(to + 8, h->pid);
	mr_le64_put(to + 16, h->monotonic);
	mr_le64_put(to + 24, h->realtime);
	mr_le64_put(to + 32, h->boot);
	mr_le32_put(to + 40, (uint32_t)h->rank);
	mr_le32_put(to + 44, (uint32_t)h->ranks);
}

void mr_mrt_put_chunk(uint8_t to[MR_MRT_CHUNK], const char *kind,
		      uint32_t thread, const void *data, size_t size)
{
	memcpy(to, "CHNK", 4);
	memcpy(to + 4, kind, 4);
	mr_le32_put(to + 8, thread);
	mr_le32_put(to + 12, (uint32_t)size);
	mr_le32_put(to + 16, libdeflate_crc32(0, data, size));
	mr_le32_put(to + 20, 0);
}

#define ONES_48 (((uint64_t)1 << 48) - 1)

void mr_mrt_put_span(uint8_t to[MR_MRT_SPAN], const struct mr_mrt_span *s)
{
	uint64_t sample = s->line ? s->line : s->sample;

	sample = sample < ONES_48 ? sample : ONES_48;
	mr_le64_put(to, s->start);
	mr_le64_put(to + 8, s->duration);
	mr_le64_put(to + 16, sample | (uint64_t)(s->kind | s->flags) << 48 |
				     (uint64_t)s->step << 56);
	mr_le32_put(to + 24,
		    s->batch < UINT32_MAX ? (uint32_t)s->batch : UINT32_MAX);
	mr_le32_put(to + 28, s->bytes);
}

/* ---- reading ---- */

void mr_mrt_get_span(struct mr_mrt_span *s, const uint8_t from[MR_MRT_SPAN])
{
	uint64_t mixed = mr_le64(from + 16), sample = mixed & ONES_48;
	uint32_t batch = mr_le32(from + 24);
	uint8_t kind = (uint8_t)(mixed >> 48);

	s->start = mr_le64(from);
	s->duration = mr_le64(from + 8);
	s->kind = kind & 0x3f;
	s->line = 0;
	s->sample = sample == ONES_48 ? MR_NO_SAMPLE : sample;
	if (s->kind == MR_SPAN_NEXT) {
		s->line = sample == ONES_48 ? 0 : sample;
		s->sample = MR_NO_SAMPLE;
	}
	s->batch = batch == UINT32_MAX ? MR_NO_BATCH : batch;
	s->bytes = mr_le32(from + 28);
	s->flags = kind & 0xc0;
	s->step = (uint8_t)(mixed >> 56);
}

static int get_header(struct mr_mrt *m, struct mr_err *err)
{
	const uint8_t *p = m->data;

	if (m->size < MR_MRT_HEADER || memcmp(p, magic, 8) != 0)
		return mr_err_set(err, MR_EDATA,
				  "%s: not a trace: it does not begin with "
				  "'%s'",
				  m->path, magic);
	m->header = (struct mr_mrt_header){
		.pid = mr_le32(p + 8),
		.monotonic = mr_le64(p + 16),
		.realtime = mr_le64(p + 24),
		.boot = mr_le64(p + 32),
		.rank = (int32_t)mr_le32(p + 40),
		.ranks = (int32_t)mr_le32(p + 44),
	};
	m->at = MR_MRT_HEADER;
	return 0;
}

int mr_mrt_open(struct mr_mrt *m, const char *path, struct mr_err *err)
{
	struct stat st;
	void *p = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC), e;

	*m = (struct mr_mrt){ .path = path };
	if (fd < 0)
		return mr_err_sys(err, errno, path, "cannot open");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return mr_err_set(err, MR_EIO, "%s: not a regular file", path);
	}
	m->size = (size_t)st.st_size;
	if (m->size)
		p = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0);
	e = errno;
	close(fd);
	if (p == MAP_FAILED)
		return mr_err_sys(err, e, path, "cannot map");
	m->data = p;
	e = get_header(m, err);
	if (e)
		mr_mrt_close(m);
	return e;
}

void mr_mrt_rewind(struct mr_mrt *m)
{
	m->at = MR_MRT_HEADER;
	m->cut = false;
}

static bool cut(struct mr_mrt *m, const char *reason)
{
	m->cut = true;
	m->reason = reason;
	return false;
}

bool mr_mrt_next(struct mr_mrt *m, struct mr_mrt_chunk *c)
{
	const uint8_t *p = m->data + m->at;
	size_t left = m->size - m->at, size;

	if (!left || m->cut)
		return false;
	if (left < MR_MRT_CHUNK)
		return cut(m, "the last chunk is cut off");
	if (memcmp(p, "CHNK", 4) != 0)
		return cut(m, "no chunk begins where one should");
	size = mr_le32(p + 12);
	if (size > left - MR_MRT_CHUNK)
		return cut(m, "the last chunk is cut off");
	if (size > MR_MRT_MAX)
		return cut(m, "a chunk is too large");
	c->kind = mr_le32(p + 4);
	c->thread = mr_le32(p + 8);
	c->data = p + MR_MRT_CHUNK;
	c->size = size;
	if (libdeflate_crc32(0, c->data, size) != mr_le32(p + 16))
		return cut(m, "the checksum of a chunk is wrong");
	m->at += MR_MRT_CHUNK + size;
	return true;
}

void mr_mrt_close(struct mr_mrt *m)
{
	if (m->data)
		munmap((void *)(uintptr_t)m->data, m->size);
	m->data = NULL;
}
