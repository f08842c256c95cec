/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Example         { 1: Features }
 * SequenceExample { 1: Features, 2: FeatureLists }
 * Features        { 1: map of string to Feature }
 * FeatureLists    { 1: map of string to FeatureList }, that { 1: Feature }...
 * Feature         { 1: BytesList | 2: FloatList | 3: Int64List }
 * each list       { 1: value }..., numbers packed into one or not
 * a map's entry   { 1: key, 2: value }
 */
#include "source/example.h"

#include "core/le.h"

/* ---- wire format ---- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct field {
	uint64_t number;
	enum wire wire;
	struct mr_span body; /* of BYTES and of fixed ones */
	uint64_t value;	     /* of VARINT */
};

static void skip(struct mr_span *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

static bool varint(struct mr_span *s, uint64_t *v)
{
	uint64_t r = 0;

	for (size_t i = 0; i < s->n && i < 10; i++) {
		r |= (uint64_t)(s->p[i] & 127) << 7 * i;
		if (s->p[i] < 128) {
			skip(s, i + 1);
			*v = r;
			return true;
		}
	}
	return false;
}

static bool take(struct mr_span *s, uint64_t n, struct mr_span *out)
{
	if (n > s->n)
		return false;
	*out = (struct mr_span){ s->p, (size_t)n };
	skip(s, (size_t)n);
	return true;
}

/* False when the bytes are no message; callers see to the end. */
static bool next_field(struct mr_span *s, struct field *f)
{
	uint64_t tag, n;

	if (!varint(s, &tag))
		return false;
	f->number = tag >> 3;
	f->wire = (enum wire)(tag & 7);
	switch (f->wire) {
	case VARINT:
		return varint(s, &f->value);
	case FIXED64:
		return take(s, 8, &f->body);
	case BYTES:
		return varint(s, &n) && take(s, n, &f->body);
	case FIXED32:
		return take(s, 4, &f->body);
	default: /* groups, which nothing here has */
		return false;
	}
}

/* ---- features by name ---- */

void mr_example_begin(struct mr_example *x, const void *bytes, size_t n)
{
	*x = (struct mr_example){ .rest = { bytes, n } };
}

static int no_example(struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "the record is no tf.train.Example: its bytes do "
			  "not add up to protobuf messages");
}

/* An entry of a map; what is missing in it is empty. */
static bool read_entry(struct mr_span s, struct mr_feature *f)
{
	struct field x;

	f->name = "";
	f->name_len = 0;
	f->body = (struct mr_span){ s.p, 0 };
	while (s.n) {
		if (!next_field(&s, &x))
			return false;
		if (x.wire == BYTES && x.number == 1) {
			f->name = (const char *)x.body.p;
			f->name_len = x.body.n;
		} else if (x.wire == BYTES && x.number == 2) {
			f->body = x.body;
		}
	}
	return true;
}

int mr_example_next(struct mr_example *x, struct mr_feature *f,
		    struct mr_err *err)
{
	struct field y;

	for (;;) {
		if (x->features.n) {
			if (!next_field(&x->features, &y))
				return no_example(err);
			if (y.number != 1 || y.wire != BYTES)
				continue;
			f->steps = x->steps;
			return read_entry(y.body, f) ? 1 : no_example(err);
		}
		if (!x->rest.n)
			return 0;
		if (!next_field(&x->rest, &y))
			return no_example(err);
		if (y.wire == BYTES && (y.number == 1 || y.number == 2)) {
			x->features = y.body;
			x->steps = y.number == 2;
		}
	}
}

/* ---- values ---- */

/* The list in a feature: its kind, and its bytes. */
static bool list_of(struct mr_span s, enum mr_feature_kind *kind,
		    struct mr_span *list)
{
	struct field x;

	*kind = MR_FEATURE_NONE;
	*list = (struct mr_span){ s.p, 0 };
	while (s.n) {
		if (!next_field(&s, &x))
			return false;
		if (x.number < MR_FEATURE_BYTES || x.number > MR_FEATURE_INTS)
			continue;
		/* Two lists of one kind would have to be joined; nobody
		 * writes that. */
		if (x.wire != BYTES || x.number == *kind)
			return false;
		*kind = (enum mr_feature_kind)x.number;
		*list = x.body;
	}
	return true;
}

/* How many numbers are packed in there. */
static bool count_varints(struct mr_span s, size_t *count)
{
	size_t run = 0;

	for (size_t i = 0; i < s.n; i++) {
		run++;
		if (s.p[i] < 128) {
			(*count)++;
			run = 0;
		} else if (run == 10) {
			return false;
		}
	}
	return run == 0;
}

static bool count_field(enum mr_feature_kind kind, const struct field *x,
			size_t *count, struct mr_values *v)
{
	if (kind == MR_FEATURE_BYTES) {
		if (x->wire != BYTES)
			return false;
		if (!v->count && !*count)
			v->first = x->body;
		v->bytes += x->body.n;
		(*count)++;
		return true;
	}
	if (kind == MR_FEATURE_INTS) {
		if (x->wire == BYTES)
			return count_varints(x->body, count);
		(*count)++;
		return x->wire == VARINT;
	}
	*count += x->wire == BYTES ? x->body.n / 4 : 1;
	return (x->wire == BYTES && x->body.n % 4 == 0) || x->wire == FIXED32;
}

static bool measure_step(struct mr_span s, struct mr_values *v)
{
	enum mr_feature_kind kind;
	struct mr_span list;
	struct field x;
	size_t count = 0;

	if (!list_of(s, &kind, &list))
		return false;
	while (list.n) {
		if (!next_field(&list, &x))
			return false;
		if (x.number == 1 && !count_field(kind, &x, &count, v))
			return false;
	}
	/* A step that says nothing is one of no values. */
	if (kind && v->kind && kind != v->kind)
		return false;
	if (kind)
		v->kind = kind;
	v->count += count;
	v->least = !v->steps || count < v->least ? count : v->least;
	v->most = count > v->most ? count : v->most;
	v->steps++;
	return true;
}

static bool measure_steps(struct mr_span s, struct mr_values *v)
{
	struct field x;

	while (s.n) {
		if (!next_field(&s, &x))
			return false;
		if (x.number == 1 &&
		    (x.wire != BYTES || !measure_step(x.body, v)))
			return false;
	}
	return true;
}

int mr_feature_measure(const struct mr_feature *f, struct mr_values *v,
		       struct mr_err *err)
{
	*v = (struct mr_values){ .first = { f->body.p, 0 } };
	if (f->steps ? measure_steps(f->body, v) : measure_step(f->body, v))
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "feature '%.*s': its bytes do not add up to a list "
			  "of values",
			  (int)(f->name_len < 100 ? f->name_len : 100),
			  f->name);
}

/* ---- copies of what was measured ---- */

/* Bounds are kept here too: a file that is mapped may have changed since. */
struct room {
	uint8_t *at, *end;
};

static void put(struct room *r, const void *p, size_t n)
{
	if (n > (size_t)(r->end - r->at))
		return;
	memcpy(r->at, p, n);
	r->at += n;
}

static void copy_field(enum mr_feature_kind kind, const struct field *x,
		       struct room *r)
{
	struct mr_span s = x->body;
	uint64_t v;

	if (kind == MR_FEATURE_INTS && x->wire == BYTES)
		while (s.n && varint(&s, &v))
			put(r, &v, sizeof(v));
	else if (kind == MR_FEATURE_INTS)
		put(r, &x->value, sizeof(x->value));
	else /* Floats are stored as they are here: little-endian. */
		put(r, s.p, s.n);
}

static void copy_step(struct mr_span s, struct room *r)
{
	enum mr_feature_kind kind;
	struct mr_span list;
	struct field x = { 0 };

	if (!list_of(s, &kind, &list))
		return;
	while (list.n && next_field(&list, &x))
		if (x.number == 1)
			copy_field(kind, &x, r);
}

void mr_feature_copy(const struct mr_feature *f, void *to, size_t n)
{
	struct room r = { to, (uint8_t *)to + n };
	struct mr_span s = f->body;
	struct field x = { 0 };

	if (!f->steps)
		copy_step(s, &r);
	while (f->steps && s.n && next_field(&s, &x))
		if (x.number == 1)
			copy_step(x.body, &r);
}

static void step_lengths(struct mr_span s, enum mr_feature_kind want,
			 struct room *r)
{
	enum mr_feature_kind kind;
	struct mr_values v = { 0 };
	struct mr_span list;
	struct field x = { 0 };
	size_t count = 0;

	if (!list_of(s, &kind, &list))
		return;
	while (list.n && next_field(&list, &x)) {
		if (x.number != 1)
			continue;
		if (want == MR_FEATURE_BYTES)
			put(r, &(int64_t){ (int64_t)x.body.n }, 8);
		else
			count_field(kind, &x, &count, &v);
	}
	if (want != MR_FEATURE_BYTES)
		put(r, &(int64_t){ (int64_t)count }, 8);
}

void mr_feature_lengths(const struct mr_feature *f, const struct mr_values *v,
			int64_t *to, size_t n)
{
	struct room r = { (uint8_t *)to, (uint8_t *)(to + n) };
	struct mr_span s = f->body;
	struct field x = { 0 };

	if (!f->steps)
		step_lengths(s, v->kind, &r);
	while (f->steps && s.n && next_field(&s, &x))
		if (x.number == 1)
			step_lengths(x.body, v->kind, &r);
}
