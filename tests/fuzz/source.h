/* SPDX-License-Identifier: Apache-2.0 */
/* For the fuzz targets of file formats: bytes as a file in memory, and a
 * source over it that is asked everything the loader would ask. */
#ifndef MR_FUZZ_SOURCE_H
#define MR_FUZZ_SOURCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/load.h"
#include "pipe/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOOK_AT = 64, READ_AT_MOST = 1 << 20 };

/* Every byte of every field is there. */
static inline void look_at(const struct loaded *ld)
{
	volatile uint8_t sum = 0;

	for (int i = 0; i < ld->fields.n; i++) {
		const uint8_t *p = ld->f[i].data;
		size_t n = mr_tensor_bytes(&ld->f[i]);

		for (size_t k = 0; k < n; k++)
			sum = (uint8_t)(sum + p[k]);
	}
}

/* A file descriptor whose file has these bytes; always the same one. */
static inline int memory_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	if (fd < 0 || ftruncate(fd, 0) ||
	    pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

/* Reads the sample, if it is not large, and lets the source unpack it. A
 * source may refuse what it finds, with words; it may not leave a hole. */
static inline void read_sample(const struct mr_source *src, struct loaded *ld,
			       const struct mr_extent *x)
{
	char *bytes;
	int e;

	if (x->length > READ_AT_MOST)
		return;
	bytes = malloc(x->length + 1);
	if (pread(x->fd, bytes, x->length, (off_t)x->offset) !=
	    (ssize_t)x->length)
		abort(); /* it was promised at the opening */
	e = src->unpack(&ld->ld, bytes, x->length, ld->f);
	if (e && (!ld->err.code || !ld->err.text[0]))
		abort();
	if (!e)
		look_at(ld);
	free(bytes);
}

static inline void ask(const struct mr_plan *plan)
{
	uint64_t n = plan->samples < LOOK_AT ? plan->samples : LOOK_AT;
	const struct mr_source *s = plan->source;
	const void *self = plan->source_self;
	char path[4096], key[64];
	struct loaded ld;

	loaded_init(&ld, s, self);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t index = i % 2 ? plan->samples - 1 - i : i;
		struct mr_extent x;
		struct mr_err err;

		s->key(self, index, key, sizeof(key));
		loaded_begin(&ld, index);
		if (s->load) {
			if (s->load(&ld.ld, ld.f) == 0)
				look_at(&ld);
		} else if (s->locate(self, index, path, sizeof(path), &x,
				     &err) == 0 &&
			   x.fd >= 0) {
			read_sample(s, &ld, &x);
		}
	}
	loaded_fini(&ld, s);
	for (uint64_t i = 0; s->class_name && s->class_name(self, i); i++)
		;
	if (s->fingerprint)
		s->fingerprint(self);
}

/* Opens TEXT, which has %d for the file, and asks. lenient: as with
 * --on-error skip. */
static inline void fuzz_opened(const char *text, int fd, bool lenient)
{
	static struct mr_plan plan;
	struct mr_pipeline *p;
	struct mr_err err = { 0 };
	char full[200];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(full, sizeof(full), text, fd, fd);
#pragma GCC diagnostic pop
	if (mr_pipeline_parse(&p, full, NULL, &err))
		abort();
	p->lenient = lenient;
	if (mr_plan_make(&plan, p, 1, &err) == 0)
		ask(&plan);
	else if (err.code >= 0 || !err.text[0])
		abort();
	mr_pipeline_free(p);
}

static inline void fuzz_source(const char *text, int fd)
{
	fuzz_opened(text, fd, false);
}

#endif
