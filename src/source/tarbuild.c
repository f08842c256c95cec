/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the index of a tar: members become samples. */
#include <stdio.h>

#include "source/tarhead.h"
#include "source/tarindex.h"

enum { NAME_MOST = 16384, EXT_MAX = 255, VARINT = 10 };

struct damage {
	enum mr_tar_damage what;
	uint64_t at, value;
	bool before; /* the sample that is open began after it */
};

struct builder {
	struct mr_tar_index *x;
	const struct mr_part *part;
	/* The sample that is open, if any. */
	bool open;
	struct mr_str key;
	uint8_t *member; /* its members, as in the record */
	size_t used, cap;
	uint64_t members, first, next; /* blocks */
	struct damage own;
	/* Damage whose sample is not known yet. */
	struct damage doubt;
	uint64_t usual; /* members that the largest sample has so far */
	bool hurt;	/* some damage was found */
};

/* ---- names ---- */

/* A folder or file __of_this_form__ has remarks, no samples. */
static bool is_remark(const char *name, size_t n)
{
	const char *slash = memchr(name, '/', n);
	size_t k = slash ? (size_t)(slash - name) : n;

	return k >= 4 && !memcmp(name, "__", 2) &&
	       !memcmp(name + k - 2, "__", 2);
}

/* As WebDataset: the key ends at the first dot of the last part. Names that
 * begin with a dot, as macOS adds to each file, are no samples, nor are those
 * without an extension, nor what is too long for any file's name. */
static bool split(const char *name, size_t n, size_t *key, size_t *ext)
{
	const char *slash = memrchr(name, '/', n);
	size_t base = slash ? (size_t)(slash + 1 - name) : 0;
	const char *dot = memchr(name + base, '.', n - base);

	if (!dot || dot == name + base || dot + 1 == name + n || n > NAME_MOST)
		return false;
	*key = (size_t)(dot - name);
	*ext = *key + 1;
	if (n - *ext > EXT_MAX)
		return false;
	for (size_t i = *ext; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~' || strchr(",;", name[i]))
			return false;
	return !is_remark(name, n);
}

static int too_many(const struct builder *b, const char *ext,
		    struct mr_err *err)
{
	return mr_err_set(err, MR_ELIMIT,
			  "%s: more than %d different extensions, '%.60s' is "
			  "one; a name's extension begins at its first dot, so "
			  "keys must have none",
			  b->part->path, MR_TAR_EXTENSIONS, ext);
}

/* The number of an extension, which is new or not. */
static int ext_number(struct builder *b, const char *s, size_t n,
		      uint64_t *number, struct mr_err *err)
{
	struct mr_names *ext = &b->x->ext;
	char low[EXT_MAX + 1];

	for (size_t i = 0; i < n; i++)
		low[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 32 : s[i]);
	low[n] = 0;
	for (*number = 0; *number < ext->n; ++*number)
		if (!strcmp(mr_names_get(ext, *number), low))
			return 0;
	if (ext->n == MR_TAR_EXTENSIONS)
		return too_many(b, low, err);
	return mr_names_add(ext, low, n, err);
}

/* ---- records ---- */

static int put_record(struct builder *b, const char *key, size_t key_len,
		      const struct damage *d, struct mr_err *err)
{
	struct mr_tar_index *x = b->x;
	bool members = b->open && key == b->key.text;
	size_t n = members ? b->used : 0;
	uint8_t *p;
	int e = mr_grow(&x->records, &x->cap,
			x->bytes + key_len + n + 6 * VARINT, 1, UINT32_MAX,
			err);

	if (e)
		return e;
	p = x->records + x->bytes;
	p += mr_varint_put(p, key_len);
	memcpy(p, key, key_len);
	p += key_len;
	p += mr_varint_put(p, d->what);
	if (d->what) {
		p += mr_varint_put(p, d->at);
		p += mr_varint_put(p, d->value);
	}
	p += mr_varint_put(p, members ? b->first : 0);
	p += mr_varint_put(p, members ? b->members : 0);
	if (n)
		memcpy(p, b->member, n);
	x->bytes = (size_t)(p + n - x->records);
	return 0;
}

/* Damage that belongs to no sample that is known is one by itself. */
static int put_doubt(struct builder *b, struct mr_err *err)
{
	int e = b->doubt.what ? put_record(b, "", 0, &b->doubt, err) : 0;

	b->doubt = (struct damage){ 0 };
	return e;
}

/*
 * Of whom was the header that is damaged? Of the sample that was open then or
 * of the one after it, if that has fewer members than others; if both are
 * whole, of a sample of which nothing else is left.
 */
static int close_sample(struct builder *b, struct mr_err *err)
{
	int e = 0;

	if (!b->open)
		return 0;
	if (b->doubt.what && b->members < b->usual) {
		if (!b->own.what)
			b->own = b->doubt;
		b->doubt.what = MR_TAR_WHOLE;
	} else if (b->doubt.what && b->doubt.before) {
		e = put_doubt(b, err);
	}
	b->doubt.before = true;
	if (b->members > b->usual)
		b->usual = b->members;
	if (!e)
		e = put_record(b, b->key.text, b->key.len, &b->own, err);
	b->open = false;
	return e;
}

/* The sample of this key is open. */
static int open_sample(struct builder *b, const char *key, size_t n,
		       struct mr_err *err)
{
	int e;

	if (b->open && b->key.len == n && !memcmp(b->key.text, key, n))
		return 0;
	e = close_sample(b, err);
	if (e)
		return e;
	b->key.len = 0;
	mr_str_addn(&b->key, key, n);
	if (b->key.failed)
		return mr_err_nomem(err, n);
	b->open = true;
	b->used = 0;
	b->members = 0;
	b->first = b->next = 0;
	b->own = (struct damage){ 0 };
	return 0;
}

static int add_member(struct builder *b, const struct mr_tar_entry *m,
		      size_t ext_at, struct mr_err *err)
{
	uint64_t block = m->data / MR_TAR_BLOCK, ext;
	uint8_t *p;
	int e = ext_number(b, m->name + ext_at, m->name_len - ext_at, &ext,
			   err);

	if (!e)
		e = mr_grow(&b->member, &b->cap, b->used + 3 * VARINT, 1,
			    SIZE_MAX / 4, err);
	if (e)
		return e;
	if (!b->members)
		b->first = b->next = block;
	p = b->member + b->used;
	p += mr_varint_put(p, ext);
	p += mr_varint_put(p, block - b->next);
	p += mr_varint_put(p, m->size);
	b->used = (size_t)(p - b->member);
	b->next = block + mr_tar_blocks(m->size);
	b->members++;
	return 0;
}

/* What was unpacked ends where it should not, or has a wrong checksum. */
static bool unpacked_badly(const struct mr_part *p)
{
	return p->plain.fd >= 0 && p->plain.hurt != UINT64_MAX;
}

/* Damage that the walk found in a part, or that unpacking did. */
static struct damage damage_of(const struct builder *b,
			       const struct mr_tar_entry *m)
{
	const struct mr_plain *plain = &b->part->plain;
	struct damage d = { .what = m->damage,
			    .at = m->header,
			    .value = m->value,
			    .before = !b->open };
	bool cut = d.what == MR_TAR_CUT_HEADER || d.what == MR_TAR_CUT_DATA;
	bool doubtful = !d.what && m->data + m->size > plain->sure;

	if (unpacked_badly(b->part) && (cut || doubtful)) {
		d.what = MR_TAR_PACKED;
		d.value = plain->hurt;
	}
	return d;
}

static int add(struct builder *b, const struct mr_tar_entry *m,
	       struct mr_err *err)
{
	struct damage d = damage_of(b, m);
	size_t key, ext;
	int e;

	if (!split(m->name, m->name_len, &key, &ext)) {
		/* Whose it is, is not known; or that it matters to nobody. */
		if (!m->damage || (m->name_len && d.what == MR_TAR_SPARSE))
			return 0;
		e = put_doubt(b, err);
		b->doubt = d;
		b->hurt = true;
		return e;
	}
	e = open_sample(b, m->name, key, err);
	if (!e && d.what && !b->own.what)
		b->own = d;
	b->hurt |= d.what != MR_TAR_WHOLE;
	/* What it is like is known also of a member in doubt. */
	return e || m->damage ? e : add_member(b, m, ext, err);
}

static int build(struct builder *b, struct mr_err *err)
{
	const struct mr_part *part = b->part;
	struct mr_tar_entry m;
	struct mr_tar_walk *w;
	int e = mr_tar_walk_open(&w, part, err);

	while (!e) {
		e = mr_tar_next(w, &m, err);
		if (!e)
			e = add(b, &m, err);
	}
	mr_tar_walk_close(w);
	if (e != MR_END)
		return e;
	/* Cut off between two members: that must not pass for the end. */
	if (unpacked_badly(part) && !b->hurt)
		b->doubt = (struct damage){ .what = MR_TAR_PACKED,
					    .at = b->x->file_size,
					    .value = part->plain.hurt,
					    .before = !b->open };
	e = close_sample(b, err);
	return e ? e : put_doubt(b, err);
}

int mr_tar_index_build(struct mr_tar_index *x, const struct mr_part *part,
		       struct mr_err *err)
{
	struct builder b = { .x = x, .part = part };
	uint8_t *less;
	int e;

	x->file_size = part->size;
	e = build(&b, err);
	mr_str_fini(&b.key);
	free(b.member);
	less = e ? NULL : realloc(x->records, x->bytes ? x->bytes : 1);
	if (less) {
		x->records = less;
		x->cap = x->bytes;
	}
	if (e)
		return e;
	e = mr_tar_index_check(x, err);
	return e ? mr_err_prefix(err, "%s: ", part->path) : 0;
}
