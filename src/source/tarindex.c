/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarindex.h"

#include "core/le.h"
#include "source/indexcache.h"
#include "source/tarhead.h"

/* ---- numbers ---- */

size_t mr_varint_put(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	for (; v > 127; v >>= 7)
		p[n++] = (uint8_t)(v | 128);
	p[n++] = (uint8_t)v;
	return n;
}

bool mr_varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	uint64_t x = 0;

	for (unsigned shift = 0; shift < 63 && *p < end; shift += 7) {
		uint8_t b = *(*p)++;

		x |= (uint64_t)(b & 127) << shift;
		if (b < 128) {
			*v = x;
			return true;
		}
	}
	return false;
}

/* ---- asking ---- */

static bool parse_sample(struct mr_tar_sample *s)
{
	uint64_t len, damage;

	if (!mr_varint_get(&s->p, s->end, &len) ||
	    len > (uint64_t)(s->end - s->p))
		return false;
	s->key = (const char *)s->p;
	s->key_len = (size_t)len;
	s->p += len;
	if (!mr_varint_get(&s->p, s->end, &damage) || damage >= MR_TAR_DAMAGES)
		return false;
	s->damage = (enum mr_tar_damage)damage;
	if (damage && (!mr_varint_get(&s->p, s->end, &s->damage_at) ||
		       !mr_varint_get(&s->p, s->end, &s->damage_value)))
		return false;
	return mr_varint_get(&s->p, s->end, &s->next) &&
	       mr_varint_get(&s->p, s->end, &s->members);
}

static bool parse_member(struct mr_tar_sample *s, struct mr_tar_member *m)
{
	uint64_t gap;

	if (!mr_varint_get(&s->p, s->end, &m->ext) ||
	    !mr_varint_get(&s->p, s->end, &gap) ||
	    !mr_varint_get(&s->p, s->end, &m->size))
		return false;
	/* May wrap around: check() has seen the same numbers, and found that
	 * they lie in the file. */
	m->data = (s->next + gap) * MR_TAR_BLOCK;
	s->next += gap + mr_tar_blocks(m->size);
	s->members--;
	return true;
}

void mr_tar_sample_get(const struct mr_tar_index *x, uint64_t i,
		       struct mr_tar_sample *s)
{
	*s = (struct mr_tar_sample){ .p = x->records + x->at[i],
				     .end = x->records + x->bytes };
	parse_sample(s);
}

bool mr_tar_member_next(struct mr_tar_sample *s, struct mr_tar_member *m)
{
	return s->members && parse_member(s, m);
}

/* ---- checking ---- */

/* The sample's members lie in the file and have known extensions; counts the
 * latter. last: the sample, plus 1, that had each extension. */
static bool check_members(struct mr_tar_index *x, struct mr_tar_sample *s,
			  uint64_t *last)
{
	struct mr_tar_member m;

	while (s->members) {
		if (!parse_member(s, &m) || m.ext >= x->ext.n ||
		    m.data > x->file_size || m.size > x->file_size - m.data)
			return false;
		if (last[m.ext] != x->samples)
			x->having[m.ext]++;
		last[m.ext] = x->samples;
	}
	return true;
}

static int check_records(struct mr_tar_index *x, uint64_t *last,
			 struct mr_err *err)
{
	struct mr_tar_sample s = { .p = x->records,
				   .end = x->records + x->bytes };

	while (s.p < s.end) {
		uint32_t at = (uint32_t)(s.p - x->records);
		int e = mr_grow(&x->at, &x->at_cap, x->samples + 1,
				sizeof(*x->at), SIZE_MAX / 8, err);

		if (e)
			return e;
		x->at[x->samples++] = at;
		if (!parse_sample(&s) || !check_members(x, &s, last))
			return mr_err_set(err, MR_EDATA, "damaged index at %lu",
					  (unsigned long)at);
	}
	return 0;
}

int mr_tar_index_check(struct mr_tar_index *x, struct mr_err *err)
{
	uint64_t *last;
	int e;

	if (x->bytes > UINT32_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "an index of %zu bytes, and 4 GiB are the "
				  "most",
				  x->bytes);
	last = mr_alloc(x->ext.n, sizeof(*last), err);
	x->having = mr_alloc(x->ext.n, sizeof(*x->having), err);
	e = last && x->having ? check_records(x, last, err) : MR_ENOMEM;
	free(last);
	return e;
}

/* ---- a kept one ---- */

static bool parse_index(struct mr_tar_index *x, const uint8_t *p, size_t n)
{
	uint64_t names = n < 8 ? UINT64_MAX : mr_le64(p);
	const char *s = (const char *)p + 8, *end;
	struct mr_err err;

	if (n < 8 || names > n - 8 || (names && s[names - 1]))
		return false;
	for (end = s + names; s < end; s += strlen(s) + 1)
		if (x->ext.n == MR_TAR_EXTENSIONS ||
		    mr_names_add(&x->ext, s, strlen(s), &err))
			return false;
	x->bytes = x->cap = n - 8 - names;
	x->records = mr_alloc(x->bytes, 1, &err);
	if (!x->records)
		return false;
	memcpy(x->records, end, x->bytes);
	return mr_tar_index_check(x, &err) == 0;
}

static bool load_index(struct mr_tar_index *x, const struct mr_part *p,
		       int place)
{
	/* A member takes 512 bytes in the tar and less here. */
	size_t n, max = p->size + (1 << 16);
	uint8_t *data = mr_index_load(p->in, "tar", place, max, &n);
	bool ok;

	if (!data)
		return false;
	x->file_size = p->size;
	ok = parse_index(x, data, n);
	if (!ok)
		mr_tar_index_fini(x);
	free(data);
	return ok;
}

static int save_index(const struct mr_tar_index *x, const struct mr_part *p,
		      int place, struct mr_err *err)
{
	struct mr_str s = { 0 };
	uint8_t names[8];
	int e;

	mr_le64_put(names, x->ext.used);
	mr_str_addn(&s, (const char *)names, sizeof(names));
	mr_str_addn(&s, x->ext.pool, x->ext.used);
	mr_str_addn(&s, (const char *)x->records, x->bytes);
	e = s.failed ? mr_err_nomem(err, x->bytes) :
		       mr_index_save(p->in, "tar", place, s.text, s.len, err);
	mr_str_fini(&s);
	return e;
}

static int find_packing(const struct mr_part *p, enum mr_packing *packing,
			struct mr_err *err)
{
	uint8_t head[6];
	size_t n = p->size < sizeof(head) ? (size_t)p->size : sizeof(head);
	int e = mr_part_read(p, head, n, 0, err);

	if (!e)
		e = mr_packing_of(p->path, head, n, packing, err);
	/* No tar is, but its first name may look like that. */
	if (!e && *packing == MR_PACKED_ZLIB)
		*packing = MR_PACKED_NOT;
	return e;
}

static int index_plain(struct mr_tar_index *x, const struct mr_part *p,
		       int place, struct mr_err *err)
{
	int e;

	if (load_index(x, p, place))
		return 0;
	e = mr_tar_index_build(x, p, err);
	return e ? e : save_index(x, p, place, err);
}

int mr_tar_index_open(struct mr_tar_index *x, struct mr_parts *ps, size_t i,
		      int place, struct mr_err *err)
{
	struct mr_part *p = &ps->item[i];
	enum mr_packing packing;
	struct mr_err other;
	int e = mr_part_open(p, err), made;

	if (!e)
		e = find_packing(p, &packing, err);
	if (!e && packing)
		e = mr_part_unpack(p, ps, packing, err);
	if (e && (e != MR_EDATA || p->plain.fd < 0))
		return e;
	made = packing ? mr_tar_index_build(x, p, e ? &other : err) :
			 index_plain(x, p, place, err);
	/* What was unpacked is no tar: that it is damaged says more. */
	if (made)
		return e ? e : made;
	p->samples = x->samples;
	return 0;
}

void mr_tar_index_fini(struct mr_tar_index *x)
{
	free(x->records);
	free(x->at);
	free(x->having);
	mr_names_fini(&x->ext);
	*x = (struct mr_tar_index){ 0 };
}
