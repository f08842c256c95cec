/* SPDX-License-Identifier: Apache-2.0 */
#include "source/unpacked.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/file.h"
#include "core/mem.h"

enum { PIECE = 1 << 18, EITHER_HEADER = 15 + 32 };

/* ---- which ---- */

static bool begins(const uint8_t *head, size_t n, const char *with, size_t k)
{
	return n >= k && !memcmp(head, with, k);
}

int mr_packing_of(const char *path, const uint8_t *head, size_t n,
		  enum mr_packing *packing, struct mr_err *err)
{
	const char *other = NULL;

	*packing = MR_PACKED_NOT;
	if (begins(head, n, "\x28\xb5\x2f\xfd", 4))
		*packing = MR_PACKED_ZSTD;
	else if (begins(head, n, "\x1f\x8b\x08", 3))
		*packing = MR_PACKED_GZIP;
	else if (n >= 2 && (head[0] & 0x8f) == 8 &&
		 (head[0] << 8 | head[1]) % 31 == 0)
		*packing = MR_PACKED_ZLIB;
	else if (begins(head, n, "\xfd\x37zXZ", 5))
		other = "xz";
	else if (begins(head, n, "BZh", 3) && n > 3 && head[3] >= '1' &&
		 head[3] <= '9')
		other = "bzip2";
	if (!other)
		return 0;
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "%s: compressed by %s, which is not taken; unpack it "
			  "first: %s -d '%s'",
			  path, other, other, path);
}

/* ---- temporary files ---- */

void mr_unpacked_init(struct mr_unpacked *u, uint64_t max)
{
	u->files = 0;
	u->max = max;
	atomic_init(&u->left, max);
	pthread_mutex_init(&u->lock, NULL);
}

void mr_unpacked_fini(struct mr_unpacked *u)
{
	while (u->files > 0)
		close(u->file[--u->files].fd);
}

static const char *folder(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/var/tmp";
}

static int make_file(struct mr_err *err)
{
	const char *dir = folder();
	char name[4096];
	int n, fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* Not all file systems have files without names. */
	n = snprintf(name, sizeof(name), "%s/millrace-XXXXXX", dir);
	fd = n < (int)sizeof(name) ? mkostemp(name, O_CLOEXEC) : -1;
	if (fd >= 0)
		unlink(name);
	else
		mr_err_sys(err, errno, dir,
			   "cannot make a file to unpack into; set TMPDIR");
	return fd;
}

/* The number of a file that nobody else writes to, or -1. */
static int take_file(struct mr_unpacked *u, struct mr_err *err)
{
	int i = 0;

	pthread_mutex_lock(&u->lock);
	while (i < u->files && u->file[i].busy)
		i++;
	if (i == u->files) {
		u->file[i].fd = make_file(err);
		u->files += u->file[i].fd >= 0;
	}
	i = i < u->files ? i : -1;
	if (i >= 0)
		u->file[i].busy = true;
	pthread_mutex_unlock(&u->lock);
	return i;
}

static void give_back(struct mr_unpacked *u, int i)
{
	pthread_mutex_lock(&u->lock);
	u->file[i].busy = false;
	pthread_mutex_unlock(&u->lock);
}

/* ---- one input on its way ---- */

struct job {
	struct mr_unpacked *u;
	struct mr_input *in;
	struct mr_plain *out;
	uint64_t done;	    /* bytes of `in` that were read */
	uint8_t *from, *to; /* PIECE bytes each */
	size_t at, have;    /* of `from` */
	ZSTD_DStream *zstd; /* or else */
	z_stream z;
	const char *why;
	struct mr_err *err;
};

static bool allowed(_Atomic uint64_t *left, uint64_t n)
{
	uint64_t v = atomic_load(left);

	do {
		if (v < n)
			return false;
	} while (!atomic_compare_exchange_weak(left, &v, v - n));
	return true;
}

static int put(struct job *j, size_t n)
{
	const char *path = mr_input_path(j->in);
	int e;

	if (!allowed(&j->u->left, n))
		return mr_err_set(j->err, MR_ELIMIT,
				  "%s: unpacks to more than the %llu bytes "
				  "that unpack= allows for all files together; "
				  "raise it, or unpack the file itself",
				  path, (unsigned long long)j->u->max);
	e = mr_write_all(j->out->fd, j->to, n);
	j->out->size += e ? 0 : n;
	if (!e)
		return 0;
	mr_err_sys(j->err, e, folder(),
		   "cannot write; set TMPDIR to a folder with room");
	return mr_err_prefix(j->err, "%s: unpacking: ", path);
}

/* The next piece of packed bytes; j->have == 0 at the end. */
static int more(struct job *j)
{
	uint64_t left = mr_input_size(j->in) - j->done;
	size_t n = left < PIECE ? (size_t)left : PIECE;
	int e = n ? mr_input_read(j->in, j->from, n, j->done, j->err) : 0;

	j->at = j->have = 0;
	if (e)
		return e;
	j->done += n;
	j->have = n;
	return 0;
}

/* run_*() takes what it can of the packed bytes and gives *n unpacked ones:
 * 0, or 1 at the end of a part, or -1 when they are damaged. */

static int run_zlib(struct job *j, size_t *n)
{
	z_stream *z = &j->z;
	int r;

	z->next_in = j->from + j->at;
	z->avail_in = (uInt)(j->have - j->at);
	z->next_out = j->to;
	z->avail_out = PIECE;
	r = inflate(z, Z_NO_FLUSH);
	j->at = j->have - z->avail_in;
	j->why = z->msg ? z->msg : zError(r);
	*n = PIECE - z->avail_out;
	if (r == Z_STREAM_END)
		return inflateReset(z) == Z_OK ? 1 : -1;
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : -1;
}

static int run_zstd(struct job *j, size_t *n)
{
	ZSTD_inBuffer in = { j->from, j->have, j->at };
	ZSTD_outBuffer out = { j->to, PIECE, 0 };
	size_t r = ZSTD_decompressStream(j->zstd, &out, &in);

	j->at = in.pos;
	j->why = ZSTD_getErrorName(r);
	*n = out.pos;
	return ZSTD_isError(r) ? -1 : r == 0;
}

static int damaged(struct job *j)
{
	return mr_err_set(j->err, MR_EDATA,
			  "%s: the compressed data is damaged before byte "
			  "%llu: %s",
			  mr_input_path(j->in),
			  (unsigned long long)(j->done - j->have + j->at),
			  j->why);
}

static int cut_off(struct job *j)
{
	return mr_err_set(j->err, MR_EDATA,
			  "%s: truncated: the compressed data goes on beyond "
			  "its %llu bytes",
			  mr_input_path(j->in),
			  (unsigned long long)mr_input_size(j->in));
}

static int run_all(struct job *j)
{
	bool whole = false; /* the last part came to its end */
	bool full = false;  /* more may come of what it has */

	for (;;) {
		int r, e = j->at == j->have && !full ? more(j) : 0;
		size_t n;

		if (e)
			return e;
		if (!j->have) {
			j->out->sure = j->out->size;
			return whole ? 0 : cut_off(j);
		}
		/* Parts may follow each other; zeros may fill a block. */
		if (whole && !j->from[j->at])
			return 0;
		r = j->zstd ? run_zstd(j, &n) : run_zlib(j, &n);
		e = put(j, n);
		if (e || r < 0)
			return e ? e : damaged(j);
		whole = r == 1;
		if (whole)
			j->out->sure = j->out->size;
		full = !whole && n == PIECE;
	}
}

static int unpack(struct job *j, enum mr_packing packing)
{
	int e = 0;

	if (packing == MR_PACKED_ZSTD)
		j->zstd = ZSTD_createDStream();
	else
		e = inflateInit2(&j->z, EITHER_HEADER);
	if (e != Z_OK || (packing == MR_PACKED_ZSTD && !j->zstd))
		return mr_err_nomem(j->err, PIECE);
	e = run_all(j);
	if (j->zstd)
		ZSTD_freeDStream(j->zstd);
	else
		inflateEnd(&j->z);
	return e;
}

int mr_unpacked_add(struct mr_unpacked *u, struct mr_input *in,
		    enum mr_packing packing, struct mr_plain *out,
		    struct mr_err *err)
{
	struct job j = { .u = u, .in = in, .out = out, .err = err };
	int file = take_file(u, err), e = MR_ENOMEM;

	if (file < 0)
		return err->code;
	*out = (struct mr_plain){ .fd = u->file[file].fd, .hurt = UINT64_MAX };
	out->at = (uint64_t)lseek(out->fd, 0, SEEK_CUR);
	j.from = mr_alloc(2, PIECE, err);
	if (j.from) {
		j.to = j.from + PIECE;
		e = unpack(&j, packing);
	}
	if (e == MR_EDATA)
		out->hurt = j.done - j.have + j.at;
	free(j.from);
	give_back(u, file);
	return e;
}
