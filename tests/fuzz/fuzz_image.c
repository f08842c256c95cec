/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a picture, through image steps that are joined, then through
 * each of them alone, then without our own JPEG decoder; all must give the
 * same.
 *
 * The first byte chooses the pipeline, the second seeds its random numbers;
 * the rest is the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "pipe/join.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
			       unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#define MUST(ok)                                                \
	do {                                                    \
		if (!(ok)) {                                    \
			fprintf(stderr, "not true: %s\n", #ok); \
			abort();                                \
		}                                               \
	} while (0)

#define D  "decode_image max_pixels=300000 "
#define DF D "fast=yes "
#define DL D "lenient=yes "

static const struct {
	const char *steps;
	bool alone; /* gives the same when each step runs alone */
} jobs[] = {
	{ D, true },
	{ D "exif=no | random_crop 9 padding=5 | flip", true },
	{ D "| random_resized_crop 32 | flip", true },
	{ D "| resize 20 filter=bicubic | center_crop 24", true },
	{ D "| center_crop 7x50", true },
	{ D "| random_crop 1 padding=40 | flip p=1", true },
	{ D "| flip | resize 13x17 filter=area | random_crop 8", true },
	{ D "| random_resized_crop 16 filter=bicubic antialias=no", true },
	{ DL, true },
	{ DL "| random_crop 5 padding=2", true },
	{ DL "| random_resized_crop 32 filter=area", true },
	{ DF, true },
	{ DF "lenient=yes | random_crop 11 padding=10", true },
	{ DF "exif=no | random_resized_crop 8", false },
	{ DF "| resize 10 | flip", false },
	{ D "| random_resized_crop 32 | flip | normalize imagenet", false },
	{ D "| random_crop 9 padding=5 | flip | to_chw", false },
	{ D "| center_crop 12 | random_crop 9 padding=4 | resize 7", true },
};

enum {
	JOBS = MR_COUNT(jobs),
	SAMPLE_MAX = 16 << 20, /* bytes */
};

/* A worker as a loader would make it, for each job; the second is for libjpeg
 * alone. */
struct rig {
	struct mr_loader l;
	struct mr_worker w;
	struct mr_batch b;
};

static struct rig rigs[2][JOBS];

static void prepare(struct rig *g, int i)
{
	struct mr_loader *l = &g->l;
	struct mr_worker *w = &g->w;
	struct mr_err err = { 0 };
	char text[300];

	if (l->pipeline)
		return;
	snprintf(text, sizeof(text), "synthetic 4 | %s", jobs[i].steps);
	if (mr_pipeline_parse(&l->pipeline, text, NULL, &err) ||
	    mr_plan_make(&l->plan, l->pipeline, 1, &err)) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	l->sample_max = SAMPLE_MAX;
	mr_budget_init(&l->budget, 4 * SAMPLE_MAX, false);
	mr_pool_init(&l->pool, &l->budget, 4);
	w->l = l;
	w->stats = calloc(1, sizeof(*w->stats));
	mr_arena_init(&w->scratch, SAMPLE_MAX);
	for (int k = 0; k < l->plan.steps; k++) {
		const struct mr_step *st = &l->plan.step[k];

		l->plan.step[k].out_field = -1; /* not into a batch */
		if (st->op->local)
			w->local[st->stage] = calloc(1, st->op->local);
	}
	MUST(l->plan.step[0].joined >= 1);
}

/* Takes t through the steps, n at a time. */
static int run(struct rig *g, uint64_t index, int n, struct mr_tensor *t)
{
	struct mr_row r = { .b = &g->b, .index = index };
	struct mr_worker *w = &g->w;
	struct mr_plan *p = &g->l.plan;
	int e = 0;

	w->err = (struct mr_err){ 0 };
	for (int k = 0; !e && k < p->steps; k += p->step[k].joined) {
		int left = p->steps - k;

		p->step[k].joined =
			mr_join_count(&p->step[k], n < left ? n : left);
		MUST(p->step[k].joined);
		e = mr_join_run(w, &r, &p->step[k], t);
	}
	MUST(e <= 0 && (!e || (w->err.code == e && w->err.text[0])));
	return e;
}

struct result {
	int e;
	struct mr_tensor t; /* whose data is its own */
};

static struct result result_of(struct rig *g, uint64_t index, int n,
			       const struct mr_tensor *file)
{
	struct result r = { .t = *file };

	r.e = run(g, index, n, &r.t);
	if (!r.e) {
		size_t bytes = mr_tensor_bytes(&r.t);

		r.t.data = memcpy(malloc(bytes), r.t.data, bytes);
	}
	return r;
}

static void same(const struct result *a, const struct result *b)
{
	if (a->e || b->e)
		return;
	MUST(!memcmp(a->t.shape, b->t.shape, sizeof(a->t.shape)));
	MUST(mr_tensor_bytes(&a->t) == mr_tensor_bytes(&b->t));
	MUST(!memcmp(a->t.data, b->t.data, mr_tensor_bytes(&a->t)));
}

static void drop(struct result *r)
{
	if (!r->e)
		free(r->t.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mr_tensor file;
	struct result once, steps, theirs;
	int i;

	if (size < 2)
		return 0;
	i = data[0] % JOBS;
	prepare(&rigs[0][i], i);
	prepare(&rigs[1][i], i);
	file = (struct mr_tensor){ .dtype = MR_U8,
				   .ndim = 1,
				   .shape = { (int64_t)size - 2 },
				   .data = (void *)(uintptr_t)(data + 2) };
	once = result_of(&rigs[0][i], data[1], MR_MAX_STEPS, &file);
	/* What lies beside a crop may be bad, what lies in it not. */
	if (jobs[i].alone && (!once.e || once.e == MR_EDATA)) {
		steps = result_of(&rigs[0][i], data[1], 1, &file);
		MUST(steps.e || !once.e);
		same(&once, &steps);
		drop(&steps);
	}
	if (!strstr(jobs[i].steps, "fast")) {
		setenv("MILLRACE_LIBJPEG", "1", 1);
		theirs = result_of(&rigs[1][i], data[1], MR_MAX_STEPS, &file);
		unsetenv("MILLRACE_LIBJPEG");
		MUST(theirs.e || !once.e);
		MUST(!theirs.e || once.e || strchr(jobs[i].steps, '|'));
		same(&once, &theirs);
		drop(&theirs);
	}
	drop(&once);
	return 0;
}

/* ---- checksums, which would keep all but the first change out ---- */

static uint32_t crc(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;

	for (; n; n--, p++) {
		c ^= *p;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

static uint32_t number(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void correct_png(uint8_t *p, size_t n)
{
	size_t at = 8;

	while (n >= 12 && at <= n - 12) {
		size_t length = number(p + at);
		uint32_t c;

		if (length > n - 12 - at)
			return;
		c = crc(p + at + 4, length + 4);
		for (int i = 0; i < 4; i++)
			p[at + 8 + length + (size_t)i] =
				(uint8_t)(c >> (24 - 8 * i));
		at += 12 + length;
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
			       unsigned seed)
{
	size = LLVMFuzzerMutate(data, size, max);
	/* Sometimes a wrong one stays. */
	if (size > 10 && seed % 16 && !memcmp(data + 2, "\x89PNG", 4))
		correct_png(data + 2, size - 2);
	return size;
}
