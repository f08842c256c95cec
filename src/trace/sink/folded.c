/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks of the spans: role;work;sample;step. Threads of a role are
 * one. What a stretch of work or a sample spent in no span inside of it is
 * the engine's.
 */
#include "core/mem.h"
#include "trace/sink/folds.h"
#include "trace/sink/nest.h"
#include "trace/sink/sinks.h"

enum { KNOWN = 64 * 256 }; /* names: a kind and a step */

struct folded {
	const struct mr_roll *r;
	struct mr_folds *folds;
	struct mr_nest *nest;
	uint32_t *at; /* places of the tree at hand */
	size_t cap;
	/* places of names below the last one asked for: most are the same */
	struct {
		uint32_t above, place;
	} last[KNOWN];
	struct mr_err failed;
};

static uint32_t below(struct folded *f, uint32_t above, unsigned kind,
		      unsigned step, const char *name)
{
	unsigned k = kind * 256 + step;

	if (!f->last[k].place || f->last[k].above != above) {
		f->last[k].above = above;
		f->last[k].place = mr_folds_below(f->folds, above, name);
	}
	return f->last[k].place;
}

static uint32_t place_of(struct folded *f, uint32_t above,
			 const struct mr_mrt_span *s)
{
	return below(f, above, s->kind, s->kind == MR_SPAN_STEP ? s->step : 0,
		     mr_roll_name(f->r, s));
}

/* Functions of SMPL chunks that fall into n go below `place`, and what they
 * take is not its own. */
static void add(struct folded *f, uint32_t place, const struct mr_nested *n)
{
	if (n->s.kind == MR_SPAN_WORK || n->s.kind == MR_SPAN_SAMPLE)
		place = below(f, place, 0, n->s.kind, "engine");
	mr_folds_add(f->folds, place, n->self);
}

static void fold(void *self, const struct mr_roll_thread *t,
		 const struct mr_nested *n, size_t count)
{
	struct folded *f = self;
	uint32_t role = mr_folds_below(f->folds, 0, t->is.role);

	if (mr_grow(&f->at, &f->cap, count, sizeof(*f->at), SIZE_MAX / 8,
		    &f->failed))
		return;
	for (size_t i = 0; i < count; i++) {
		uint32_t above =
			n[i].parent == MR_NEST_NONE ? role : f->at[n[i].parent];

		f->at[i] = place_of(f, above, &n[i].s);
		add(f, f->at[i], &n[i]);
	}
}

static void put_span(void *self, struct mr_roll_thread *t,
		     const struct mr_mrt_span *s)
{
	struct folded *f = self;

	mr_nest_add(f->nest, t, s);
}

int mr_folded_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err)
{
	struct folded *f = mr_alloc(1, sizeof(*f), err);
	int e = f ? 0 : MR_ENOMEM;

	if (!e) {
		f->r = r;
		e = mr_folds_new(&f->folds, err);
	}
	if (!e)
		e = mr_nest_new(&f->nest, r, fold, f, err);
	if (!e) {
		mr_roll_spans(r, m, put_span, f);
		e = mr_nest_end(f->nest, err);
	}
	if (!e && f->failed.code) {
		e = f->failed.code;
		if (err)
			*err = f->failed;
	}
	if (!e)
		mr_folds_write(f->folds, o);
	if (f) {
		mr_nest_free(f->nest);
		mr_folds_free(f->folds);
		free(f->at);
	}
	free(f);
	return e;
}
