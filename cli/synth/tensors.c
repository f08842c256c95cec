/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensors: .npy files, or a raw file per sample, of smooth random fields
 * with noise: they compress about as measured data does, and are made faster
 * than a disk can write.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/tensor.h"
#include "synth/synth.h"

#define BLOCK	   (4 << 20) /* bytes per write */
#define HEADER_MAX 512

struct file {
	struct synth_file out;
	bool opened;
	uint64_t left; /* blocks not yet written */
};

struct tensors {
	struct synth *s;
	struct synth_field *field;
	size_t rows, row; /* of a sample: row elements in a row */
	size_t bytes;	  /* of a sample */
	uint64_t per_block;
	uint64_t blocks; /* in a file */
	struct file *file;
	void **block;	/* of each worker */
	uint16_t *half; /* int16 to f16, by its bits; for MR_F16 */
	pthread_mutex_t lock;
};

/* ---- values ---- */

/* x in [2^-14, 65504), or 0, to the bits of a binary16, ties to even. */
static uint16_t half_of(float x)
{
	uint32_t u, sign;

	memcpy(&u, &x, sizeof(u));
	sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	if (u < 0x38800000) /* below 2^-14: no need for finer steps */
		return (uint16_t)sign;
	u += 0xfff + (u >> 13 & 1);
	return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

/* As after a normalisation: deviation about 1, no round binary numbers. */
static float real_of(int v)
{
	return (float)v * (1.0f / 1021);
}

static int16_t mix(int16_t field, int16_t noise, int amp, int mean)
{
	return (int16_t)(mean + (int16_t)(field * amp >> 16) + (noise >> 6));
}

#define CONVERT(T, expr)                                            \
	do {                                                        \
		T *to_ = to;                                        \
		for (size_t i = 0; i < n; i++) {                    \
			int v = mix(field[i], noise[i], amp, mean); \
			to_[i] = (T)(expr);                         \
		}                                                   \
	} while (0)

static int u8_of(int v)
{
	v = 128 + (v >> 4);
	return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* n <= SYNTH_FIELD elements; v has a deviation of about 1000. */
static void convert(const struct tensors *t, void *to, const int16_t *field,
		    const int16_t *noise, size_t n, int amp, int mean)
{
	switch (t->s->opt->dtype) {
	case MR_U8:
		CONVERT(uint8_t, u8_of(v));
		break;
	case MR_I16:
		CONVERT(int16_t, v);
		break;
	case MR_I32:
		CONVERT(int32_t, v);
		break;
	case MR_I64:
		CONVERT(int64_t, v);
		break;
	case MR_F16:
		CONVERT(uint16_t, t->half[(uint16_t)v]);
		break;
	case MR_F32:
		CONVERT(float, real_of(v));
		break;
	case MR_F64:
		CONVERT(double, real_of(v));
		break;
	case MR_NONE:
	case MR_DTYPES:
		break;
	}
}

static void make_sample(const struct tensors *t, uint64_t index, char *to)
{
	const struct synth_options *opt = t->s->opt;
	uint64_t class = index % (uint64_t)opt->classes;
	struct synth_rng rng = synth_rng_for((uint64_t)opt->seed, index);
	size_t size = mr_dtype_size(opt->dtype);
	/* The class shows in the mean and in the texture. */
	const struct synth_field *f =
		&t->field[class & 1 ? SYNTH_SMOOTH : SYNTH_NATURAL];
	int mean = (int)(mr_mix64(class + 1) % 1000) - 500 +
		   (int)(200 * synth_normal(&rng));
	int amp = (int)(16000 * exp2f(0.5f * synth_normal(&rng)));
	uint64_t u = synth_u64(&rng);

	for (size_t y = 0; y < t->rows; y++) {
		const int16_t *row = f->v[(u + y) & (SYNTH_FIELD - 1)];

		for (size_t x = 0, n; x < t->row; x += n) {
			size_t at = (x + (u >> 16)) & (SYNTH_FIELD - 1);
			uint64_t r = synth_u64(&rng);
			const int16_t *noise =
				t->field[SYNTH_WHITE].v[r & (SYNTH_FIELD - 1)];
			size_t skip = r >> 16 & (SYNTH_FIELD / 2 - 1);

			n = SYNTH_FIELD - (at > skip ? at : skip);
			if (n > t->row - x)
				n = t->row - x;
			convert(t, to, row + at, noise + skip, n, amp, mean);
			to += n * size;
		}
	}
}

/* ---- .npy ---- */

static const char *const descr[MR_DTYPES] = {
	[MR_U8] = "|u1",  [MR_I16] = "<i2", [MR_I32] = "<i4", [MR_I64] = "<i8",
	[MR_F16] = "<f2", [MR_F32] = "<f4", [MR_F64] = "<f8",
};

/* Version 1.0, padded to a multiple of 64 bytes; returns its length. */
static size_t npy_header(char buf[HEADER_MAX], enum mr_dtype dtype, uint64_t n,
			 const struct mr_ints *shape)
{
	size_t len = 10, end;

	len += (size_t)snprintf(buf + len, HEADER_MAX - len,
				"{'descr': '%s', 'fortran_order': False, "
				"'shape': (%llu,",
				descr[dtype], (unsigned long long)n);
	for (int i = 0; i < shape->n; i++)
		len += (size_t)snprintf(buf + len, HEADER_MAX - len, "%s%lld",
					i ? ", " : " ", (long long)shape->v[i]);
	len += (size_t)snprintf(buf + len, HEADER_MAX - len, "), }");
	end = mr_round_up(len + 1, 64);
	memset(buf + len, ' ', end - len - 1);
	buf[end - 1] = '\n';
	memcpy(buf, "\x93NUMPY\x01\x00", 8);
	buf[8] = (char)((end - 10) & 0xff);
	buf[9] = (char)((end - 10) >> 8);
	return end;
}

/* Samples of the first k files; the first ones have one more if need be. */
static uint64_t first_sample(const struct tensors *t, uint64_t k)
{
	uint64_t n = (uint64_t)t->s->opt->count, files;

	files = (uint64_t)t->s->opt->files;
	return n / files * k + (k < n % files ? k : n % files);
}

static int file_begin(struct tensors *t, uint64_t k, size_t *header,
		      struct mr_err *err)
{
	struct file *f = &t->file[k];
	uint64_t n = first_sample(t, k + 1) - first_sample(t, k);
	char buf[HEADER_MAX];
	int e = 0;

	*header = npy_header(buf, t->s->opt->dtype, n, &t->s->opt->shape);
	pthread_mutex_lock(&t->lock);
	if (!f->opened) {
		f->opened = true;
		e = synth_file_open(&f->out, err, "%s/data-%05llu.npy",
				    t->s->dir, (unsigned long long)k);
		if (!e)
			e = synth_file_write(&f->out, buf, *header, 0, err);
	} else if (f->out.fd < 0) {
		/* Opening failed in another thread, which says why. */
		e = mr_err_set(err, MR_EIO, "%s: cannot write", f->out.path);
	}
	pthread_mutex_unlock(&t->lock);
	return e;
}

static int file_end(struct tensors *t, uint64_t k, uint64_t size,
		    struct mr_err *err)
{
	bool last;

	pthread_mutex_lock(&t->lock);
	last = --t->file[k].left == 0;
	pthread_mutex_unlock(&t->lock);
	return last ? synth_file_done(t->s, &t->file[k].out, size, err) : 0;
}

/* Item i is a block of a file; files are filled one after another. */
static int make_block(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct tensors *t = data;
	uint64_t k = i / t->blocks, first = first_sample(t, k);
	uint64_t n = first_sample(t, k + 1) - first;
	uint64_t from = i % t->blocks * t->per_block;
	uint64_t to = from + t->per_block < n ? from + t->per_block : n;
	char *block = t->block[worker];
	size_t header;
	int e;

	e = file_begin(t, k, &header, err);
	if (e)
		return e;
	for (uint64_t j = from; j < to; j++)
		make_sample(t, first + j, block + (j - from) * t->bytes);
	if (to > from)
		e = synth_file_write(&t->file[k].out, block,
				     (to - from) * t->bytes,
				     header + from * t->bytes, err);
	return e ? e : file_end(t, k, header + n * t->bytes, err);
}

static int make_labels(struct tensors *t, struct mr_err *err)
{
	static const struct mr_ints scalar = { 0 };
	uint64_t n = (uint64_t)t->s->opt->count, step = BLOCK / 8;
	uint64_t classes = (uint64_t)t->s->opt->classes;
	int64_t *v = mr_alloc(step, sizeof(*v), err);
	struct synth_file f = { .fd = -1 };
	char buf[HEADER_MAX];
	size_t at = npy_header(buf, MR_I64, n, &scalar);
	int e;

	if (!v)
		return MR_ENOMEM;
	e = synth_file_open(&f, err, "%s/labels.npy", t->s->dir);
	if (!e)
		e = synth_file_write(&f, buf, at, 0, err);
	for (uint64_t i = 0; i < n && !e; i += step) {
		uint64_t m = n - i < step ? n - i : step;

		for (uint64_t j = 0; j < m; j++)
			v[j] = (int64_t)((i + j) % classes);
		e = synth_file_write(&f, v, m * 8, at + i * 8, err);
	}
	if (!e)
		e = synth_file_done(t->s, &f, at + n * 8, err);
	synth_file_drop(&f);
	free(v);
	return e;
}

static int make_arrays(struct tensors *t, struct mr_err *err)
{
	uint64_t n = (uint64_t)t->s->opt->count;
	uint64_t files = (uint64_t)t->s->opt->files, items;
	int e;

	t->per_block = BLOCK / t->bytes ? BLOCK / t->bytes : 1;
	t->blocks =
		(n / files + (n % files > 0) + t->per_block - 1) / t->per_block;
	items = t->blocks * files;
	t->file = mr_alloc(files, sizeof(*t->file), err);
	if (!t->file)
		return MR_ENOMEM;
	for (uint64_t k = 0; k < files; k++) {
		t->file[k].out.fd = -1;
		t->file[k].left = t->blocks;
	}
	e = synth_each(t->s, items, (double)n, make_block, t, err);
	for (uint64_t k = 0; k < files; k++)
		synth_file_drop(&t->file[k].out);
	free(t->file);
	return e || t->s->stopped ? e : make_labels(t, err);
}

/* ---- a file per sample ---- */

static int make_one(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct tensors *t = data;
	struct synth_file f;
	int e;

	make_sample(t, i, t->block[worker]);
	e = synth_file_open(&f, err, "%s/class-%03d/t-%07llu.bin", t->s->dir,
			    (int)(i % (uint64_t)t->s->opt->classes),
			    (unsigned long long)i);
	if (!e)
		e = synth_file_write(&f, t->block[worker], t->bytes, 0, err);
	if (!e)
		e = synth_file_done(t->s, &f, t->bytes, err);
	synth_file_drop(&f);
	return e;
}

static int make_each(struct tensors *t, struct mr_err *err)
{
	uint64_t n = (uint64_t)t->s->opt->count;
	int e = synth_class_dirs(t->s, err);

	t->s->next = "files %s | batch 64";
	return e ? e : synth_each(t->s, n, (double)n, make_one, t, err);
}

/* ---- the kind ---- */

static int prepare(struct tensors *t, struct mr_err *err)
{
	const struct mr_ints *shape = &t->s->opt->shape;
	size_t block;
	int d = shape->n;

	/* Rows of pixels with channels last are short without folding. */
	t->row = t->rows = 1;
	while (d > 0 && t->row < 16)
		t->row *= (size_t)shape->v[--d];
	while (d > 0)
		t->rows *= (size_t)shape->v[--d];
	t->bytes = t->rows * t->row * mr_dtype_size(t->s->opt->dtype);
	block = t->bytes > BLOCK ? t->bytes : BLOCK;

	t->field = synth_fields_new((uint64_t)t->s->opt->seed, err);
	t->half = mr_alloc(65536, sizeof(*t->half), err);
	t->block = mr_alloc((size_t)t->s->threads, sizeof(*t->block), err);
	if (!t->field || !t->half || !t->block)
		return MR_ENOMEM;
	for (int v = INT16_MIN; v <= INT16_MAX; v++)
		t->half[(uint16_t)v] = half_of(real_of(v));
	for (int i = 0; i < t->s->threads; i++) {
		t->block[i] = mr_alloc(block, 1, err);
		if (!t->block[i])
			return MR_ENOMEM;
	}
	return 0;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	int64_t shape[MR_MAX_DIMS + 1], n;

	if (opt->shape.n == MR_MAX_DIMS)
		return mr_err_set(err, MR_EINVAL,
				  "--shape: at most %d dimensions, the count "
				  "is one more",
				  MR_MAX_DIMS - 1);
	if (opt->files > opt->count)
		return mr_err_set(err, MR_EINVAL,
				  "--files %lld: more than --count %lld",
				  (long long)opt->files, (long long)opt->count);
	shape[0] = opt->count;
	memcpy(shape + 1, opt->shape.v, (size_t)opt->shape.n * sizeof(*shape));
	if (!mr_shape_elements(shape, opt->shape.n + 1, opt->dtype, &n) ||
	    n > INT64_MAX / 16)
		return mr_err_set(err, MR_EINVAL,
				  "--shape: the data would be too large");
	return 0;
}

static int run(struct synth *s, struct mr_err *err)
{
	struct tensors t = { .s = s };
	int e;

	s->next = "npy %s/data-*.npy | batch 64";
	pthread_mutex_init(&t.lock, NULL);
	e = prepare(&t, err);
	if (!e)
		e = s->opt->each ? make_each(&t, err) : make_arrays(&t, err);
	for (int i = 0; t.block && i < s->threads; i++)
		free(t.block[i]);
	free(t.block);
	free(t.half);
	free(t.field);
	pthread_mutex_destroy(&t.lock);
	return e;
}

const struct synth_kind synth_kind_tensors = {
	.name = "tensors",
	.help = ".npy files of smooth fields with noise, and labels.npy",
	.options = " shape dtype files each ",
	.check = check,
	.run = run,
};
