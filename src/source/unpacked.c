/* SPDX-License-Identifier: Apache-2.0 */
#include "source/unpacked.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/file.h"
#include "core/mem.h"

enum {
	PIECE = 1 << 18,
	/* So that a process does not run out of descriptors. */
	KEPT_OPEN = 512,
};

/* One file on its way. */
struct job {
	struct mr_unpacked *u;
	struct mr_input *in;
	uint64_t done, size; /* of the packed bytes */
	uint8_t *from, *to;  /* PIECE bytes each */
	size_t at, have;     /* of `from` */
	struct mr_err *err;
};

enum mr_packing mr_packing_of(const uint8_t *b, size_t n)
{
	if (n >= 4 && b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f &&
	    b[3] == 0xfd)
		return MR_PACKED_ZSTD;
	if (n >= 2 && b[0] == 0x1f && b[1] == 0x8b)
		return MR_PACKED_ZLIB;
	if (n >= 2 && (b[0] & 0x8f) == 8 && (b[0] << 8 | b[1]) % 31 == 0)
		return MR_PACKED_ZLIB;
	return MR_PACKED_NOT;
}

void mr_unpacked_init(struct mr_unpacked *u, uint64_t max)
{
	*u = (struct mr_unpacked){ .fd = -1, .max = max };
}

void mr_unpacked_fini(struct mr_unpacked *u)
{
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

/* ---- the temporary file ---- */

static int make_file(struct mr_unpacked *u, struct mr_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char name[4096];

	if (!tmp || tmp[0] != '/')
		tmp = "/tmp";
	u->fd = open(tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (u->fd >= 0)
		return 0;
	/* Not every file system can do that. */
	if (snprintf(name, sizeof(name), "%s/millrace-XXXXXX", tmp) <
	    (int)sizeof(name)) {
		u->fd = mkostemp(name, O_CLOEXEC);
		if (u->fd >= 0)
			unlink(name);
	}
	if (u->fd < 0)
		return mr_err_sys(err, errno, tmp,
				  "cannot make a temporary file; set TMPDIR");
	return 0;
}

static int put(struct job *j, size_t n)
{
	struct mr_unpacked *u = j->u;
	const char *path = mr_input_path(j->in);
	int e;

	if (n > u->max - u->used)
		return mr_err_set(j->err, MR_ELIMIT,
				  "%s: unpacks to more than the %llu bytes "
				  "that unpack= allows for all files together; "
				  "raise it, or unpack the file itself",
				  path, (unsigned long long)u->max);
	e = mr_write_all(u->fd, j->to, n);
	if (e)
		return mr_err_sys(j->err, e, path,
				  "cannot unpack it to a temporary file; set "
				  "TMPDIR to a folder with room");
	u->used += n;
	return 0;
}

/* The next piece of packed bytes; j->have == 0 at the end. */
static int more(struct job *j)
{
	uint64_t left = j->size - j->done;
	size_t n = left < PIECE ? (size_t)left : PIECE;
	int e = n ? mr_input_read(j->in, j->from, n, j->done, j->err) : 0;

	if (e)
		return e;
	j->done += n;
	j->at = 0;
	j->have = n;
	return 0;
}

static int damaged(struct job *j, const char *why)
{
	return mr_err_set(j->err, MR_EDATA,
			  "%s: the compressed data is damaged before byte "
			  "%llu: %s",
			  mr_input_path(j->in),
			  (unsigned long long)(j->done - j->have + j->at), why);
}

static int cut_off(struct job *j)
{
	return mr_err_set(j->err, MR_EDATA,
			  "%s: truncated: the compressed data goes on beyond "
			  "its %llu bytes",
			  mr_input_path(j->in), (unsigned long long)j->size);
}

/* ---- zlib and gzip ---- */

static int inflate_all(struct job *j, z_stream *z)
{
	bool open = true;  /* in the middle of a member */
	bool full = false; /* more may come of what it has */

	for (;;) {
		int r, e = j->at == j->have && !full ? more(j) : 0;

		if (e)
			return e;
		if (!j->have)
			return open ? cut_off(j) : 0;
		z->next_in = j->from + j->at;
		z->avail_in = (uInt)(j->have - j->at);
		z->next_out = j->to;
		z->avail_out = PIECE;
		open = true;
		r = inflate(z, Z_NO_FLUSH);
		j->at = j->have - z->avail_in;
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return damaged(j, z->msg ? z->msg : zError(r));
		full = r == Z_OK && !z->avail_out;
		e = put(j, PIECE - z->avail_out);
		if (e)
			return e;
		if (r == Z_STREAM_END) { /* members may follow each other */
			open = false;
			inflateReset(z);
		}
	}
}

static int unpack_zlib(struct job *j)
{
	z_stream z = { 0 };
	int e;

	if (inflateInit2(&z, 15 + 32) != Z_OK) /* either header */
		return mr_err_nomem(j->err, PIECE);
	e = inflate_all(j, &z);
	inflateEnd(&z);
	return e;
}

/* ---- zstd ---- */

static int unpack_zstd(struct job *j)
{
	ZSTD_DStream *z = ZSTD_createDStream();
	size_t r = 0;
	bool full = false;
	int e = z ? 0 : mr_err_nomem(j->err, PIECE);

	while (!e) {
		ZSTD_inBuffer in;
		ZSTD_outBuffer out = { j->to, PIECE, 0 };

		e = j->at == j->have && !full ? more(j) : 0;
		if (e || !j->have)
			break;
		in = (ZSTD_inBuffer){ j->from, j->have, j->at };
		r = ZSTD_decompressStream(z, &out, &in);
		j->at = in.pos;
		full = r && out.pos == PIECE;
		e = ZSTD_isError(r) ? damaged(j, ZSTD_getErrorName(r)) :
				      put(j, out.pos);
	}
	if (!e && r)
		e = cut_off(j);
	ZSTD_freeDStream(z);
	return e;
}

/* ---- both ---- */

int mr_unpacked_add(struct mr_unpacked *u, struct mr_input *in,
		    enum mr_packing packing, uint64_t *at, uint64_t *size,
		    struct mr_err *err)
{
	struct job j = {
		.u = u, .in = in, .size = mr_input_size(in), .err = err
	};
	uint64_t before = u->used;
	int e = u->fd < 0 ? make_file(u, err) : 0;

	if (e)
		return e;
	j.from = mr_alloc(2, PIECE, err);
	if (!j.from)
		return MR_ENOMEM;
	j.to = j.from + PIECE;
	e = packing == MR_PACKED_ZSTD ? unpack_zstd(&j) : unpack_zlib(&j);
	free(j.from);
	*at = before;
	*size = u->used - before;
	return e;
}

/* ---- a file, packed or not ---- */

int mr_part_open(struct mr_part *p, struct mr_err *err)
{
	int e = mr_input_open(&p->in, p->path, err);

	if (!e)
		p->size = mr_input_size(p->in);
	return e;
}

void mr_part_close(struct mr_part *p)
{
	mr_input_close(p->in);
	free(p->path);
	*p = (struct mr_part){ 0 };
}

int mr_part_unpack(struct mr_part *p, struct mr_unpacked *u,
		   enum mr_packing packing, struct mr_err *err)
{
	p->unpack = u;
	return mr_unpacked_add(u, p->in, packing, &p->base, &p->size, err);
}

void mr_part_settle(struct mr_part *p, size_t files)
{
	if (mr_input_fd(p->in) < 0 || (!p->unpack && files <= KEPT_OPEN))
		return;
	mr_input_close(p->in);
	p->in = NULL;
}

static int read_unpacked(const struct mr_part *p, void *to, size_t n,
			 uint64_t offset, struct mr_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(p->unpack->fd, (char *)to + got, n - got,
				  (off_t)(p->base + offset + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return mr_err_sys(err, k < 0 ? errno : EIO, p->path,
					  "cannot read what was unpacked");
		got += (size_t)k;
	}
	return 0;
}

int mr_part_read(const struct mr_part *p, void *to, size_t n, uint64_t offset,
		 struct mr_err *err)
{
	return p->unpack ? read_unpacked(p, to, n, offset, err) :
			   mr_input_read(p->in, to, n, offset, err);
}

void mr_part_extent(const struct mr_part *p, uint64_t offset, uint64_t n,
		    struct mr_extent *e)
{
	if (p->in && !p->unpack)
		mr_input_extent(p->in, offset, n, e);
	else
		*e = (struct mr_extent){ .path = p->path,
					 .fd = p->unpack ? p->unpack->fd : -1,
					 .offset = p->base + offset,
					 .length = n };
}
