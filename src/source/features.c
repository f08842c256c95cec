/* SPDX-License-Identifier: Apache-2.0 */
#include "source/features.h"

#include <limits.h>
#include <stdio.h>

#include "core/str.h"

enum { FEATURES_MAX = 4096, NAME_BYTES = 1024 };

static const char *const kind_name[] = { "nothing", "bytes", "floats",
					 "integers" };

/* ---- the survey ---- */

void mr_survey_fini(struct mr_survey *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->seen[i].name);
	free(s->seen);
	*s = (struct mr_survey){ 0 };
}

static struct mr_seen *find_seen(const struct mr_survey *s, const char *name,
				 size_t len)
{
	for (size_t i = 0; i < s->n; i++)
		if (strlen(s->seen[i].name) == len &&
		    !memcmp(s->seen[i].name, name, len))
			return &s->seen[i];
	return NULL;
}

static int new_seen(struct mr_survey *s, const struct mr_feature *f,
		    struct mr_seen **out, struct mr_err *err)
{
	char name[NAME_BYTES + 1];
	int e;

	if (f->name_len > NAME_BYTES || memchr(f->name, 0, f->name_len))
		return mr_err_set(err, MR_EDATA,
				  "a feature's name has %zu bytes, or zeros in "
				  "it",
				  f->name_len);
	e = mr_grow(&s->seen, &s->cap, s->n + 1, sizeof(*s->seen), FEATURES_MAX,
		    err);
	if (e)
		return e;
	snprintf(name, sizeof(name), "%.*s", (int)f->name_len, f->name);
	s->seen[s->n] = (struct mr_seen){ .name = mr_strdup(name, err),
					  .steps = f->steps,
					  .least = SIZE_MAX,
					  .picture = true };
	if (!s->seen[s->n].name)
		return MR_ENOMEM;
	*out = &s->seen[s->n++];
	return 0;
}

static bool is_picture(const struct mr_span *s)
{
	static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff };
	static const uint8_t png[] = { 0x89, 'P', 'N', 'G' };

	return (s->n > 3 && !memcmp(s->p, jpeg, 3)) ||
	       (s->n > 4 && !memcmp(s->p, png, 4));
}

static int other_kind(const struct mr_seen *q, const struct mr_feature *f,
		      enum mr_feature_kind kind, struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "feature '%s' holds %s%s here, and %s%s before",
			  q->name, kind_name[kind], f->steps ? " in steps" : "",
			  kind_name[q->kind], q->steps ? " in steps" : "");
}

static int survey_feature(struct mr_survey *s, const struct mr_feature *f,
			  struct mr_err *err)
{
	struct mr_seen *q = find_seen(s, f->name, f->name_len);
	struct mr_values v;
	int e = q ? 0 : new_seen(s, f, &q, err);

	if (!e)
		e = mr_feature_measure(f, &v, err);
	if (e || v.kind == MR_FEATURE_NONE)
		return e;
	if (q->kind && (q->kind != v.kind || q->steps != f->steps))
		return other_kind(q, f, v.kind, err);
	q->kind = v.kind;
	q->steps = f->steps;
	if (q->last != s->records)
		q->records++;
	q->last = s->records;
	q->least = v.least < q->least ? v.least : q->least;
	q->most = v.most > q->most ? v.most : q->most;
	q->picture = q->picture && v.count == 1 && is_picture(&v.first);
	return 0;
}

int mr_survey_add(struct mr_survey *s, const void *bytes, size_t n,
		  struct mr_err *err)
{
	struct mr_example x;
	struct mr_feature f;
	int r;

	s->records++;
	mr_example_begin(&x, bytes, n);
	while ((r = mr_example_next(&x, &f, err)) > 0) {
		int e = survey_feature(s, &f, err);

		if (e)
			return e;
	}
	return r;
}

/* ---- layouts ---- */

static enum mr_feature_layout layout_of(const struct mr_survey *s,
					const struct mr_seen *q)
{
	bool bytes = q->kind == MR_FEATURE_BYTES;

	if (q->steps && !bytes && q->least == q->most)
		return q->most == 1 ? MR_LAYOUT_FLAT : MR_LAYOUT_FIXED;
	if (q->steps || (bytes && q->most > 1))
		return MR_LAYOUT_PIECES;
	if (!bytes && q->least == 1 && q->most == 1 && q->records == s->records)
		return MR_LAYOUT_SCALAR;
	return MR_LAYOUT_FLAT;
}

/* "[]" or "[28x28x1]"; what a user wants instead. */
static int parse_shape(struct mr_choice *c, const char *s, size_t n,
		       struct mr_err *err)
{
	const char *p = s + 1, *end = s + n - 1;

	c->ndim = 0;
	c->each = 1;
	while (p < end) {
		char *stop;
		long long v = strtoll(p, &stop, 10);

		if (*p < '0' || *p > '9' || v < 1 || v > INT32_MAX ||
		    c->ndim == MR_MAX_DIMS - 2 || (*stop != 'x' && stop != end))
			return mr_err_set(err, MR_EINVAL,
					  "features=: '%.*s' is no shape; "
					  "write NAME[] or NAME[28x28x1]",
					  (int)n, s);
		c->dims[c->ndim++] = v;
		if (c->each > INT64_MAX / 8 / v)
			return mr_err_set(err, MR_EINVAL,
					  "features=: the shape %.*s is too "
					  "large",
					  (int)n, s);
		c->each *= v;
		p = stop + (stop < end);
	}
	if (c->ndim)
		c->layout = MR_LAYOUT_FIXED;
	else if (c->kind == MR_FEATURE_BYTES || c->steps)
		c->layout = MR_LAYOUT_PIECES;
	else
		c->layout = MR_LAYOUT_FLAT;
	return 0;
}

/* ---- fields ---- */

/* A long name is known by its end, which says more than its beginning. */
static void field_name(const char *name, const char *more, char *out)
{
	size_t n = strlen(name), room = MR_NAME_MAX - 1 - strlen(more);

	snprintf(out, MR_NAME_MAX, "%s%s", name + (n > room ? n - room : 0),
		 more);
	for (char *c = out; *c; c++)
		if ((unsigned char)*c <= ' ' || strchr(",|#'\"[]=\177", *c))
			*c = '_';
}

static int add_field(struct mr_choices *c, const struct mr_choice *q,
		     const char *more, enum mr_dtype dtype, int ndim,
		     const int64_t *shape, struct mr_err *err)
{
	char name[MR_NAME_MAX];

	field_name(q->name, more, name);
	for (int i = 0; i < c->fields.n; i++)
		if (!strcmp(c->fields.item[i].name, name))
			return mr_err_set(err, MR_EDATA,
					  "features '%s' and another one would "
					  "both be the field '%s'; choose one "
					  "with features=",
					  q->name, name);
	mr_fields_add(&c->fields, name, dtype, ndim, shape);
	return 0;
}

static int add_fields(struct mr_choices *c, struct mr_choice *q,
		      struct mr_err *err)
{
	static const enum mr_dtype dtype[] = { MR_NONE, MR_U8, MR_F32, MR_I64 };
	int64_t shape[MR_MAX_DIMS + 1] = { MR_ANY }, any = MR_ANY;
	bool fixed = q->layout == MR_LAYOUT_FIXED;
	int before = fixed ? q->steps : q->layout != MR_LAYOUT_SCALAR;
	int ndim = before + (fixed ? q->ndim : 0), e;

	for (int i = 0; fixed && i < q->ndim; i++)
		shape[before + i] = q->dims[i];
	q->field = c->fields.n;
	q->lengths = -1;
	e = add_field(c, q, "", dtype[q->kind], ndim, shape, err);
	if (!e && q->layout == MR_LAYOUT_PIECES) {
		q->lengths = c->fields.n;
		e = add_field(c, q, "_lengths", MR_I64, 1, &any, err);
	}
	return e;
}

/* ---- the choice ---- */

/* The names that there are, as many as fit into buf, or into `fields`. */
static const char *names_of(const struct mr_survey *s, int fields, char *buf,
			    size_t cap)
{
	size_t at = 0;

	*buf = 0;
	for (size_t i = 0; i < s->n; i++) {
		int n;

		if (s->seen[i].kind == MR_FEATURE_NONE)
			continue;
		fields -= layout_of(s, &s->seen[i]) == MR_LAYOUT_PIECES ? 2 : 1;
		if (fields < 0)
			break;
		n = snprintf(buf + at, cap - at, "%s%s", at ? "," : "",
			     s->seen[i].name);
		if (n < 0 || (size_t)n >= cap - at) {
			snprintf(buf + (at < cap - 4 ? at : cap - 4), 4, "...");
			break;
		}
		at += (size_t)n;
	}
	return buf;
}

static int choose(struct mr_choices *c, const struct mr_survey *s,
		  const struct mr_seen *q, const char *shape, size_t shape_len,
		  struct mr_err *err)
{
	struct mr_choice *o;
	int e = 0;

	if (c->n == MR_MAX_FIELDS)
		return MR_ELIMIT;
	o = &c->item[c->n];
	*o = (struct mr_choice){ .name = mr_strdup(q->name, err),
				 .name_len = strlen(q->name),
				 .kind = q->kind,
				 .steps = q->steps,
				 .layout = layout_of(s, q),
				 .ndim = 1,
				 .dims = { (int64_t)q->most },
				 .each = (int64_t)q->most };
	if (!o->name)
		return MR_ENOMEM;
	c->n++;
	if (shape_len)
		e = parse_shape(o, shape, shape_len, err);
	if (!e &&
	    c->fields.n + 1 + (o->layout == MR_LAYOUT_PIECES) > MR_MAX_FIELDS)
		return MR_ELIMIT;
	if (!e && o->layout == MR_LAYOUT_FIXED && o->steps &&
	    o->kind == MR_FEATURE_BYTES)
		e = mr_err_set(err, MR_EINVAL,
			       "features=: '%s' holds bytes in steps, which "
			       "have no shape; leave it out",
			       o->name);
	return e ? e : add_fields(c, o, err);
}

static int too_many(const struct mr_survey *s, const char *where,
		    struct mr_err *err)
{
	char names[600];

	return mr_err_set(err, MR_ELIMIT,
			  "%s: the features, %zu are there, would be more than "
			  "%d fields, which are the most; choose some, as the "
			  "first of them: features=%s",
			  where, s->n, MR_MAX_FIELDS,
			  names_of(s, MR_MAX_FIELDS, names, sizeof(names)));
}

static int choose_named(struct mr_choices *c, const struct mr_survey *s,
			const char *want, const char *where, struct mr_err *err)
{
	for (const char *p = want;; p++) {
		size_t len = strcspn(p, ","), name = len;
		const struct mr_seen *q = find_seen(s, p, len);
		char names[600];
		int e;

		if (!q && len && p[len - 1] == ']') {
			const char *open = memchr(p, '[', len);

			name = open ? (size_t)(open - p) : len;
			q = find_seen(s, p, name);
		}
		if (!q && memchr(p, '[', len) && p[len - 1] != ']')
			return mr_err_set(err, MR_EINVAL,
					  "features=: '%.*s' has a [ without "
					  "a ] at its end; write NAME[] or "
					  "NAME[28x28x1]",
					  (int)len, p);
		if (!q || q->kind == MR_FEATURE_NONE)
			return mr_err_set(
				err, MR_EINVAL,
				"%s: %s '%.*s' in the first %llu records; "
				"features= takes of: %s",
				where,
				q ? "nothing is in the feature" :
				    "there is no feature",
				(int)name, p, (unsigned long long)s->records,
				names_of(s, INT_MAX, names, sizeof(names)));
		e = choose(c, s, q, p + name, len - name, err);
		if (e == MR_ELIMIT)
			return too_many(s, where, err);
		if (e)
			return e;
		p += len;
		if (!*p)
			return 0;
	}
}

static int rank(const struct mr_seen *q)
{
	if (q->kind != MR_FEATURE_BYTES || q->most > 1 || q->steps)
		return 3;
	if (q->picture)
		return 0;
	if (strstr(q->name, "image/encoded"))
		return 1;
	return strstr(q->name, "image") || strstr(q->name, "jpeg") ||
			       strstr(q->name, "png") ?
		       2 :
		       3;
}

static int by_rank(const void *a, const void *b)
{
	const struct mr_seen *const *p = a, *const *q = b;
	int d = rank(*p) - rank(*q);

	return d ? d : strcmp((*p)->name, (*q)->name);
}

static int choose_all(struct mr_choices *c, const struct mr_survey *s,
		      const char *where, struct mr_err *err)
{
	const struct mr_seen **order = mr_alloc(s->n, sizeof(*order), err);
	int e = order ? 0 : MR_ENOMEM;

	for (size_t i = 0; !e && i < s->n; i++)
		order[i] = &s->seen[i];
	if (!e)
		qsort(order, s->n, sizeof(*order), by_rank);
	for (size_t i = 0; !e && i < s->n; i++) {
		/* Nothing is known of it. */
		if (order[i]->kind == MR_FEATURE_NONE)
			continue;
		e = choose(c, s, order[i], "", 0, err);
		if (e == MR_ELIMIT)
			e = too_many(s, where, err);
	}
	free(order);
	return e;
}

int mr_choices_make(struct mr_choices *c, const struct mr_survey *s,
		    const char *want, const char *where, struct mr_err *err)
{
	int e = *want ? choose_named(c, s, want, where, err) :
			choose_all(c, s, where, err);

	if (!e && !c->n)
		e = mr_err_set(err, MR_EDATA,
			       "%s: its records have no features", where);
	return e;
}

void mr_choices_fini(struct mr_choices *c)
{
	for (int i = 0; i < c->n; i++)
		free(c->item[i].name);
	c->n = 0;
}
