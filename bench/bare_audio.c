/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a loader of sound must do: N threads decode files in random
 * order with libFLAC or mpg123, or transform frames with FFTW. All files are
 * in memory before the clock starts (`read`: in the page cache, and each is
 * read when its turn comes); a thread uses one decoder and one buffer of
 * samples again and again, and looks at nothing that came out.
 *
 *   flac  i16 of one channel, of files that say how many samples they have
 *   mp3   i16 of one channel, mixed before synthesis, ends cut (gapless), by
 *         mpg123_read() into one large buffer
 *   feed  the same by mpg123_decode() of bytes that are handed over
 *   fft   for each sound FRAMES r2c transforms of 1,024 f64; nothing is
 *         windowed, and nothing is made of what comes out
 *
 * usage: bare_audio flac|mp3|feed DIR THREADS EPOCHS [read]
 *        bare_audio fft FRAMES THREADS EPOCHS
 */
#include "bare.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <FLAC/stream_decoder.h>
#include <fftw3.h>
#include <mpg123.h>

enum { FFT = 1024 };

struct file {
	char *path;
	unsigned char *data;
	size_t size;
};

struct worker;

struct set {
	struct file *file;
	size_t n, cap, epochs, frames;
	int reads;
	const uint32_t *order;
	/* Decodes a file; how many samples (or frames) it had. */
	size_t (*decode)(struct worker *w, const struct file *f);
	fftw_plan plan;
	_Atomic size_t next;
};

struct worker {
	struct set *set;
	const struct file *file; /* at hand */
	struct file own;	 /* that was read */
	size_t own_cap;
	size_t at; /* in it */
	FLAC__StreamDecoder *flac;
	mpg123_handle *mp3;
	int16_t *buf;
	size_t used, cap;  /* samples */
	size_t done, made; /* written when all is done */
};

static struct set files; /* nftw() has no argument to pass on */

static void slurp(struct file *f, const char *path, size_t size)
{
	FILE *in = fopen(path, "rbe");

	f->path = strdup(path);
	f->data = bare_alloc(size, 1);
	f->size = size;
	if (!in || !f->path || fread(f->data, 1, size, in) != size)
		err(1, "%s", path);
	fclose(in);
}

static int found(const char *path, const struct stat *st, int type,
		 struct FTW *at)
{
	(void)at;
	if (type != FTW_F || st->st_size == 0)
		return 0;
	if (files.n == files.cap) {
		files.cap = files.cap ? files.cap * 2 : 1024;
		files.file =
			realloc(files.file, files.cap * sizeof(*files.file));
		if (!files.file)
			err(1, "list of files");
	}
	slurp(&files.file[files.n++], path, (size_t)st->st_size);
	return 0;
}

static void grow(struct worker *w, size_t samples)
{
	if (samples <= w->cap)
		return;
	w->cap = samples + samples / 2;
	w->buf = realloc(w->buf, w->cap * sizeof(*w->buf));
	if (!w->buf)
		err(1, "%zu samples", w->cap);
}

/* ---- FLAC ---- */

static FLAC__StreamDecoderReadStatus
flac_read(const FLAC__StreamDecoder *d, FLAC__byte *to, size_t *n, void *data)
{
	struct worker *w = data;
	size_t left = w->file->size - w->at;

	(void)d;
	*n = *n < left ? *n : left;
	memcpy(to, w->file->data + w->at, *n);
	w->at += *n;
	return *n ? FLAC__STREAM_DECODER_READ_STATUS_CONTINUE :
		    FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
}

static FLAC__StreamDecoderWriteStatus
flac_write(const FLAC__StreamDecoder *d, const FLAC__Frame *frame,
	   const FLAC__int32 *const *plane, void *data)
{
	struct worker *w = data;
	size_t n = frame->header.blocksize;

	(void)d;
	for (size_t i = 0; i < n; i++)
		w->buf[w->used + i] = (int16_t)plane[0][i];
	w->used += n;
	return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void flac_head(const FLAC__StreamDecoder *d,
		      const FLAC__StreamMetadata *m, void *data)
{
	(void)d;
	if (m->type == FLAC__METADATA_TYPE_STREAMINFO)
		grow(data, m->data.stream_info.total_samples);
}

static void flac_error(const FLAC__StreamDecoder *d,
		       FLAC__StreamDecoderErrorStatus s, void *data)
{
	(void)d;
	errx(1, "%s: %s", ((struct worker *)data)->file->path,
	     FLAC__StreamDecoderErrorStatusString[s]);
}

static size_t flac(struct worker *w, const struct file *f)
{
	(void)f;
	w->at = w->used = 0;
	if (!w->flac) {
		w->flac = FLAC__stream_decoder_new();
		if (!w->flac ||
		    FLAC__stream_decoder_init_stream(
			    w->flac, flac_read, NULL, NULL, NULL, NULL,
			    flac_write, flac_head, flac_error, w))
			errx(1, "no FLAC decoder");
	} else {
		FLAC__stream_decoder_reset(w->flac);
	}
	if (!FLAC__stream_decoder_process_until_end_of_stream(w->flac))
		errx(1, "%s: cannot decode", w->file->path);
	return w->used;
}

/* ---- MP3 ---- */

static ssize_t mp3_read(void *data, void *to, size_t n)
{
	struct worker *w = data;
	size_t left = w->file->size - w->at;

	n = n < left ? n : left;
	memcpy(to, w->file->data + w->at, n);
	w->at += n;
	return (ssize_t)n;
}

static off_t mp3_seek(void *data, off_t offset, int whence)
{
	struct worker *w = data;

	offset += whence == SEEK_SET ? 0 :
		  whence == SEEK_CUR ? (off_t)w->at :
				       (off_t)w->file->size;
	if (offset < 0 || offset > (off_t)w->file->size)
		return -1;
	w->at = (size_t)offset;
	return offset;
}

static void mp3_new(struct worker *w)
{
	int e;

	w->mp3 = mpg123_new(NULL, &e);
	if (!w->mp3)
		errx(1, "no MP3 decoder: %s", mpg123_plain_strerror(e));
	mpg123_param(w->mp3, MPG123_ADD_FLAGS,
		     MPG123_QUIET | MPG123_MONO_MIX | MPG123_GAPLESS, 0);
	mpg123_replace_reader_handle(w->mp3, mp3_read, mp3_seek, NULL);
}

static size_t mp3(struct worker *w, const struct file *f)
{
	size_t got = 0;
	int e = MPG123_NEW_FORMAT;

	w->at = w->used = 0;
	if (!w->mp3)
		mp3_new(w);
	if (mpg123_open_handle(w->mp3, w))
		errx(1, "%s: %s", f->path, mpg123_strerror(w->mp3));
	while (e == MPG123_NEW_FORMAT || e == MPG123_OK) {
		/* 1 kB is 0.13 s at 64 kb/s */
		grow(w, w->used + f->size * 16 + 4096);
		e = mpg123_read(w->mp3, (unsigned char *)(w->buf + w->used),
				(w->cap - w->used) * 2, &got);
		w->used += got / 2;
	}
	if (e != MPG123_DONE)
		errx(1, "%s: %s", f->path, mpg123_strerror(w->mp3));
	return w->used;
}

static size_t feed(struct worker *w, const struct file *f)
{
	size_t got = 0, size = f->size;
	int e = MPG123_NEW_FORMAT;

	w->used = 0;
	if (!w->mp3)
		mp3_new(w);
	if (mpg123_open_feed(w->mp3))
		errx(1, "%s: %s", f->path, mpg123_strerror(w->mp3));
	while (e == MPG123_NEW_FORMAT || e == MPG123_OK) {
		grow(w, w->used + f->size * 16 + 4096);
		e = mpg123_decode(w->mp3, f->data, size,
				  (unsigned char *)(w->buf + w->used),
				  (w->cap - w->used) * 2, &got);
		size = 0;
		w->used += got / 2;
	}
	if (e != MPG123_NEED_MORE)
		errx(1, "%s: %s", f->path, mpg123_strerror(w->mp3));
	return w->used;
}

/* ---- transforms ---- */

static void make_plan(struct set *s)
{
	double *x = fftw_alloc_real(FFT);
	fftw_complex *z = fftw_alloc_complex(FFT / 2 + 1);

	s->plan = fftw_plan_dft_r2c_1d(FFT, x, z, FFTW_ESTIMATE);
	if (!s->plan)
		errx(1, "no plan");
	fftw_free(x);
	fftw_free(z);
}

static size_t fft(struct worker *w, const struct file *f)
{
	static _Thread_local double *x;
	static _Thread_local fftw_complex *z;

	(void)f;
	if (!x) {
		x = fftw_alloc_real(FFT);
		z = fftw_alloc_complex(FFT / 2 + 1);
		for (int i = 0; i < FFT; i++)
			x[i] = (double)(i * 7919 % 1000) / 1000;
	}
	for (size_t i = 0; i < w->set->frames; i++)
		fftw_execute_dft_r2c(w->set->plan, x, z);
	return w->set->frames;
}

/* ---- */

static void read_again(struct worker *w)
{
	const struct file *f = w->file;
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);

	if (f->size > w->own_cap) {
		free(w->own.data);
		w->own_cap = f->size * 2;
		w->own.data = (unsigned char *)bare_buffer(w->own_cap);
	}
	w->own.path = f->path;
	w->own.size = f->size;
	if (fd < 0 || read(fd, w->own.data, f->size) != (ssize_t)f->size)
		err(1, "%s", f->path);
	close(fd);
	w->file = &w->own;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct set *s = w->set;
	size_t at, done = 0, made = 0;

	for (;;) {
		at = atomic_fetch_add_explicit(&s->next, 1,
					       memory_order_relaxed);
		if (at >= s->n * s->epochs)
			break;
		w->file = &s->file[s->order[at % s->n]];
		if (s->reads)
			read_again(w);
		made += s->decode(w, w->file);
		done++;
	}
	if (w->flac)
		FLAC__stream_decoder_delete(w->flac);
	mpg123_delete(w->mp3);
	free(w->buf);
	w->done = done;
	w->made = made;
	return NULL;
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void choose(struct set *s, const char *name)
{
	if (!strcmp(name, "flac"))
		s->decode = flac;
	else if (!strcmp(name, "mp3"))
		s->decode = mp3;
	else if (!strcmp(name, "feed"))
		s->decode = feed;
	else if (!strcmp(name, "fft"))
		s->decode = fft;
	else
		errx(2, "no mode is called '%s'", name);
}

int main(int argc, char **argv)
{
	struct worker *w;
	size_t done = 0, made = 0;
	double seconds, before;
	int threads;

	if (argc < 5 || argc > 6 || (argc == 6 && strcmp(argv[5], "read")))
		errx(2, "usage: bare_audio flac|mp3|feed DIR THREADS EPOCHS "
			"[read]\n       bare_audio fft FRAMES THREADS EPOCHS");
	choose(&files, argv[1]);
	files.reads = argc == 6;
	threads = bare_threads(argv[3]);
	files.epochs = bare_number(argv[4]);
	if (files.decode == fft) {
		files.frames = bare_number(argv[2]);
		files.n = 1;
		files.file = bare_alloc(1, sizeof(*files.file));
		make_plan(&files);
	} else if (nftw(argv[2], found, 32, 0)) {
		err(1, "%s", argv[2]);
	}
	if (files.n == 0)
		errx(1, "%s: no files in it", argv[2]);
	files.order = bare_order(files.n);

	w = bare_alloc((size_t)threads, sizeof(*w));
	for (int i = 0; i < threads; i++)
		w[i].set = &files;
	before = cpu();
	seconds = bare_run(threads, work, w, sizeof(*w));
	for (int i = 0; i < threads; i++) {
		done += w[i].done;
		made += w[i].made;
	}
	printf("{\"samples\": %zu, \"made\": %zu, \"threads\": %d, "
	       "\"seconds\": %.6f, \"cpu\": %.6f}\n",
	       done, made, threads, seconds, cpu() - before);
	return 0;
}
