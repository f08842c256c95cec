/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pixels image steps would choose, for tests that compare it with
 * others.
 *
 * usage: crop_tool H W COUNT SEED FIRST 'STEP | STEP...'
 * For samples 0 to COUNT - 1 of H x W x 3 and the steps, the first of which
 * is number FIRST of its pipeline: a line with x y w h of the box, the size
 * it is scaled to, x y w h of the window, and 1 if it is mirrored.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rng.h"
#include "op/image.h"
#include "pipe/plan.h"

static struct mr_plan plan;

static void print(const struct mr_view *v)
{
	const struct mr_rect *b = &v->box, *w = &v->window;

	printf("%lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %d\n",
	       (long long)b->x, (long long)b->y, (long long)b->w,
	       (long long)b->h, (long long)v->w, (long long)v->h,
	       (long long)w->x, (long long)w->y, (long long)w->w,
	       (long long)w->h, v->mirror);
}

static void look(int64_t h, int64_t w, uint64_t seed, uint64_t sample,
		 uint64_t first)
{
	struct mr_err e = { 0 };
	struct mr_view v;

	mr_view_init(&v, h, w);
	for (int i = 0; i < plan.steps; i++) {
		const struct mr_step *st = &plan.step[i];
		struct mr_rng rng =
			mr_rng_for(seed, 0, sample, first + (uint64_t)i);
		struct mr_opctx cx = { .self = st->self,
				       .rng = &rng,
				       .index = sample,
				       .err = &e };

		if (!st->op->image || !st->op->image->view)
			errx(2, "%s chooses no pixels", st->op->name);
		if (st->op->image->view(&cx, &v))
			errx(1, "%s", e.text);
	}
	print(&v);
}

int main(int argc, char **argv)
{
	struct mr_pipeline *p;
	struct mr_err e = { 0 };
	char text[1000];
	long long h, w, n;

	if (argc != 7)
		errx(2, "usage: crop_tool H W COUNT SEED FIRST STEPS");
	h = atoll(argv[1]);
	w = atoll(argv[2]);
	n = atoll(argv[3]);
	snprintf(text, sizeof(text), "synthetic %lld,%lld,3 | %s", h, w,
		 argv[6]);
	if (mr_pipeline_parse(&p, text, NULL, &e) ||
	    mr_plan_make(&plan, p, 1, &e))
		errx(2, "%s", e.text);
	for (long long i = 0; i < n; i++)
		look(h, w, strtoull(argv[4], NULL, 10), (uint64_t)i,
		     strtoull(argv[5], NULL, 10));
	mr_pipeline_free(p);
}
