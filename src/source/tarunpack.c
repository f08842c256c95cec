/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarunpack.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/file.h"
#include "core/mem.h"

enum { CHUNK = 1 << 18, GZIP_WINDOW = 15 + 16 };

/* How a stream is unpacked. run() takes what it can of the input and gives
 * what it can of the output: 0, 1 at the end of a part, -1 when damaged. */
struct unpacker {
	void *(*open)(void);
	int (*run)(void *state, const uint8_t **in, size_t in_n, uint8_t *out,
		   size_t *out_n);
	void (*close)(void *state);
};

/* ---- gzip ---- */

static void *gzip_open(void)
{
	z_stream *z = calloc(1, sizeof(*z));

	if (z && inflateInit2(z, GZIP_WINDOW) == Z_OK)
		return z;
	free(z);
	return NULL;
}

static int gzip_run(void *state, const uint8_t **in, size_t in_n, uint8_t *out,
		    size_t *out_n)
{
	z_stream *z = state;
	int e;

	z->next_in = (uint8_t *)(uintptr_t)*in;
	z->avail_in = (unsigned)in_n;
	z->next_out = out;
	z->avail_out = (unsigned)*out_n;
	e = inflate(z, Z_NO_FLUSH);
	*in = z->next_in;
	*out_n -= z->avail_out;
	if (e == Z_STREAM_END)
		return inflateReset(z) == Z_OK ? 1 : -1;
	return e == Z_OK || e == Z_BUF_ERROR ? 0 : -1;
}

static void gzip_close(void *state)
{
	inflateEnd(state);
	free(state);
}

/* ---- zstd ---- */

static void *zstd_open(void)
{
	return ZSTD_createDStream();
}

static int zstd_run(void *state, const uint8_t **in, size_t in_n, uint8_t *out,
		    size_t *out_n)
{
	ZSTD_inBuffer i = { .src = *in, .size = in_n };
	ZSTD_outBuffer o = { .dst = out, .size = *out_n };
	size_t e = ZSTD_decompressStream(state, &o, &i);

	*in += i.pos;
	*out_n = o.pos;
	return ZSTD_isError(e) ? -1 : e == 0;
}

static void zstd_close(void *state)
{
	ZSTD_freeDStream(state);
}

static const struct unpacker unpackers[] = {
	[MR_TAR_GZIP] = { gzip_open, gzip_run, gzip_close },
	[MR_TAR_ZSTD] = { zstd_open, zstd_run, zstd_close },
};

/* ---- which ---- */

int mr_tar_packing(struct mr_input *in, enum mr_tar_packing *packing,
		   struct mr_err *err)
{
	uint8_t b[6] = { 0 };
	size_t n = mr_input_size(in) < sizeof(b) ? (size_t)mr_input_size(in) :
						   sizeof(b);
	int e = mr_input_read(in, b, n, 0, err);
	const char *other = NULL;

	if (e)
		return e;
	*packing = MR_TAR_PLAIN;
	if (!memcmp(b, "\x1f\x8b\x08", 3))
		*packing = MR_TAR_GZIP;
	else if (!memcmp(b, "\x28\xb5\x2f\xfd", 4))
		*packing = MR_TAR_ZSTD;
	else if (!memcmp(b,
			 "\xfd"
			 "7zXZ",
			 5))
		other = "xz";
	else if (!memcmp(b, "BZh", 3) && b[3] >= '1' && b[3] <= '9')
		other = "bzip2";
	if (!other)
		return 0;
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "%s: compressed by %s, which is not taken; unpack it "
			  "first: %s -d '%s'",
			  mr_input_path(in), other, other, mr_input_path(in));
}

/* ---- unpacking ---- */

static int temporary(const char **dir, struct mr_err *err)
{
	char path[4096];
	int fd, n;

	*dir = getenv("TMPDIR");
	if (!*dir || !**dir)
		*dir = "/var/tmp";
	fd = open(*dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* Not all file systems have files without names. */
	n = snprintf(path, sizeof(path), "%s/millrace-XXXXXX", *dir);
	fd = n < (int)sizeof(path) ? mkostemp(path, O_CLOEXEC) : -1;
	if (fd >= 0)
		unlink(path);
	else
		mr_err_sys(err, errno, *dir,
			   "cannot make a file to unpack into; set TMPDIR");
	return fd;
}

struct work {
	struct mr_input *in;
	const struct unpacker *u;
	void *state;
	int fd;
	const char *dir;
	_Atomic uint64_t *left;
	uint8_t *from, *to;
	bool whole; /* the last part came to its end */
	bool done;  /* only zeros, or nothing, come after it */
	bool hurt;
};

static bool take(_Atomic uint64_t *left, uint64_t n)
{
	uint64_t v = atomic_load(left);

	do {
		if (v < n)
			return false;
	} while (!atomic_compare_exchange_weak(left, &v, v - n));
	return true;
}

static int put_out(struct work *w, size_t n, struct mr_err *err)
{
	int e;

	if (!take(w->left, n))
		return mr_err_set(err, MR_ELIMIT,
				  "%s: unpacks to more than the bytes that are "
				  "left of unpacked=SIZE; give more, or unpack "
				  "it first",
				  mr_input_path(w->in));
	e = mr_write_all(w->fd, w->to, n);
	if (!e)
		return 0;
	mr_err_sys(err, e, w->dir, "cannot write; set TMPDIR");
	return mr_err_prefix(err, "%s: unpacking: ", mr_input_path(w->in));
}

/* All that comes of n bytes; w->hurt when they are damaged, *n is then how
 * many were good. */
static int feed(struct work *w, size_t *n, struct mr_err *err)
{
	const uint8_t *p = w->from, *end = w->from + *n;
	size_t out = CHUNK;

	/* A full output may have more behind it. */
	while (p < end || out == CHUNK) {
		int r, e;

		if (w->whole && p < end && !*p) {
			w->done = true;
			return 0;
		}
		if (w->whole && p == end)
			return 0;
		w->whole = false;
		out = CHUNK;
		r = w->u->run(w->state, &p, (size_t)(end - p), w->to, &out);
		e = put_out(w, out, err);
		if (e)
			return e;
		if (r < 0) {
			*n = (size_t)(p - w->from);
			w->hurt = true;
			return 0;
		}
		w->whole = r == 1;
	}
	return 0;
}

static int unpack_all(struct work *w, uint64_t *hurt, struct mr_err *err)
{
	uint64_t size = mr_input_size(w->in), at = 0;

	while (at < size && !w->done && !w->hurt) {
		size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
		int e = mr_input_read(w->in, w->from, n, at, err);

		if (!e)
			e = feed(w, &n, err);
		if (e)
			return e;
		at += n;
	}
	*hurt = w->hurt || !w->whole ? at : UINT64_MAX;
	return 0;
}

static int reopen(int fd, struct mr_input **out, struct mr_err *err)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return mr_input_open(out, path, err);
}

int mr_tar_unpack(struct mr_input *in, enum mr_tar_packing packing,
		  _Atomic uint64_t *left, struct mr_input **out, uint64_t *hurt,
		  struct mr_err *err)
{
	struct work w = { .in = in, .u = &unpackers[packing], .left = left };
	int e = MR_ENOMEM;

	w.fd = temporary(&w.dir, err);
	if (w.fd < 0)
		return err->code;
	w.from = mr_alloc(CHUNK, 1, err);
	w.to = mr_alloc(CHUNK, 1, err);
	w.state = w.u->open();
	if (!w.state)
		mr_err_nomem(err, CHUNK);
	if (w.state && w.from && w.to)
		e = unpack_all(&w, hurt, err);
	if (w.state)
		w.u->close(w.state);
	free(w.from);
	free(w.to);
	if (!e)
		e = reopen(w.fd, out, err);
	close(w.fd);
	return e;
}
