/* SPDX-License-Identifier: Apache-2.0 */
#include "source/zip.h"

#include <libdeflate.h>
#include <zlib.h>

#include "core/arena.h"
#include "core/le.h"

enum {
	END = 22,	 /* bytes of the end record */
	COMMENT = 65535, /* that may follow it, at most */
	LOCATOR = 20,	 /* of the end record of zip64 */
	END64 = 56,
	ENTRY = 46, /* of the directory, without its texts */
	LOCAL = 30, /* of the head before a member */
	DIRECTORY_MAX = 1 << 24,
	METHOD_STORED = 0,
	METHOD_DEFLATED = 8,
	PEEK_PACKED = 1 << 14,
};

struct reader {
	struct mr_input *in;
	struct mr_arena *mem;
	struct mr_err *err;
	uint64_t size;		     /* of the file */
	uint64_t at, bytes, entries; /* of the directory */
};

static int damaged(const struct reader *r, const char *why)
{
	return mr_err_set(r->err, MR_EDATA, "%s: damaged or truncated: %s",
			  mr_input_path(r->in), why);
}

static void *take(struct mr_input *in, struct mr_arena *mem, uint64_t n,
		  struct mr_err *err)
{
	void *p = n < SIZE_MAX ? mr_arena_take(mem, n ? n : 1) : NULL;

	if (!p)
		mr_err_set(err, MR_ELIMIT,
			   "%s: needs %llu bytes, more than the memory budget "
			   "leaves; raise --memory",
			   mr_input_path(in), (unsigned long long)n);
	return p;
}

/* ---- the end record ---- */

/* Where it is; a comment may follow it. */
static int find_end(struct reader *r, uint64_t *at, uint8_t *end)
{
	size_t n = r->size < END + COMMENT ? (size_t)r->size : END + COMMENT;
	size_t first = n < END + 64 ? n : END + 64; /* mostly there is none */
	uint8_t *p;

	if (n < END)
		return mr_err_set(
			r->err, MR_EDATA, "%s: no zip file: %llu bytes",
			mr_input_path(r->in), (unsigned long long)r->size);
	for (;; first = n) {
		int e;

		p = take(r->in, r->mem, first, r->err);
		if (!p)
			return MR_ELIMIT;
		e = mr_input_read(r->in, p, first, r->size - first, r->err);
		if (e)
			return e;
		for (size_t i = first - END + 1; i-- > 0;)
			if (mr_le32(p + i) == 0x06054b50) {
				memcpy(end, p + i, END);
				*at = r->size - first + i;
				return 0;
			}
		if (first == n)
			return mr_err_set(r->err, MR_EDATA,
					  "%s: no zip file, or truncated: its "
					  "directory is missing",
					  mr_input_path(r->in));
	}
}

/* Numbers that do not fit in the end record are in another one. */
static int read_end64(struct reader *r, uint64_t end)
{
	uint8_t p[END64] = { 0 };
	uint64_t at;
	int e;

	if (end < LOCATOR)
		return 0;
	e = mr_input_read(r->in, p, LOCATOR, end - LOCATOR, r->err);
	if (e || mr_le32(p) != 0x07064b50)
		return e;
	at = mr_le64(p + 8);
	if (at > r->size || r->size - at < END64)
		return damaged(r, "the end record of zip64 is out of the file");
	e = mr_input_read(r->in, p, END64, at, r->err);
	if (e)
		return e;
	if (mr_le32(p) != 0x06064b50)
		return damaged(r, "there is no end record of zip64");
	r->entries = mr_le64(p + 32);
	r->bytes = mr_le64(p + 40);
	r->at = mr_le64(p + 48);
	return 0;
}

static int read_end(struct reader *r)
{
	uint8_t p[END] = { 0 };
	uint64_t at = 0;
	int e = find_end(r, &at, p);

	if (e)
		return e;
	r->entries = mr_le16(p + 10);
	r->bytes = mr_le32(p + 12);
	r->at = mr_le32(p + 16);
	if (r->entries == 0xffff || r->bytes == UINT32_MAX ||
	    r->at == UINT32_MAX)
		e = read_end64(r, at);
	if (e)
		return e;
	if (r->at > at || r->bytes > at - r->at)
		return damaged(r, "its directory is out of the file");
	if (r->bytes > DIRECTORY_MAX || r->entries > r->bytes / ENTRY)
		return damaged(r, "its directory is too large");
	return 0;
}

/* ---- the directory ---- */

/* Sizes and places that do not fit in 32 bits; in this order, if needed. */
static int read_extra(const struct reader *r, const uint8_t *p, size_t n,
		      uint64_t *size, uint64_t *packed, uint64_t *at)
{
	uint64_t *want[] = { size, packed, at };

	while (n >= 4) {
		unsigned id = mr_le16(p);
		size_t k = mr_le16(p + 2);

		if (k > n - 4)
			break;
		p += 4;
		n -= 4 + k;
		for (size_t i = 0; id == 1 && i < MR_COUNT(want); i++) {
			if (*want[i] != UINT32_MAX)
				continue;
			if (k < 8)
				return damaged(r, "numbers of zip64 are "
						  "missing");
			*want[i] = mr_le64(p);
			p += 8;
			k -= 8;
		}
		p += k;
	}
	return 0;
}

/* Where the member's bytes begin: after a head of its own. */
static int skip_local(const struct reader *r, struct mr_zip_member *m)
{
	uint8_t p[LOCAL] = { 0 };
	uint64_t at = m->at;
	int e;

	if (at > r->at || r->at - at < LOCAL)
		return damaged(r, "a member is out of the file");
	e = mr_input_read(r->in, p, LOCAL, at, r->err);
	if (e)
		return e;
	if (mr_le32(p) != 0x04034b50)
		return damaged(r, "a member does not begin where it should");
	m->at = at + LOCAL + mr_le16(p + 26) + mr_le16(p + 28);
	if (m->at > r->at || m->packed > r->at - m->at)
		return damaged(r, "a member is not all in the file");
	return 0;
}

/* An entry of n bytes at most; *used is its length. */
static int read_entry(const struct reader *r, const uint8_t *p, size_t n,
		      struct mr_zip_member *m, size_t *used)
{
	size_t name, extra;
	unsigned method;
	char *text;
	int e;

	if (n < ENTRY || mr_le32(p) != 0x02014b50)
		return damaged(r, "no entry where one should be");
	name = mr_le16(p + 28);
	extra = mr_le16(p + 30);
	*used = ENTRY + name + extra + mr_le16(p + 32);
	if (*used > n)
		return damaged(r, "an entry is not all in the directory");
	text = mr_arena_text(r->mem, (const char *)p + ENTRY, name);
	if (!text)
		return mr_err_nomem(r->err, name);
	method = mr_le16(p + 10);
	if (mr_le16(p + 8) & 1 ||
	    (method != METHOD_STORED && method != METHOD_DEFLATED))
		return mr_err_set(r->err, MR_EUNSUPPORTED,
				  "%s: member '%s' is encrypted, or packed by "
				  "method %u; only deflate is known",
				  mr_input_path(r->in), text, method);
	*m = (struct mr_zip_member){ .name = text,
				     .crc = mr_le32(p + 16),
				     .packed = mr_le32(p + 20),
				     .size = mr_le32(p + 24),
				     .at = mr_le32(p + 42),
				     .deflated = method == METHOD_DEFLATED };
	e = read_extra(r, p + ENTRY + name, extra, &m->size, &m->packed,
		       &m->at);
	if (!e)
		e = skip_local(r, m);
	if (!e && !m->deflated && m->size != m->packed)
		e = damaged(r, "a stored member has two sizes");
	return e;
}

int mr_zip_list(struct mr_input *in, struct mr_arena *mem,
		struct mr_zip_member **out, size_t *n, struct mr_err *err)
{
	struct reader r = {
		.in = in, .mem = mem, .err = err, .size = mr_input_size(in)
	};
	uint8_t *p;
	size_t left, used = 0;
	int e = read_end(&r);

	if (e)
		return e;
	left = (size_t)r.bytes;
	p = take(in, mem, left, err);
	*out = p ? take(in, mem, (r.entries + 1) * sizeof(**out), err) : NULL;
	if (!*out)
		return MR_ELIMIT;
	e = mr_input_read(in, p, left, r.at, err);
	for (*n = 0; !e && *n < r.entries; ++*n, p += used, left -= used)
		e = read_entry(&r, p, left, &(*out)[*n], &used);
	return e;
}

const struct mr_zip_member *mr_zip_find(const struct mr_zip_member *m, size_t n,
					const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(m[i].name, name))
			return &m[i];
	return NULL;
}

/* ---- contents ---- */

static int bad_member(struct mr_input *in, const struct mr_zip_member *m,
		      const char *why, struct mr_err *err)
{
	return mr_err_set(
		err, MR_EDATA, "%s: member '%s' at byte %llu is damaged: %s",
		mr_input_path(in), m->name, (unsigned long long)m->at, why);
}

int mr_zip_bad_crc(struct mr_input *in, const struct mr_zip_member *m,
		   struct mr_err *err)
{
	return bad_member(in, m, "its CRC32 is wrong", err);
}

static int inflate_member(struct mr_input *in, const struct mr_zip_member *m,
			  void *to, struct libdeflate_decompressor **d,
			  struct mr_arena *mem, struct mr_err *err)
{
	uint8_t *p = take(in, mem, m->packed, err);
	int e;

	if (!p)
		return MR_ELIMIT;
	if (!*d)
		*d = libdeflate_alloc_decompressor();
	if (!*d)
		return mr_err_nomem(err, m->packed);
	e = mr_input_read(in, p, m->packed, m->at, err);
	if (e)
		return e;
	if (libdeflate_deflate_decompress(*d, p, m->packed, to, m->size, NULL))
		return bad_member(in, m, "it does not inflate to its size",
				  err);
	return 0;
}

int mr_zip_read(struct mr_input *in, const struct mr_zip_member *m, void *to,
		struct libdeflate_decompressor **inflate_, struct mr_arena *mem,
		struct mr_err *err)
{
	int e = m->deflated ? inflate_member(in, m, to, inflate_, mem, err) :
			      mr_input_read(in, to, m->size, m->at, err);

	if (!e && libdeflate_crc32(0, to, m->size) != m->crc)
		e = mr_zip_bad_crc(in, m, err);
	return e;
}

/* By zlib, since libdeflate inflates all or nothing. */
static int peek_deflated(struct mr_input *in, const struct mr_zip_member *m,
			 void *to, size_t *n, struct mr_err *err)
{
	uint8_t p[PEEK_PACKED];
	z_stream z = { .next_out = to, .avail_out = (unsigned)*n };
	uint64_t done = 0;
	int e = 0, got = Z_OK;

	if (inflateInit2(&z, -15) != Z_OK)
		return mr_err_nomem(err, sizeof(z));
	while (!e && z.avail_out && got == Z_OK && done < m->packed) {
		size_t k = m->packed - done < sizeof(p) ?
				   (size_t)(m->packed - done) :
				   sizeof(p);

		e = mr_input_read(in, p, k, m->at + done, err);
		z.next_in = p;
		z.avail_in = (unsigned)k;
		done += k;
		if (!e)
			got = inflate(&z, Z_SYNC_FLUSH);
	}
	*n -= z.avail_out;
	inflateEnd(&z);
	if (!e && got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
		e = bad_member(in, m, "it does not inflate", err);
	return e;
}

int mr_zip_peek(struct mr_input *in, const struct mr_zip_member *m, void *to,
		size_t *n, struct mr_err *err)
{
	if (m->size < *n)
		*n = (size_t)m->size;
	return m->deflated ? peek_deflated(in, m, to, n, err) :
			     mr_input_read(in, to, *n, m->at, err);
}
