/* SPDX-License-Identifier: Apache-2.0 */
/* One example becomes the fields that were chosen. */
#include "source/features.h"

/* What is empty lies here. */
static const uint64_t nothing;

static int misfit(const struct mr_load *ld, const struct mr_choice *c,
		  const char *is, const char *remedy)
{
	return mr_err_set(ld->err, MR_EDATA,
			  "feature '%s' %s; %s: features=%s[]", c->name, is,
			  remedy, c->name);
}

static int load_missing(const struct mr_load *ld, const struct mr_choice *c,
			struct mr_tensor *f)
{
	if (c->layout == MR_LAYOUT_SCALAR ||
	    (c->layout == MR_LAYOUT_FIXED && !c->steps))
		return mr_err_set(ld->err, MR_EDATA,
				  "feature '%s' is missing or empty; where "
				  "some records lack it, say features=%s[]",
				  c->name, c->name);
	f[c->field].shape[0] = 0;
	f[c->field].data = (void *)(uintptr_t)&nothing;
	if (c->lengths >= 0) {
		f[c->lengths].shape[0] = 0;
		f[c->lengths].data = (void *)(uintptr_t)&nothing;
	}
	return 0;
}

static int check_values(const struct mr_load *ld, const struct mr_choice *c,
			const struct mr_values *v)
{
	bool bytes = c->kind == MR_FEATURE_BYTES;
	size_t each = bytes ? v->bytes : v->count;

	if (v->kind != c->kind)
		return mr_err_set(ld->err, MR_EDATA,
				  "feature '%s' has another type than in the "
				  "first records",
				  c->name);
	switch (c->layout) {
	case MR_LAYOUT_SCALAR:
		if (v->count != 1)
			return misfit(ld, c, "has not one value as others have",
				      "take it as a list");
		break;
	case MR_LAYOUT_FLAT:
		if (bytes && v->count > 1)
			return misfit(ld, c, "has several values, not one",
				      "take it with lengths");
		if (c->steps && v->count != v->steps)
			return misfit(ld, c, "has steps of not one value",
				      "take it with lengths");
		break;
	case MR_LAYOUT_FIXED:
		if (c->steps ? v->least != (size_t)c->each ||
				       v->most != (size_t)c->each :
			       each != (size_t)c->each)
			return misfit(ld, c,
				      "does not fill the shape that was said "
				      "or found",
				      "take it as it comes");
		break;
	case MR_LAYOUT_PIECES:
		if (bytes && c->steps && v->count != v->steps)
			return mr_err_set(ld->err, MR_EDATA,
					  "feature '%s' has steps of not one "
					  "text, which cannot be told apart",
					  c->name);
		break;
	}
	return 0;
}

static int load_values(const struct mr_load *ld, const struct mr_choice *c,
		       const struct mr_feature *x, const struct mr_values *v,
		       struct mr_tensor *f)
{
	struct mr_tensor *t = &f[c->field];
	bool bytes = c->kind == MR_FEATURE_BYTES;
	size_t n = bytes ? v->bytes : v->count;
	size_t room = n * mr_dtype_size(t->dtype);

	if (c->layout == MR_LAYOUT_FLAT || c->layout == MR_LAYOUT_PIECES)
		t->shape[0] = (int64_t)n;
	else if (c->steps)
		t->shape[0] = (int64_t)v->steps;
	if (bytes && v->count == 1) { /* used where it lies */
		t->data = (void *)(uintptr_t)v->first.p;
		return 0;
	}
	t->data = ld->room(ld, c->field, room);
	if (!t->data)
		return ld->err->code;
	mr_feature_copy(x, t->data, room);
	return 0;
}

static int load_lengths(const struct mr_load *ld, const struct mr_choice *c,
			const struct mr_feature *x, const struct mr_values *v,
			struct mr_tensor *f)
{
	struct mr_tensor *t = &f[c->lengths];
	size_t n = c->kind == MR_FEATURE_BYTES ? v->count : v->steps;

	t->shape[0] = (int64_t)n;
	t->data = ld->room(ld, c->lengths, n * sizeof(int64_t));
	if (!t->data)
		return ld->err->code;
	mr_feature_lengths(x, v, t->data, n);
	return 0;
}

static int load_one(const struct mr_load *ld, const struct mr_choice *c,
		    const struct mr_feature *x, struct mr_tensor *f)
{
	struct mr_values v = { 0 };
	int e = x->name ? mr_feature_measure(x, &v, ld->err) : 0;

	if (e)
		return e;
	if (v.kind == MR_FEATURE_NONE || !v.count)
		return load_missing(ld, c, f);
	e = check_values(ld, c, &v);
	if (!e)
		e = load_values(ld, c, x, &v, f);
	if (!e && c->lengths >= 0)
		e = load_lengths(ld, c, x, &v, f);
	return e;
}

int mr_choices_load(const struct mr_choices *c, const struct mr_load *ld,
		    const void *bytes, size_t n, struct mr_tensor *f)
{
	struct mr_feature found[MR_MAX_FIELDS] = { 0 }, x;
	struct mr_example ex;
	int r, at = 0;

	mr_example_begin(&ex, bytes, n);
	while ((r = mr_example_next(&ex, &x, ld->err)) > 0) {
		/* Records of one file mostly have one order. */
		for (int k = 0; k < c->n; k++, at++) {
			const struct mr_choice *q;

			at = at < c->n ? at : 0;
			q = &c->item[at];
			if (q->name_len == x.name_len && q->steps == x.steps &&
			    !memcmp(q->name, x.name, x.name_len)) {
				found[at++] = x;
				break;
			}
		}
	}
	for (int i = 0; !r && i < c->n; i++)
		r = load_one(ld, &c->item[i], &found[i], f);
	return r;
}
