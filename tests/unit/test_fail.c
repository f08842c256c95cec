/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation, open, read, write and thread fails in turn. A run then
 * either succeeds, or ends with an error that has a text; it never crashes,
 * hangs, leaks, or delivers something else without saying so. What could not
 * be stored can be gone on with, and is never taken for a whole set.
 *
 * The linker sends the library's calls to the functions __wrap_NAME here.
 */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include <FLAC/stream_encoder.h>
#include <jpeglib.h>
#include <spng.h>

#include "core/le.h"
#include "core/mem.h"
#include "kernel/crc32c.h"

/* ---- what fails, and when ---- */

enum what { NOTHING, ALLOC, OPEN, READ, THREAD, WRITE };
static const char *const what_name[] = { "nothing", "allocation", "open",
					 "read",    "thread",	  "write" };

/* ONCE: the k-th alone; ON: that and all after it. Of reads and writes also:
 * EINTR, and SHORT, a part of what was asked for, which are no failures at
 * all. */
enum how { ONCE, ON, INTERRUPT, SHORT };
static const char *const how_name[] = { "once", "from then on", "EINTR",
					"short" };

static atomic_int what = NOTHING;
static enum how how;
static atomic_long left; /* calls until it happens */

static bool hit(enum what w)
{
	long n;

	if (atomic_load(&what) != (int)w)
		return false;
	n = atomic_fetch_sub(&left, 1);
	return how == ON ? n <= 1 : n == 1;
}

static bool was_hit(void)
{
	return atomic_load(&left) < 1;
}

static int fails_with(int code)
{
	errno = how == INTERRUPT ? EINTR : code;
	return -1;
}

/* ---- the calls ---- */

#define WRAP(type, name, args)   \
	type __real_##name args; \
	type __wrap_##name args; \
	type __wrap_##name args

WRAP(void *, malloc, (size_t n))
{
	return hit(ALLOC) ? NULL : __real_malloc(n);
}

WRAP(void *, calloc, (size_t n, size_t size))
{
	return hit(ALLOC) ? NULL : __real_calloc(n, size);
}

WRAP(void *, realloc, (void *p, size_t n))
{
	return hit(ALLOC) ? NULL : __real_realloc(p, n);
}

WRAP(void *, aligned_alloc, (size_t align, size_t n))
{
	return hit(ALLOC) ? NULL : __real_aligned_alloc(align, n);
}

/* All files are made with the same mode. */
WRAP(int, open, (const char *path, int flags, ...))
{
	return hit(OPEN) ? fails_with(EACCES) : __real_open(path, flags, 0666);
}

WRAP(int, open64, (const char *path, int flags, ...))
{
	return hit(OPEN) ? fails_with(EACCES) :
			   __real_open64(path, flags, 0666);
}

WRAP(int, openat64, (int dir, const char *path, int flags, ...))
{
	return hit(OPEN) ? fails_with(EMFILE) :
			   __real_openat64(dir, path, flags);
}

static bool fail_read(size_t *n)
{
	if (!hit(READ))
		return false;
	*n = *n > 1 ? *n / 2 : *n;
	return how != SHORT;
}

WRAP(ssize_t, read, (int fd, void *to, size_t n))
{
	return fail_read(&n) ? fails_with(EIO) : __real_read(fd, to, n);
}

WRAP(ssize_t, pread, (int fd, void *to, size_t n, off_t at))
{
	return fail_read(&n) ? fails_with(EIO) : __real_pread(fd, to, n, at);
}

WRAP(ssize_t, pread64, (int fd, void *to, size_t n, off_t at))
{
	return fail_read(&n) ? fails_with(EIO) : __real_pread64(fd, to, n, at);
}

static bool fail_change(void)
{
	return how <= ON && hit(WRITE);
}

WRAP(ssize_t, write, (int fd, const void *from, size_t n))
{
	if (hit(WRITE)) {
		if (how != SHORT)
			return fails_with(ENOSPC);
		n = n > 1 ? n / 2 : n;
	}
	return __real_write(fd, from, n);
}

/* Nothing waits for the disk here: that would take minutes. */
WRAP(int, fsync, (int fd))
{
	(void)fd;
	return fail_change() ? fails_with(EIO) : 0;
}

WRAP(int, rename, (const char *from, const char *to))
{
	return fail_change() ? fails_with(EIO) : __real_rename(from, to);
}

WRAP(int, ftruncate64, (int fd, off_t n))
{
	return fail_change() ? fails_with(EIO) : __real_ftruncate64(fd, n);
}

WRAP(int, mkdir, (const char *path, mode_t mode))
{
	return fail_change() ? fails_with(EACCES) : __real_mkdir(path, mode);
}

WRAP(int, unlink, (const char *path))
{
	return fail_change() ? fails_with(EACCES) : __real_unlink(path);
}

WRAP(int, pthread_create,
     (pthread_t * t, const pthread_attr_t *attr, void *(*main_)(void *),
      void *arg))
{
	return hit(THREAD) ? EAGAIN :
			     __real_pthread_create(t, attr, main_, arg);
}

/* ---- data ---- */

enum { N = 13, WIDTH = 5, MISSING = 7, EPOCHS = 2, SIDE = 21 };

static size_t file_bytes(uint64_t sample)
{
	return sample == 4 ? 0 : 20 + sample * 31;
}

static uint8_t byte_at(uint64_t sample, size_t k)
{
	return (uint8_t)mr_mix64(sample * 1000 + k);
}

/* JPEGs, of which some are progressive and some lie on their side; and PNGs,
 * of which some are interlaced. */
static void put_jpeg(uint64_t i, const uint8_t *rgb)
{
	static const uint8_t turned[] = "Exif\0\0II*\0\10\0\0\0\1\0\x12\1\3\0"
					"\1\0\0\0\6\0\0\0\0\0\0";
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	uint8_t *bytes = NULL;
	unsigned long n = 0;

	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &bytes, &n);
	c.image_width = c.image_height = SIDE;
	c.input_components = 3;
	c.in_color_space = JCS_RGB;
	jpeg_set_defaults(&c);
	if (i % 4 == 0)
		jpeg_simple_progression(&c);
	jpeg_start_compress(&c, TRUE);
	if (i % 3 == 0)
		jpeg_write_marker(&c, JPEG_APP0 + 1, turned,
				  sizeof(turned) - 1);
	while (c.next_scanline < SIDE) {
		uint8_t *row = (uint8_t *)(uintptr_t)(rgb + c.next_scanline *
								    SIDE * 3);

		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	put(textf("images/%02d.jpg", (int)i), bytes, n);
	free(bytes);
}

static void put_png(uint64_t i, const uint8_t *rgb)
{
	struct spng_ihdr head = { .width = SIDE,
				  .height = SIDE,
				  .bit_depth = 8,
				  .color_type = SPNG_COLOR_TYPE_TRUECOLOR,
				  .interlace_method = i % 4 == 1 };
	spng_ctx *c = spng_ctx_new(SPNG_CTX_ENCODER);
	size_t n;
	void *bytes;
	int e;

	spng_set_option(c, SPNG_ENCODE_TO_BUFFER, 1);
	spng_set_ihdr(c, &head);
	assert_int_equal(spng_encode_image(c, rgb, SIDE * SIDE * 3,
					   SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
			 0);
	bytes = spng_get_png_buffer(c, &n, &e);
	assert_non_null(bytes);
	put(textf("images/%02d.png", (int)i), bytes, n);
	free(bytes);
	spng_ctx_free(c);
}

static void make_images(void)
{
	static uint8_t rgb[SIDE * SIDE * 3];

	assert_int_equal(mkdir(textf("%s/images", top), 0755), 0);
	for (uint64_t i = 0; i < N; i++) {
		for (size_t k = 0; k < sizeof(rgb); k++)
			rgb[k] = (uint8_t)(byte_at(i, k) / 4 + k / 9);
		if (i % 2)
			put_png(i, rgb);
		else
			put_jpeg(i, rgb);
	}
}

/* Three kinds of sound, all of them of so many samples: WAV, FLAC whose head
 * tells that or does not, and MP3, which is silence. */
enum { SOUND = 2 * 1152 };

static FLAC__StreamEncoderWriteStatus on_flac(const FLAC__StreamEncoder *e,
					      const FLAC__byte *bytes, size_t n,
					      unsigned samples, unsigned frame,
					      void *data)
{
	(void)e;
	(void)samples;
	(void)frame;
	return fwrite(bytes, 1, n, data) == n ?
		       FLAC__STREAM_ENCODER_WRITE_STATUS_OK :
		       FLAC__STREAM_ENCODER_WRITE_STATUS_FATAL_ERROR;
}

static void put_flac(const char *name, const int16_t *x, bool tell)
{
	FILE *f = fopen(textf("%s/%s", top, name), "wb");
	FLAC__StreamEncoder *e = FLAC__stream_encoder_new();
	FLAC__int32 wide[SOUND];

	for (int i = 0; i < SOUND; i++)
		wide[i] = x[i];
	FLAC__stream_encoder_set_channels(e, 1);
	FLAC__stream_encoder_set_sample_rate(e, 48000);
	FLAC__stream_encoder_set_total_samples_estimate(e, tell ? SOUND : 0);
	assert_int_equal(FLAC__stream_encoder_init_stream(e, on_flac, NULL,
							  NULL, NULL, f),
			 FLAC__STREAM_ENCODER_INIT_STATUS_OK);
	assert_true(FLAC__stream_encoder_process_interleaved(e, wide, SOUND));
	assert_true(FLAC__stream_encoder_finish(e));
	FLAC__stream_encoder_delete(e);
	assert_int_equal(fclose(f), 0);
}

static void put_wav(const char *name, const int16_t *x)
{
	uint8_t file[44 + 2 * SOUND] = "RIFF....WAVEfmt \20\0\0\0\1\0\1";

	mr_le32_put(file + 4, sizeof(file) - 8);
	mr_le32_put(file + 24, 48000);
	mr_le32_put(file + 28, 96000);
	mr_le32_put(file + 32, 2 | 16 << 16);
	memcpy(file + 36, "data", 4);
	mr_le32_put(file + 40, 2 * SOUND);
	memcpy(file + 44, x, 2 * SOUND);
	put(name, file, sizeof(file));
}

static void make_sounds(void)
{
	static const uint8_t silence[2][192] = { { 0xff, 0xfb, 0x54, 0xc0 },
						 { 0xff, 0xfb, 0x54, 0xc0 } };
	int16_t x[SOUND];

	assert_int_equal(mkdir(textf("%s/sounds", top), 0755), 0);
	for (uint64_t i = 0; i < N; i++) {
		const char *name = textf("sounds/%02d", (int)i);

		for (size_t k = 0; k < SOUND; k++)
			x[k] = (int16_t)(byte_at(i, k) * 50);
		if (i % 4 == 0)
			put_wav(name, x);
		else if (i % 4 == 3)
			put(name, silence, sizeof(silence));
		else
			put_flac(name, x, i % 4 == 1);
	}
}

/* A member of a tar in ustar's form. */
static void put_member(FILE *f, const char *name, const void *data, size_t n)
{
	uint8_t head[512] = { 0 }, pad[512] = { 0 };
	unsigned sum = 0;

	snprintf((char *)head, 100, "%s", name);
	snprintf((char *)head + 124, 12, "%011o", (unsigned)n);
	memset(head + 148, ' ', 8);
	head[156] = '0';
	memcpy(head + 257,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < sizeof(head); i++)
		sum += head[i];
	snprintf((char *)head + 148, 8, "%06o", sum);
	assert_int_equal(fwrite(head, 1, 512, f), 512);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fwrite(pad, 1, -n % 512, f), -n % 512);
}

/* Two tars of the same samples as the files, with their labels. */
static void make_tars(void)
{
	static uint8_t bytes[1000];
	FILE *f[2] = { fopen(textf("%s/0.tar", top), "wb"),
		       fopen(textf("%s/1.tar", top), "wb") };

	for (uint64_t i = 0; i < N; i++) {
		int64_t label = (int64_t)i * 3;

		for (size_t k = 0; k < file_bytes(i); k++)
			bytes[k] = byte_at(i, k);
		put_member(f[i > N / 2], textf("%02d.data", (int)i), bytes,
			   file_bytes(i));
		put_member(f[i > N / 2], textf("%02d.label", (int)i), &label,
			   sizeof(label));
	}
	assert_int_equal(fclose(f[0]) | fclose(f[1]), 0);
}

/* ---- the same rows in others' containers ---- */

static uint32_t masked_crc(const void *p, size_t n)
{
	uint32_t c = mr_crc32c(p, n);

	return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* Records of { data: the row, label: its number times 3 }. */
static void put_tfrecord(const uint8_t *rows)
{
	static const uint8_t before[] = "\12\43\12\21\12\4data\22\11\12\7\12\5";
	static const uint8_t after[] = "\12\16\12\5label\22\5\32\3\12\1";
	enum {
		BEFORE = sizeof(before) - 1,
		AFTER = sizeof(after) - 1,
		BODY = BEFORE + WIDTH + AFTER + 1
	};
	uint8_t file[N][BODY + 16];

	for (size_t i = 0; i < N; i++) {
		uint8_t *p = file[i], *body = p + 12;

		mr_le64_put(p, BODY);
		mr_le32_put(p + 8, masked_crc(p, 8));
		memcpy(body, before, BEFORE);
		memcpy(body + BEFORE, rows + i * WIDTH, WIDTH);
		memcpy(body + BEFORE + WIDTH, after, AFTER);
		body[BODY - 1] = (uint8_t)(i * 3);
		mr_le32_put(body + BODY, masked_crc(body, BODY));
	}
	put("x.tfrecord", file, sizeof(file));
}

static void put_mds(const uint8_t *rows)
{
	const char *index =
		"{\"version\": 2, \"shards\": [{\"column_names\": [\"data\", "
		"\"label\"], \"column_encodings\": [\"ndarray:uint8:5\", "
		"\"int\"], \"column_sizes\": [5, 8], \"compression\": null, "
		"\"format\": \"mds\", \"raw_data\": {\"basename\": \"s\"}, "
		"\"zip_data\": null, \"samples\": 13}]}";
	enum { SAMPLE = WIDTH + 8, HEAD = 4 + 4 * (N + 1) };
	uint8_t file[HEAD + N * SAMPLE];

	mr_le32_put(file, N);
	for (uint32_t i = 0; i <= N; i++)
		mr_le32_put(file + 4 + 4 * i, HEAD + i * SAMPLE);
	for (size_t i = 0; i < N; i++) {
		memcpy(file + HEAD + i * SAMPLE, rows + i * WIDTH, WIDTH);
		mr_le64_put(file + HEAD + i * SAMPLE + WIDTH, i * 3);
	}
	assert_int_equal(mkdir(textf("%s/mds", top), 0755), 0);
	put("mds/index.json", index, strlen(index));
	put("mds/s", file, sizeof(file));
}

/* An array of bytes and an integer. */
static void put_beton(const uint8_t *rows)
{
	enum {
		FIELD = 1041,
		HEAD = 24 + 2 * FIELD,
		DATA = HEAD + N * 16,
		TABLE = DATA + N * WIDTH
	};
	static uint8_t file[TABLE + N * 24];
	const char *type = "[[\"\", \"|u1\"]]";
	uint8_t *field = file + 24;

	mr_le32_put(file, 2 | 2 << 16);
	mr_le32_put(file + 4, 1 << 21);
	mr_le64_put(file + 8, N);
	mr_le64_put(file + 16, TABLE);
	memcpy(field, "\4data", 5);
	mr_le64_put(field + 17, WIDTH);
	mr_le64_put(field + 17 + 256, strlen(type));
	memcpy(field + 17 + 264, type, strlen(type));
	memcpy(field + FIELD, "\1label", 6);
	for (size_t i = 0; i < N; i++) {
		mr_le64_put(file + HEAD + 16 * i, DATA + i * WIDTH);
		mr_le64_put(file + HEAD + 16 * i + 8, i * 3);
	}
	memcpy(file + DATA, rows, N * WIDTH);
	put("x.beton", file, sizeof(file));
}

/* A vocabulary of bytes alone, and a table that gives them back. */
static void put_text_tables(void)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	int64_t shape[] = { 256, 1 };
	char lines[256 * 10];
	float table[256];
	size_t at = 0;

	for (int i = 0; i < 256; i++) {
		at += (size_t)snprintf(lines + at, sizeof(lines) - at,
				       "%c%c== %d\n", digit[i >> 2],
				       digit[(i & 3) << 4], i);
		table[i] = (float)i;
	}
	put("r.tiktoken", lines, at);
	put_npy("e.npy", "<f4", 2, shape, table, sizeof(table));
}

/* A set of a pipeline over all that, with `top` for each %s in it. */
static const char *pipeline_of(const char *text)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return textf(text, top, top);
#pragma GCC diagnostic pop
}

static int store(const char *text, const char *out, const char *codec,
		 struct mr_err *err)
{
	struct mr_store_options opt;
	struct mr_store_report report;
	int e;

	mr_store_options_init(&opt);
	opt.out = textf("%s/%s", top, out);
	opt.codec = codec;
	opt.shards = 3;
	opt.literal = true;
	opt.loader.threads = 1;
	opt.loader.memory = 8 << 20;
	e = mr_store(pipeline_of(text), &opt, &report, err);
	assert_true(e < 0 || report.complete);
	return e;
}

static void must_store(const char *text, const char *out, const char *codec)
{
	struct mr_err err;

	if (store(text, out, codec, &err))
		fail_msg("%s", err.text);
}

static int make_data(void **state)
{
	static uint8_t bytes[1000], rows[N * WIDTH];
	static int64_t labels[N];
	char list[N * 20] = "";
	int64_t shape[] = { N, WIDTH };
	size_t at = 0;

	if (make_top(state) || mkdir(textf("%s/files", top), 0755))
		return -1;
	for (uint64_t i = 0; i < N; i++) {
		for (size_t k = 0; k < file_bytes(i); k++)
			bytes[k] = byte_at(i, k);
		put(textf("files/%02d", (int)i), bytes, file_bytes(i));
		at += (size_t)snprintf(
			list + at, sizeof(list) - at, "files/%s%02d,%d\n",
			i == MISSING ? "no" : "", (int)i, (int)i * 3);
		for (size_t k = 0; k < WIDTH; k++)
			rows[i * WIDTH + k] = byte_at(i, k);
		labels[i] = (int64_t)i * 3;
	}
	put("list.csv", list, at);
	put_npy("x.npy", "|u1", 2, shape, rows, sizeof(rows));
	put_npy("y.npy", "<i8", 1, shape, labels, sizeof(labels));
	make_images();
	make_sounds();
	make_tars();
	put_tfrecord(rows);
	put_mds(rows);
	put_beton(rows);
	put_text_tables();
	must_store("files %s/files | tokenize ranks=%s/r.tiktoken", "ids",
		   "none");
	must_store("npy %s/x.npy labels=%s/y.npy", "dense", "none");
	must_store("files %s/files", "ragged", "none");
	must_store("files %s/files | cast i16", "packed", "zstd");
	return 0;
}

/* ---- pipelines ---- */

struct job {
	const char *text; /* with %s for the directory, twice */
	bool labels;	  /* three times the number */
	bool padded, missing;
	const char *known; /* of this field it is known what is right: what a
			    * run without failure gave */
	bool ids;	   /* bytes as tokens */
	int on_error, threads, fetch;
	int order;
	bool uring;
};

static struct {
	const struct job *job;
	long k;
} now;

/* In a signal handler: a hang is told with all that is known. */
static void on_alarm(int sig)
{
	char text[300];
	int n = snprintf(text, sizeof(text),
			 "HANGS: %s; on_error %d, threads %d, fetch %d%s; %s "
			 "%ld fails %s\n",
			 now.job->text, now.job->on_error, now.job->threads,
			 now.job->fetch, now.job->uring ? " by io_uring" : "",
			 what_name[atomic_load(&what)], now.k, how_name[how]);

	(void)sig;
	if (write(2, text, (size_t)n) < 0)
		_exit(2);
	_exit(1);
}

#define CHECK(ok, ...)                                                      \
	do {                                                                \
		if (!(ok)) {                                                \
			int what_ = atomic_exchange(&what, NOTHING);        \
			fprintf(stderr,                                     \
				"%s; on_error %d, threads %d, fetch %d%s; " \
				"%s %ld fails %s:\n",                       \
				now.job->text, now.job->on_error,           \
				now.job->threads, now.job->fetch,           \
				now.job->uring ? " by io_uring" : "",       \
				what_name[what_], now.k, how_name[how]);    \
			fail_msg(__VA_ARGS__);                              \
		}                                                           \
	} while (0)

/* A hash of each sample, 0 as long as it is not known. */
static uint64_t known[EPOCHS][N];

static bool is_as_known(const struct job *j, const struct mr_batch *b,
			uint64_t i)
{
	const struct mr_tensor *t = &mr_batch_find(b, j->known)->tensor;
	size_t n = mr_tensor_bytes(t) / mr_batch_count(b);
	const uint8_t *p = (const uint8_t *)t->data + i * n;
	uint64_t *want = &known[mr_batch_epoch(b)][mr_batch_indices(b)[i]];
	uint64_t h = n;

	for (size_t k = 0; k < n; k++)
		h = mr_mix64(h * 31 + p[k]);
	if (atomic_load(&what) == NOTHING)
		*want = h;
	return *want == h;
}

/* n elements from `at` on are the sample's bytes. */
static bool ids_are_right(const struct mr_field *f, int64_t at, size_t n,
			  uint64_t sample, size_t from)
{
	const int32_t *id = (const int32_t *)f->tensor.data + at;
	const float *row = (const float *)f->tensor.data + at;

	for (size_t k = 0; k < n; k++)
		if (byte_at(sample, from + k) !=
		    (f->tensor.dtype == MR_F32 ? (int)row[k] : id[k]))
			return false;
	return true;
}

/* The pieces of a sample that was packed into rows. */
static bool pieces_are_right(const struct mr_batch *b, uint64_t i)
{
	const struct mr_field *f = mr_batch_find(b, "ids");
	const struct mr_tensor *t = &mr_batch_find(b, "pieces")->tensor;
	uint64_t sample = mr_batch_indices(b)[i];
	const int32_t *p = t->data;
	size_t found = 0;

	for (int64_t k = 0; k < t->shape[0]; k++, p += 5) {
		if ((uint64_t)p[3] != i)
			continue;
		if (!ids_are_right(f, p[0] * f->tensor.shape[1] + p[1],
				   (size_t)p[2], sample, (size_t)p[4]))
			return false;
		found += (size_t)p[2];
	}
	return found == file_bytes(sample);
}

static bool text_is_right(const struct mr_batch *b, uint64_t i)
{
	const struct mr_field *f = mr_batch_find(b, "ids");
	uint64_t sample = mr_batch_indices(b)[i];

	if (mr_batch_find(b, "pieces"))
		return pieces_are_right(b, i);
	return f->offsets[i + 1] - f->offsets[i] ==
		       (int64_t)file_bytes(sample) &&
	       ids_are_right(f, f->offsets[i], file_bytes(sample), sample, 0);
}

static bool row_is_right(const struct job *j, const struct mr_batch *b,
			 uint64_t i)
{
	const struct mr_field *x = mr_batch_find(b, "data");
	const struct mr_field *y = mr_batch_find(b, "label");
	uint64_t sample = mr_batch_indices(b)[i];
	size_t n = x->shapes ? (size_t)x->shapes[i] : WIDTH;
	size_t row = j->padded ? (size_t)x->tensor.shape[1] : n;
	const int16_t *v = x->tensor.data;

	if (sample >= N || n != (x->shapes ? file_bytes(sample) : WIDTH))
		return false;
	v += x->offsets ? (size_t)x->offsets[i] : i * row;
	for (size_t k = 0; k < row; k++)
		if (v[k] != (k < n ? byte_at(sample, k) : -1))
			return false;
	return ((const int64_t *)y->tensor.data)[i] ==
	       (j->labels ? (int64_t)sample * 3 : 0);
}

static bool is_listed(const struct mr_loader *l, uint64_t epoch, uint64_t index)
{
	struct mr_bad bad;

	for (size_t i = 0; mr_loader_bad(l, i, &bad); i++)
		if (bad.epoch == epoch && bad.index == index)
			return bad.key[0] && bad.reason[0];
	return false;
}

/* All that was promised came, or is listed as bad where that is allowed. */
static void check_complete(const struct job *j, struct mr_loader *l,
			   uint8_t seen[EPOCHS][N])
{
	struct mr_stats st;
	uint64_t bad = 0;

	for (uint64_t e = 0; e < EPOCHS; e++) {
		for (uint64_t i = 0; i < N; i++) {
			CHECK(seen[e][i] <= 1, "sample %d came twice", (int)i);
			if (seen[e][i])
				continue;
			bad++;
			CHECK(j->on_error == MR_ON_ERROR_SKIP,
			      "sample %d of epoch %d is missing, silently",
			      (int)i, (int)e);
			CHECK(is_listed(l, e, i),
			      "sample %d of epoch %d was skipped and is not "
			      "listed",
			      (int)i, (int)e);
		}
	}
	mr_loader_stats(l, &st);
	CHECK(st.bad_samples == bad, "%d samples are bad, %d are counted",
	      (int)bad, (int)st.bad_samples);
}

static void check_error(int e, const struct mr_err *err)
{
	CHECK(e < 0 && err->code == e, "code %d, in the error %d", e,
	      err->code);
	CHECK(err->text[0], "an error without a text");
}

/* Takes all batches; the code of what ended it. */
static int consume(const struct job *j, struct mr_loader *l,
		   uint8_t seen[EPOCHS][N])
{
	struct mr_err err = { 0 };
	int ends = 0;

	while (ends < EPOCHS) {
		struct mr_batch *b = NULL;
		int e = mr_loader_next(l, &b, &err);

		if (e < 0) {
			check_error(e, &err);
			return e;
		}
		CHECK(e == MR_OK || e == MR_END, "next() gave %d", e);
		ends += e == MR_END;
		for (uint64_t i = 0; b && i < mr_batch_count(b); i++) {
			CHECK(j->known ? is_as_known(j, b, i) :
			      j->ids   ? text_is_right(b, i) :
					 row_is_right(j, b, i),
			      "a wrong row %d", (int)i);
			seen[mr_batch_epoch(b)][mr_batch_indices(b)[i]]++;
		}
		mr_batch_release(b);
	}
	return 0;
}

static struct mr_options options(const struct job *j)
{
	struct mr_options opt;

	mr_options_init(&opt);
	opt.threads = j->threads;
	opt.on_error = j->on_error;
	opt.fetch = j->fetch;
	opt.memory = 8 << 20;
	opt.epochs = EPOCHS;
	opt.order = j->order;
	opt.block = 3;
	return opt;
}

/* One run; the pipeline's identity in *id when it could be opened. */
static int run(const struct job *j, const char *text, uint64_t *id)
{
	uint8_t seen[EPOCHS][N] = { { 0 } };
	struct mr_options opt = options(j);
	struct mr_loader *l = NULL;
	struct mr_err err = { 0 };
	struct mr_state st;
	int e = mr_loader_open_with(&l, text, &opt, &err);

	if (e) {
		check_error(e, &err);
		CHECK(!l, "a loader came with the error");
		return e;
	}
	mr_loader_state(l, &st);
	*id = st.pipeline;
	e = consume(j, l, seen);
	if (!e)
		check_complete(j, l, seen);
	mr_loader_close(l);
	return e;
}

static void arm(enum what w, enum how h, long k)
{
	how = h;
	now.k = k;
	atomic_store(&left, k);
	atomic_store(&what, (int)w);
	alarm(30);
}

static void disarm(void)
{
	atomic_store(&what, NOTHING);
	alarm(0);
}

/* The k-th call fails, for all k there are. */
static void each_fails(const struct job *j, const char *text, enum what w,
		       enum how h, uint64_t id)
{
	bool again = true;
	int good = 0;

	for (long k = 1; again; k++) {
		uint64_t other = id;
		int e;

		arm(w, h, k);
		e = run(j, text, &other);
		again = was_hit();
		CHECK(other == id, "the identity has changed");
		good += e == 0;
		if (!again || h == INTERRUPT || h == SHORT)
			CHECK((e == 0) == (!j->missing || j->on_error),
			      "failed with %d, but nothing did", e);
		disarm();
		CHECK(k < 5000, "does not come to an end");
	}
	CHECK(good || j->missing, "a run without a failure was not good");
}

static void check_job(const struct job *j)
{
	char text[512];
	uint64_t id = 0;
	int e;

	now.job = j;
	snprintf(text, sizeof(text), "%s", pipeline_of(j->text));
	if (!j->uring)
		setenv("MILLRACE_NO_URING", "1", 1);
	e = run(j, text, &id);
	assert_true((e == 0) == (!j->missing || j->on_error));
	for (int w = ALLOC; w <= THREAD; w++)
		for (int h = ONCE; h <= (w == READ ? SHORT : ON); h++)
			each_fails(j, text, (enum what)w, (enum how)h, id);
	unsetenv("MILLRACE_NO_URING");
}

static void check_kind(struct job j)
{
	for (j.threads = 1; j.threads <= 2; j.threads++) {
		j.fetch = MR_FETCH_DIRECT;
		j.on_error = MR_ON_ERROR_STOP;
		check_job(&j);
		j.on_error = MR_ON_ERROR_SKIP;
		check_job(&j);
	}
	j.fetch = MR_FETCH_AHEAD;
	j.threads = 2;
	j.uring = true;
	check_job(&j);
	j.threads = 1;
	j.on_error = MR_ON_ERROR_STOP;
	check_job(&j);
}

/* ---- tests ---- */

static void test_dense_arrays_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "npy %s/x.npy labels=%s/y.npy | "
					 "cast i16 | batch 4",
				 .labels = true });
}

static void test_ragged_files_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "files %s/files | cast i16 | "
					 "batch 4" });
}

/* Without io_uring, 64 threads read: each of them is one that may fail. */
static void test_reading_by_threads_survives_every_failure(void **state)
{
	struct job j = { .text = "files %s/files | cast i16 | batch 4",
			 .on_error = MR_ON_ERROR_SKIP,
			 .threads = 2,
			 .fetch = MR_FETCH_AHEAD };

	(void)state;
	check_job(&j);
}

static void test_padded_files_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "files %s/files | cast i16 | "
					 "batch 5 pad=-1",
				 .padded = true });
}

static void test_listed_files_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "list %s/list.csv | cast i16 | "
					 "batch 3",
				 .labels = true,
				 .missing = true });
}

static void test_tars_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "tar %s/*.tar index=no | cast i16 | "
					 "batch 4",
				 .labels = true });
}

/* The index is not kept: calls that make files are not failed here. */
static void test_records_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "tfrecord %s/x.tfrecord index=no "
					 "features=data[5],label | cast i16 "
					 "field=data | batch 4",
				 .labels = true });
}

static void test_shards_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "mds %s/mds | cast i16 field=data | "
					 "batch 4",
				 .labels = true });
}

static void test_betons_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "beton %s/x.beton | cast i16 "
					 "field=data | batch 4",
				 .labels = true });
}

static void test_prepared_sets_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "records %s/dense | cast i16 "
					 "field=data | batch 4",
				 .labels = true });
	check_kind((struct job){ .text = "records %s/ragged map=no | cast i16 "
					 "field=data | batch 5 pad=-1",
				 .padded = true });
	check_kind((struct job){ .text = "records %s/packed | batch 4" });
}

static void test_texts_survive_every_failure(void **state)
{
	(void)state;
	check_kind((struct job){ .text = "files %s/files | tokenize "
					 "ranks=%s/r.tiktoken cache=4K | "
					 "batch 4",
				 .ids = true });
	check_kind((struct job){ .text = "records %s/ids | embed %s/e.npy | "
					 "batch 4",
				 .ids = true });
	check_kind((struct job){ .text = "records %s/ids | batch 4 | pack 50 "
					 "how=fit",
				 .ids = true });
	check_kind((struct job){ .text = "records %s/ids map=no | batch 5 | "
					 "pack 64",
				 .ids = true });
}

/* Neighbours are read at once: in block order, and in the set's own. */
static void test_runs_survive_every_failure(void **state)
{
	struct job j = { .text = "records %s/packed map=no | batch 4",
			 .on_error = MR_ON_ERROR_SKIP,
			 .threads = 2,
			 .fetch = MR_FETCH_AHEAD,
			 .order = MR_ORDER_BLOCK,
			 .uring = true };

	(void)state;
	check_job(&j);
	j.order = MR_ORDER_SEQUENTIAL;
	j.on_error = MR_ON_ERROR_STOP;
	check_job(&j);
	j.text = "records %s/dense map=no | cast i16 field=data | batch 4";
	j.labels = true;
	j.uring = false;
	j.threads = 1;
	j.order = MR_ORDER_BLOCK;
	check_job(&j);
}

/* ---- storing ---- */

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static off_t bytes_of(const char *name)
{
	struct stat st;

	return stat(textf("%s/%s", top, name), &st) ? 0 : st.st_size;
}

static void remove_dir(const char *name)
{
	DIR *d = opendir(textf("%s/%s", top, name));
	const struct dirent *f;

	if (!d)
		return;
	while ((f = readdir(d)))
		if (f->d_name[0] != '.')
			assert_int_equal(unlinkat(dirfd(d), f->d_name, 0), 0);
	closedir(d);
	assert_int_equal(rmdir(textf("%s/%s", top, name)), 0);
}

/* The same files with the same bytes? */
static bool same_dirs(const char *a, const char *b)
{
	DIR *d = opendir(textf("%s/%s", top, a));
	const struct dirent *f;
	int n = 0;

	if (!d)
		return false;
	for (; (f = readdir(d)); n++) {
		char *x = NULL, *y = NULL;
		size_t i = 0, k = 0;
		bool same;

		if (f->d_name[0] == '.')
			continue;
		same = !mr_file_read(textf("%s/%s/%s", top, a, f->d_name),
				     1 << 20, &x, &i, NULL) &&
		       !mr_file_read(textf("%s/%s/%s", top, b, f->d_name),
				     1 << 20, &y, &k, NULL) &&
		       i == k && !memcmp(x, y, i);
		free(x);
		free(y);
		if (!same)
			break;
	}
	closedir(d);
	d = opendir(textf("%s/%s", top, b));
	while (d && readdir(d))
		n--;
	closedir(d);
	return !f && !n;
}

/* One that failed may be begun again, and then is as if nothing had been. */
static void store_with_failures(const struct job *j, const char *codec,
				enum what w, enum how h)
{
	bool again = true;

	for (long k = 1; again; k++) {
		struct mr_err err = { 0 };
		int e;

		remove_dir("out");
		arm(w, h, k);
		e = store(j->text, "out", codec, &err);
		again = was_hit();
		if (e)
			check_error(e, &err);
		if (!again || h == INTERRUPT || h == SHORT)
			CHECK(!e, "failed, but nothing did: %s", err.text);
		CHECK(!e || !exists(textf("%s/out/meta.json", top)) ||
			      exists(textf("%s/out/meta.json.part", top)),
		      "looks complete after: %s", err.text);
		disarm();
		if (!bytes_of("out")) {
			CHECK(e, "nothing was stored");
			continue;
		}
		if (e)
			must_store(j->text, "out", codec);
		CHECK(same_dirs("out", "calm"), "another set after: %s",
		      e ? err.text : "success");
		CHECK(k < 5000, "does not come to an end");
	}
}

/* Allocations are many: they fail in one of the two ways. */
static void check_store(const char *text, const char *codec, enum how alloc)
{
	struct job j = { .text = text };

	now.job = &j;
	remove_dir("calm");
	must_store(text, "calm", codec);
	store_with_failures(&j, codec, ALLOC, alloc);
	for (int w = OPEN; w <= WRITE; w++)
		for (int h = ONCE; h <= (w == READ || w == WRITE ? SHORT : ON);
		     h++)
			store_with_failures(&j, codec, (enum what)w,
					    (enum how)h);
}

static void test_storing_survives_every_failure(void **state)
{
	(void)state;
	check_store("npy %s/x.npy labels=%s/y.npy", "none", ON);
	check_store("files %s/files | cast i16", "zstd", ONCE);
}

/* A set whose second shard is in work; the k-th write fails so. */
static bool leave_half(const struct job *j, long k)
{
	struct mr_err err;
	int e;

	remove_dir("out");
	arm(WRITE, ONCE, k);
	e = store(j->text, "out", "zstd", &err);
	disarm();
	return e < 0 && exists(textf("%s/out/shard-00000.mrs", top)) &&
	       !exists(textf("%s/out/shard-00001.mrs", top)) &&
	       bytes_of("out/shard-00001.mrs.idx.part") > 0;
}

/* With each call failing on the way; most allocations are as in the test
 * above, and every fifth will do. */
static void test_going_on_survives_every_failure(void **state)
{
	struct job j = { .text = "files %s/files | cast i16" };
	long half = 1;

	(void)state;
	now.job = &j;
	remove_dir("calm");
	must_store(j.text, "calm", "zstd");
	while (!leave_half(&j, half))
		half++;
	for (int w = ALLOC; w <= WRITE; w++) {
		bool again = true;

		for (long k = 1; again; k += w == ALLOC ? 5 : 1) {
			struct mr_err err = { 0 };
			int e;

			assert_true(leave_half(&j, half));
			arm((enum what)w, ON, k);
			e = store(j.text, "out", "zstd", &err);
			again = was_hit();
			disarm();
			if (e)
				check_error(e, &err);
			if (e)
				must_store(j.text, "out", "zstd");
			CHECK(same_dirs("out", "calm"), "another set after: %s",
			      e ? err.text : "success");
		}
	}
}

static void test_verifying_survives_every_failure(void **state)
{
	struct job j = { .text = "verify" };

	(void)state;
	now.job = &j;
	for (int w = ALLOC; w <= THREAD; w++)
		for (int h = ONCE; h <= (w == READ ? SHORT : ON); h++) {
			bool again = true;

			for (long k = 1; again; k++) {
				struct mr_verify_report r = { 0 };
				struct mr_err err = { 0 };
				int e;

				arm((enum what)w, (enum how)h, k);
				e = mr_verify(textf("%s/packed", top), 2, &r,
					      &err);
				again = was_hit();
				disarm();
				if (e)
					check_error(e, &err);
				CHECK(r.complete == !e, "complete, and %d", e);
				CHECK(!e || (again && h <= ON), "%s", err.text);
				CHECK(e != MR_EDATA && !r.damaged,
				      "taken for damage: %s", err.text);
				CHECK(e || r.samples == N, "%d samples",
				      (int)r.samples);
			}
		}
}

static void check_images(const char *text)
{
	struct job j = { .text = text, .known = "image", .threads = 2 };

	for (uint64_t e = 0; e < EPOCHS; e++)
		memset(known[e], 0, sizeof(known[e]));
	j.fetch = MR_FETCH_DIRECT;
	j.on_error = MR_ON_ERROR_SKIP;
	check_job(&j);
	for (uint64_t i = 0; i < N; i++)
		assert_true(known[0][i] != known[1][i]);
	j.fetch = MR_FETCH_AHEAD;
	j.on_error = MR_ON_ERROR_STOP;
	j.threads = 1;
	j.uring = true;
	check_job(&j);
}

static void test_joined_images_survive_every_failure(void **state)
{
	(void)state;
	check_images("files %s/images | decode_image | random_resized_crop 16 "
		     "| flip | normalize imagenet | batch 4");
}

static void test_images_step_by_step_survive_every_failure(void **state)
{
	(void)state;
	check_images("files %s/images | decode_image fast=yes | flip | "
		     "resize 40 | random_crop 12 padding=3 | "
		     "random_crop 10 padding=1 | cast f32 | batch 4");
}

static void test_sounds_survive_every_failure(void **state)
{
	struct job j = {
		.text = "files %s/sounds | decode_audio | resample 16000 | "
			"stft 64 32 fft=64 rate=16000 | mel 9 rate=16000 | "
			"log | batch 4 pad=0",
		.known = "audio",
	};

	(void)state;
	check_kind(j);
	j.text = "files %s/sounds | decode_audio f32 lenient=yes | "
		 "stft 64 32 fft=64 | batch 4 pad=0";
	check_kind(j);
	setenv("MILLRACE_NO_JOIN", "1", 1);
	check_kind(j);
	unsetenv("MILLRACE_NO_JOIN");
}

static void test_explaining_survives_every_failure(void **state)
{
	const char *text = textf("list %s/list.csv | cast i16 | batch 3", top);
	struct job j = { .text = "explain" };

	(void)state;
	now.job = &j;
	for (int json = 0; json < 2; json++) {
		for (int w = ALLOC; w <= READ; w++) {
			bool again = true;

			for (long k = 1; again; k++) {
				struct mr_err err = { 0 };
				char *out = (void *)&out;
				int e;

				arm((enum what)w, ONCE, k);
				e = mr_explain(text, NULL, json, &out, &err);
				again = was_hit();
				disarm();
				if (e)
					check_error(e, &err);
				CHECK(!e == !!out, "text and code differ");
				CHECK(!out || (strstr(out, "cast") &&
					       strstr(out, "batch") &&
					       strstr(out, "list.csv")),
				      "incomplete: %s", out);
				free(out);
			}
		}
	}
}

/* ---- what a trace becomes ---- */

static void record_trace(const char *path)
{
	struct mr_options opt;
	struct mr_loader *l;
	struct mr_batch *b;
	struct mr_err err;

	mr_options_init(&opt);
	opt.threads = 2;
	opt.epochs = 1;
	opt.trace = path;
	if (mr_loader_open_with(
		    &l, textf("list %s/list.csv | cast i16 | batch 3", top),
		    &opt, &err))
		fail_msg("%s", err.text);
	while (mr_loader_next(l, &b, &err) == MR_OK)
		mr_batch_release(b);
	mr_loader_close(l);
}

/* Whole and as ever, or not there at all; where nothing can be removed, a
 * part of it may stay under another name. */
static void export_with_failures(const char *kind, enum what w, enum how h)
{
	char trace[300], to[300], temp[320];
	bool again = true;

	snprintf(trace, sizeof(trace), "%s/t.mrt", top);
	snprintf(to, sizeof(to), "%s/t.%s", top, kind);
	snprintf(temp, sizeof(temp), "%s.tmp-%d-0", to, (int)getpid());
	for (long k = 1; again; k++) {
		struct mr_err err = { 0 };
		int e;

		unlink(to);
		arm(w, h, k);
		e = mr_trace_export(trace, to, &err);
		again = was_hit();
		disarm();
		if (e)
			check_error(e, &err);
		CHECK(!e || (again && h <= ON), "%s", err.text);
		CHECK((w == WRITE && h == ON) || access(temp, F_OK),
		      "a part is left behind");
		CHECK(!e == !access(to, F_OK), "file and code differ");
		CHECK(e || bytes_of(textf("t.%s", kind)) ==
				      bytes_of(textf("calm.%s", kind)),
		      "another %s", kind);
		unlink(temp);
	}
}

static void test_exporting_a_trace_survives_every_failure(void **state)
{
	static const char *const kinds[] = { "json", "folded", "csv", "html" };
	struct job j = { .text = "export" };
	struct mr_err err;

	(void)state;
	now.job = &j;
	record_trace(textf("%s/t.mrt", top));
	for (size_t i = 0; i < MR_COUNT(kinds); i++) {
		if (mr_trace_export(textf("%s/t.mrt", top),
				    textf("%s/calm.%s", top, kinds[i]), &err))
			fail_msg("%s", err.text);
		for (int h = ONCE; h <= ON; h++) {
			export_with_failures(kinds[i], ALLOC, (enum how)h);
			export_with_failures(kinds[i], OPEN, (enum how)h);
			export_with_failures(kinds[i], WRITE, (enum how)h);
		}
		export_with_failures(kinds[i], WRITE, SHORT);
	}
}

/* ---- pages ---- */

static const char diagnosed[] =
	"{\"pipeline\": \"synthetic shape=9 | batch 8\", \"samples\": 800, "
	"\"batch\": 8, \"threads\": 2, \"as_g\": {\"mean\": 900, \"low\": "
	"800, \"high\": 1000, \"n\": 5}, \"notes\": [\"<\"]}";

static const char tuned[] = "{\"millrace\": \"tuning\", \"best\": 1.5}";

static int page_of(int kind, const char *to, struct mr_err *err)
{
	struct mr_whatif_options o;

	mr_whatif_options_init(&o);
	o.sweep = "cache=0:100:50";
	return kind == 2 ? mr_tuning_page(tuned, "d", to, err) :
	       kind == 1 ? mr_whatif_page(diagnosed, "d", &o, to, err) :
			   mr_diagnosis_page(diagnosed, "d", to, err);
}

static void page_with_failures(enum what w, enum how h, int kind)
{
	char to[300], temp[320];
	bool again = true;

	snprintf(to, sizeof(to), "%s/page.html", top);
	snprintf(temp, sizeof(temp), "%s.tmp-%d-0", to, (int)getpid());
	for (long k = 1; again; k++) {
		struct mr_err err = { 0 };
		int e;

		unlink(to);
		arm(w, h, k);
		e = page_of(kind, to, &err);
		again = was_hit();
		disarm();
		if (e)
			check_error(e, &err);
		CHECK(!e || again, "%s", err.text);
		CHECK((w == WRITE && h == ON) || access(temp, F_OK),
		      "a part is left behind");
		CHECK(!e == !access(to, F_OK), "file and code differ");
		unlink(temp);
	}
}

static void test_pages_survive_every_failure(void **state)
{
	struct job j = { .text = "page" };

	(void)state;
	now.job = &j;
	for (int kind = 0; kind < 3; kind++)
		for (int h = ONCE; h <= ON; h++) {
			page_with_failures(ALLOC, (enum how)h, kind);
			page_with_failures(OPEN, (enum how)h, kind);
			page_with_failures(WRITE, (enum how)h, kind);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dense_arrays_survive_every_failure),
		cmocka_unit_test(test_ragged_files_survive_every_failure),
		cmocka_unit_test(
			test_reading_by_threads_survives_every_failure),
		cmocka_unit_test(test_padded_files_survive_every_failure),
		cmocka_unit_test(test_listed_files_survive_every_failure),
		cmocka_unit_test(test_tars_survive_every_failure),
		cmocka_unit_test(test_records_survive_every_failure),
		cmocka_unit_test(test_shards_survive_every_failure),
		cmocka_unit_test(test_betons_survive_every_failure),
		cmocka_unit_test(test_prepared_sets_survive_every_failure),
		cmocka_unit_test(test_texts_survive_every_failure),
		cmocka_unit_test(test_runs_survive_every_failure),
		cmocka_unit_test(test_storing_survives_every_failure),
		cmocka_unit_test(test_going_on_survives_every_failure),
		cmocka_unit_test(test_verifying_survives_every_failure),
		cmocka_unit_test(test_joined_images_survive_every_failure),
		cmocka_unit_test(
			test_images_step_by_step_survive_every_failure),
		cmocka_unit_test(test_sounds_survive_every_failure),
		cmocka_unit_test(test_explaining_survives_every_failure),
		cmocka_unit_test(test_pages_survive_every_failure),
		cmocka_unit_test(test_exporting_a_trace_survives_every_failure),
	};

	signal(SIGALRM, on_alarm);
	return cmocka_run_group_tests(tests, make_data, remove_top);
}
