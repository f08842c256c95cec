/* SPDX-License-Identifier: Apache-2.0 */
#include "source/lmdbfile.h"

#include <fnmatch.h>
#include <stdio.h>

#include "core/le.h"

enum {
	HEADER = 16, /* of a page */
	META_BYTES = HEADER + 136,
	DB_BYTES = 48, /* description of a database */
	NODE = 8,      /* head of a node */
	LEVELS = 32,   /* as in LMDB */
	KEY_MAX = 511, /* more is possible, but nobody builds it so */
	PAGE_MIN = 256,
	PAGE_MAX = 65536,
	VERSION = 1,
};

#define MAGIC	0xbeefc0deu
#define NO_PAGE UINT64_MAX

/* Flags of pages, of nodes, of databases. */
enum { BRANCH = 1, LEAF = 2, ANY_KIND = 0x6f };
enum { BIG = 1, SUB_DB = 2, DUPLICATES = 4 };
enum { SORTED_DUPLICATES = 4 };

struct db {
	unsigned flags, depth;
	uint64_t entries, root;
};

struct walk {
	struct mr_lmdb *out;
	struct mr_input *in;
	const char *name, *pattern;
	struct mr_err *err;
	uint64_t page_bytes, last, txn;
	struct db db;	 /* being walked */
	uint64_t seen;	 /* entries, those left out too */
	uint64_t pages;	 /* visited */
	uint8_t *buf;	 /* a page for each level */
	bool found_db;	 /* `name` is in the main database */
	struct db sub;	 /* and this is it */
	char names[300]; /* of databases in it */
};

static int damaged(const struct walk *w, uint64_t page, const char *why)
{
	return mr_err_set(w->err, MR_EDATA,
			  "%s: damaged or truncated: page %llu (byte %llu) %s",
			  mr_input_path(w->in), (unsigned long long)page,
			  (unsigned long long)(page * w->page_bytes), why);
}

/* ---- meta pages ---- */

static struct db read_db(const uint8_t *p)
{
	return (struct db){ .flags = mr_le16(p + 4),
			    .depth = mr_le16(p + 6),
			    .entries = mr_le64(p + 32),
			    .root = mr_le64(p + 40) };
}

static int check_meta(const struct walk *w, const uint8_t *p)
{
	uint64_t size = mr_le32(p + HEADER + 24);

	if (mr_le32(p + HEADER) != MAGIC)
		return mr_err_set(w->err, MR_EDATA,
				  "%s: no LMDB file, or one of a 32-bit or "
				  "big-endian machine",
				  mr_input_path(w->in));
	if (mr_le32(p + HEADER + 4) != VERSION)
		return mr_err_set(w->err, MR_EUNSUPPORTED,
				  "%s: LMDB's format %u is not known, only %d",
				  mr_input_path(w->in),
				  (unsigned)mr_le32(p + HEADER + 4), VERSION);
	if (size < PAGE_MIN || size > PAGE_MAX || size & (size - 1))
		return mr_err_set(
			w->err, MR_EDATA, "%s: damaged: pages of %llu bytes",
			mr_input_path(w->in), (unsigned long long)size);
	return 0;
}

static int read_meta(struct walk *w, uint64_t page)
{
	uint8_t p[META_BYTES];
	int e = mr_input_read(w->in, p, sizeof(p), page * w->page_bytes,
			      w->err);

	if (!e)
		e = check_meta(w, p);
	if (e)
		return e;
	if (page && w->page_bytes != mr_le32(p + HEADER + 24))
		return damaged(w, page, "has another page size than page 0");
	w->page_bytes = mr_le32(p + HEADER + 24);
	if (page && mr_le64(p + HEADER + 128) <= w->txn)
		return 0;
	w->db = read_db(p + HEADER + 24 + DB_BYTES);
	w->last = mr_le64(p + HEADER + 120);
	w->txn = mr_le64(p + HEADER + 128);
	return 0;
}

/* ---- nodes ---- */

static bool is_wanted(const struct walk *w, const uint8_t *key, size_t n)
{
	char text[KEY_MAX + 1];

	if (!*w->pattern)
		return true;
	if (n > KEY_MAX)
		return false;
	memcpy(text, key, n);
	text[n] = 0;
	return fnmatch(w->pattern, text, 0) == 0;
}

static int add_entry(struct walk *w, const uint8_t *key, size_t n, uint64_t at,
		     uint32_t length)
{
	struct mr_lmdb *o = w->out;
	int e;

	if (!is_wanted(w, key, n))
		return 0;
	if (o->used + n > mr_input_size(w->in)) /* nodes that lie on others */
		return damaged(w, at / w->page_bytes,
			       "has keys longer than the file");
	e = mr_grow(&o->entry, &o->cap, o->n + 1, sizeof(*o->entry),
		    SIZE_MAX / sizeof(*o->entry), w->err);
	if (!e)
		e = mr_grow(&o->keys, &o->keys_cap, o->used + n + 1, 1,
			    SIZE_MAX, w->err);
	if (e)
		return e;
	memcpy(o->keys + o->used, key, n);
	o->entry[o->n++] = (struct mr_lmdb_entry){ .at = at,
						   .key = o->used,
						   .length = length,
						   .key_length = (uint16_t)n };
	o->used += n;
	return 0;
}

/* A database in the main one. */
static void note_db(struct walk *w, const uint8_t *key, size_t n,
		    const uint8_t *p)
{
	size_t used = strlen(w->names);

	if (n == strlen(w->name) && !memcmp(key, w->name, n)) {
		w->found_db = true;
		w->sub = read_db(p);
	}
	snprintf(w->names + used, sizeof(w->names) - used, "%s%.*s",
		 used ? ", " : "", (int)n, (const char *)key);
}

/* A long value: its first page is told in the leaf. */
static int add_big(struct walk *w, uint64_t leaf, const uint8_t *key, size_t n,
		   uint64_t page, uint32_t length)
{
	uint64_t most = UINT64_MAX / w->page_bytes - 1;

	if (page < 2 || page > w->last || page > most)
		return damaged(w, leaf, "tells of a value out of the file");
	return add_entry(w, key, n, page * w->page_bytes + HEADER, length);
}

/* p: the node, of which `room` bytes are in the page. */
static int read_leaf_node(struct walk *w, uint64_t page, const uint8_t *p,
			  size_t at, size_t room)
{
	uint32_t length = mr_le16(p) | (uint32_t)mr_le16(p + 2) << 16;
	unsigned flags = mr_le16(p + 4);
	size_t n = mr_le16(p + 6), left;
	const uint8_t *key = p + NODE, *value = key + n;

	if (++w->seen > w->db.entries)
		return damaged(w, page,
			       "has more entries than there should be");
	if (n > room - NODE)
		return damaged(w, page, "has a key that is not all in it");
	left = room - NODE - n;
	if (flags & DUPLICATES)
		return mr_err_set(w->err, MR_EUNSUPPORTED,
				  "%s: several values for one key are not "
				  "taken (MDB_DUPSORT)",
				  mr_input_path(w->in));
	if (left < (flags & BIG ? 8 : length) ||
	    (flags & SUB_DB && (flags & BIG || length < DB_BYTES)))
		return damaged(w, page, "has a value that is not all in it");
	if (flags & BIG)
		return add_big(w, page, key, n, mr_le64(value), length);
	if (flags & SUB_DB) {
		note_db(w, key, n, value);
		return 0;
	}
	return add_entry(w, key, n, page * w->page_bytes + at + NODE + n,
			 length);
}

/* ---- the tree ---- */

static int read_page(struct walk *w, uint64_t page, unsigned level,
		     const uint8_t **out)
{
	uint8_t *p = w->buf + level * w->page_bytes;
	unsigned kind = level + 1 == w->db.depth ? LEAF : BRANCH;
	uint64_t most = mr_input_size(w->in) / w->page_bytes;
	int e;

	if (page < 2 || page > w->last || page >= most)
		return damaged(w, page, "is not in the file");
	if (w->pages++ > most)
		return damaged(w, page, "leads in a circle");
	e = mr_input_read(w->in, p, w->page_bytes, page * w->page_bytes,
			  w->err);
	if (e)
		return e;
	if (mr_le64(p) != page)
		return damaged(w, page, "has the number of another");
	if ((mr_le16(p + 10) & ANY_KIND) != kind)
		return damaged(w, page,
			       kind == LEAF ? "is no leaf page" :
					      "is no branch page");
	if (mr_le16(p + 12) < HEADER || mr_le16(p + 12) > w->page_bytes)
		return damaged(w, page, "has a wrong number of nodes");
	*out = p;
	return 0;
}

static int walk_page(struct walk *w, uint64_t page, unsigned level)
{
	const uint8_t *p = NULL;
	size_t size = w->page_bytes;
	int e = read_page(w, page, level, &p);

	for (size_t i = HEADER; !e && i + 1 < mr_le16(p + 12); i += 2) {
		size_t at = mr_le16(p + i);

		if (at < mr_le16(p + 12) || at + NODE > size)
			return damaged(w, page, "has a node outside of it");
		if (level + 1 == w->db.depth)
			e = read_leaf_node(w, page, p + at, at, size - at);
		else
			e = walk_page(w,
				      mr_le32(p + at) |
					      (uint64_t)mr_le16(p + at + 4)
						      << 32,
				      level + 1);
	}
	return e;
}

static int walk_db(struct walk *w)
{
	int e;

	w->seen = w->pages = 0;
	if (w->db.entries > mr_input_size(w->in) / (NODE + 2))
		return mr_err_set(
			w->err, MR_EDATA,
			"%s: damaged: it has no room for %llu entries",
			mr_input_path(w->in),
			(unsigned long long)w->db.entries);
	if (w->db.flags & SORTED_DUPLICATES)
		return mr_err_set(w->err, MR_EUNSUPPORTED,
				  "%s: a database with several values for one "
				  "key is not taken (MDB_DUPSORT)",
				  mr_input_path(w->in));
	if (w->db.root == NO_PAGE)
		return 0;
	if (!w->db.depth || w->db.depth > LEVELS)
		return mr_err_set(w->err, MR_EDATA,
				  "%s: damaged: a tree of %u levels",
				  mr_input_path(w->in), w->db.depth);
	e = walk_page(w, w->db.root, 0);
	if (!e && w->seen != w->db.entries)
		e = mr_err_set(w->err, MR_EDATA,
			       "%s: damaged: %llu entries, and it should have "
			       "%llu",
			       mr_input_path(w->in),
			       (unsigned long long)w->seen,
			       (unsigned long long)w->db.entries);
	return e;
}

/* ---- the list ---- */

static int walk_named(struct walk *w)
{
	if (!w->found_db)
		return mr_err_set(
			w->err, MR_EINVAL, "%s: no database '%s' in it; %s%s",
			mr_input_path(w->in), w->name,
			*w->names ? "there are: " : "it is one, without a name",
			w->names);
	w->out->n = w->out->used = 0; /* those beside it */
	w->db = w->sub;
	return walk_db(w);
}

int mr_lmdb_list(struct mr_lmdb *db, struct mr_input *in, const char *name,
		 const char *pattern, struct mr_err *err)
{
	struct walk w = { .out = db,
			  .in = in,
			  .name = name,
			  .pattern = pattern,
			  .err = err };
	int e = read_meta(&w, 0);

	if (!e)
		e = read_meta(&w, 1);
	if (e)
		return e;
	w.buf = mr_alloc(LEVELS, w.page_bytes, err);
	if (!w.buf)
		return MR_ENOMEM;
	e = walk_db(&w);
	if (!e && *name)
		e = walk_named(&w);
	else if (!e && *w.names)
		e = mr_err_set(err, MR_EINVAL,
			       "%s: holds several databases; say db= with one "
			       "of: %s",
			       mr_input_path(in), w.names);
	free(w.buf);
	return e;
}

void mr_lmdb_fini(struct mr_lmdb *db)
{
	free(db->entry);
	free(db->keys);
	*db = (struct mr_lmdb){ 0 };
}

size_t mr_lmdb_key(const struct mr_lmdb *db, size_t i, char *buf, size_t cap)
{
	const struct mr_lmdb_entry *e = &db->entry[i];
	size_t n = 0;

	if (cap)
		buf[0] = 0;
	for (size_t k = 0; k < e->key_length; k++) {
		uint8_t c = db->keys[e->key + k];
		bool plain = c >= ' ' && c != 0x7f && c != '\\';
		size_t left = n < cap ? cap - n : 0;

		n += (size_t)snprintf(left ? buf + n : NULL, left,
				      plain ? "%c" : "\\x%02x", c);
	}
	return n;
}
