/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <assert.h>

#include "core/err.h"
#include "core/le.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "kernel/shuffle.h"

enum { SMALL = 64 }; /* fields below have their place, and are not packed */

void mr_record_plan_init(struct mr_record_plan *p)
{
	bool packs = strcmp(p->codec->name, "none") != 0;

	p->head = 0;
	for (int i = 0; i < p->fields.n; i++) {
		const struct mr_spec *s = &p->fields.item[i].spec;
		struct mr_tensor t = mr_tensor_of(s);

		p->field[i].open = !mr_spec_fixed(s);
		p->field[i].bytes = p->field[i].open ? 0 : mr_tensor_bytes(&t);
		p->field[i].packed = packs && (p->field[i].open ||
					       p->field[i].bytes >= SMALL);
		p->field[i].align =
			p->field[i].open || p->field[i].bytes >= SMALL ?
				MR_RECORD_ALIGN :
				8;
		for (int d = 0; d < s->ndim; d++)
			p->head += s->shape[d] == MR_ANY ? 8 : 0;
		p->head += p->field[i].packed ? 8 : 0;
	}
}

/* ---- writing ---- */

static bool wide(const struct mr_record_plan *p, const struct mr_tensor *t)
{
	return p->shuffle && mr_dtype_size(t->dtype) > 1;
}

size_t mr_record_bound(const struct mr_record_plan *p,
		       const struct mr_tensor *t)
{
	size_t n = p->head + MR_RECORD_ALIGN;

	for (int i = 0; i < p->fields.n; i++) {
		size_t plain = mr_tensor_bytes(&t[p->fields.item[i].id]);
		size_t most = plain;

		if (p->field[i].packed) {
			most = p->codec->bound(plain);
			if (most == SIZE_MAX || most < plain)
				most = plain; /* stored as it is */
		}
		if (most > SIZE_MAX / 2 - n)
			return SIZE_MAX;
		n += most + MR_RECORD_ALIGN + 8;
	}
	return n;
}

size_t mr_record_fixed(const struct mr_record_plan *p)
{
	size_t n = 0;

	for (int i = 0; i < p->fields.n; i++) {
		if (p->field[i].open || p->field[i].packed)
			return 0;
		n = mr_round_up(n, p->field[i].align) + p->field[i].bytes;
	}
	for (int i = 0; i < p->fields.n; i++)
		if (p->fields.item[i].rated)
			n = mr_round_up(n, 8) + 8;
	return mr_round_up(n, MR_RECORD_ALIGN);
}

bool mr_record_begins(const struct mr_record_plan *p)
{
	return !p->head && !p->field[0].packed;
}

/* Packed bytes into `to`, or 0 in *size when that does not make it smaller. */
static int pack_field(const struct mr_record_plan *p, const struct mr_tensor *t,
		      void **state, struct mr_arena *scratch, uint8_t *to,
		      size_t cap, size_t *size, struct mr_err *err)
{
	size_t plain = mr_tensor_bytes(t), bound = p->codec->bound(plain);
	const void *from = t->data;
	int e;

	*size = 0;
	if (!plain || bound == SIZE_MAX)
		return 0;
	assert(bound <= cap);
	if (wide(p, t)) {
		uint8_t *turned = mr_arena_take(scratch, plain);
		size_t width = mr_dtype_size(t->dtype);

		if (!turned)
			return mr_err_set(err, MR_ELIMIT,
					  "%zu bytes do not fit in the memory "
					  "budget: raise --memory",
					  plain);
		mr_shuffle(turned, from, plain / width, width);
		from = turned;
	}
	e = p->codec->pack(state, p->level, from, plain, to, cap, size, err);
	if (!e && *size >= plain)
		*size = 0;
	return e;
}

/* Behind the fields, where who does not look for them is not in their way. */
static size_t put_rates(const struct mr_record_plan *p, const int64_t *rate,
			uint8_t *to, size_t at)
{
	for (int i = 0; i < p->fields.n; i++) {
		size_t begin = mr_round_up(at, 8);

		if (!p->fields.item[i].rated)
			continue;
		memset(to + at, 0, begin - at);
		mr_le64_put(to + begin, (uint64_t)rate[p->fields.item[i].id]);
		at = begin + 8;
	}
	return at;
}

int mr_record_pack(const struct mr_record_plan *p, const struct mr_tensor *t,
		   const int64_t *rate, void **state, struct mr_arena *scratch,
		   uint8_t *to, size_t cap, size_t *size, struct mr_err *err)
{
	size_t at = p->head, head = 0;

	for (int i = 0; i < p->fields.n; i++) {
		const struct mr_spec *s = &p->fields.item[i].spec;
		const struct mr_tensor *f = &t[p->fields.item[i].id];
		size_t plain = mr_tensor_bytes(f), stored = 0;
		size_t begin = mr_round_up(at, p->field[i].align);
		int e;

		memset(to + at, 0, begin - at);
		for (int d = 0; d < s->ndim; d++) {
			if (s->shape[d] != MR_ANY)
				continue;
			mr_le64_put(to + head, (uint64_t)f->shape[d]);
			head += 8;
		}
		if (p->field[i].packed) {
			e = pack_field(p, f, state, scratch, to + begin,
				       cap - begin, &stored, err);
			if (e)
				return e;
			mr_le64_put(to + head, stored ? stored : plain);
			head += 8;
		}
		if (!stored && plain && f->data != to + begin)
			memcpy(to + begin, f->data, plain);
		at = begin + (stored ? stored : plain);
	}
	at = put_rates(p, rate, to, at);
	*size = mr_round_up(at, MR_RECORD_ALIGN);
	memset(to + at, 0, *size - at);
	assert(*size <= cap);
	return 0;
}

/* ---- reading ---- */

static int damaged(const struct mr_load *ld, const char *field,
		   const char *what)
{
	return mr_err_set(ld->err, MR_EDATA, "damaged record: field '%s': %s",
			  field, what);
}

/* Unpacks `stored` bytes to the field's room. */
static int unpack_field(const struct mr_record_plan *p,
			const struct mr_load *ld, int i, void **state,
			const uint8_t *from, size_t stored, struct mr_tensor *t)
{
	const char *name = p->fields.item[i].name;
	size_t plain = mr_tensor_bytes(t), width = mr_dtype_size(t->dtype);
	void *to, *turned = NULL;
	int e;

	if (plain > ld->limit)
		return mr_err_set(ld->err, MR_ELIMIT,
				  "field '%s' unpacks to %zu bytes; with this "
				  "memory budget a sample may have %zu: raise "
				  "--memory",
				  name, plain, ld->limit);
	to = ld->room(ld, i, plain);
	if (!to)
		return ld->err->code;
	if (wide(p, t)) {
		turned = mr_arena_take(ld->scratch, plain);
		if (!turned)
			return mr_err_set(ld->err, MR_ELIMIT,
					  "field '%s': no room for %zu bytes "
					  "more: raise --memory",
					  name, plain);
	}
	e = p->codec->unpack(state, from, stored, turned ? turned : to, plain,
			     ld->err);
	if (e) {
		mr_err_prefix(ld->err, "damaged record: field '%s': ", name);
		return e;
	}
	if (turned)
		mr_unshuffle(to, turned, plain / width, width);
	t->data = to;
	return 0;
}

static int get_rates(const struct mr_record_plan *p, const struct mr_load *ld,
		     const uint8_t *from, size_t size, size_t at)
{
	for (int i = 0; i < p->fields.n; i++) {
		size_t begin = mr_round_up(at, 8);
		int64_t rate;

		if (!p->fields.item[i].rated)
			continue;
		if (begin > size || size - begin < 8)
			return damaged(ld, p->fields.item[i].name,
				       "its rate goes beyond the record");
		rate = (int64_t)mr_le64(from + begin);
		if (rate < 0)
			return damaged(ld, p->fields.item[i].name,
				       "a rate that cannot be");
		if (ld->rate)
			ld->rate[i] = rate;
		at = begin + 8;
	}
	return 0;
}

int mr_record_unpack(const struct mr_record_plan *p, const struct mr_load *ld,
		     void **state, const uint8_t *from, size_t size,
		     struct mr_tensor *f)
{
	size_t at = p->head, head = 0;

	if (size < p->head)
		return mr_err_set(ld->err, MR_EDATA,
				  "damaged record: %zu bytes", size);
	for (int i = 0; i < p->fields.n; i++) {
		const char *name = p->fields.item[i].name;
		const struct mr_spec *s = &p->fields.item[i].spec;
		size_t begin = mr_round_up(at, p->field[i].align), plain;
		uint64_t stored;
		int64_t elements;
		int e;

		for (int d = 0; d < s->ndim; d++) {
			if (s->shape[d] != MR_ANY)
				continue;
			f[i].shape[d] = (int64_t)mr_le64(from + head);
			head += 8;
		}
		if (p->field[i].open && !mr_shape_elements(f[i].shape, s->ndim,
							   s->dtype, &elements))
			return damaged(ld, name, "a shape that cannot be");
		plain = p->field[i].open ? mr_tensor_bytes(&f[i]) :
					   p->field[i].bytes;
		stored = plain;
		if (p->field[i].packed) {
			stored = mr_le64(from + head);
			head += 8;
		}
		if (begin > size || stored > size - begin || stored > plain)
			return damaged(ld, name, "it goes beyond the record");
		if (stored == plain) {
			f[i].data = (void *)(uintptr_t)(from + begin);
		} else {
			e = unpack_field(p, ld, i, state, from + begin, stored,
					 &f[i]);
			if (e)
				return e;
		}
		at = begin + stored;
	}
	return get_rates(p, ld, from, size, at);
}
