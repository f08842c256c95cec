/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nilm: what the meter of a household measures, voltage and current at
 * 6.4 kHz, in HDF5 files of an hour, laid out as CREAM's: 16-bit numbers in
 * chunks that are shuffled and deflated, beside each dataset the factor that
 * makes volts and amperes of it. Devices switch on and off; the offset of the
 * measurement drifts. With this noise a window of 10 s takes 143 KB.
 */
#include <libdeflate.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "synth/synth.h"

#define H5_USE_110_API 1
#include <hdf5.h>

enum {
	RATE = 6400,
	PERIOD = 128,
	WINDOW = 64000, /* samples of 10 s: rows of a chunk */
	HARMONICS = 4,	/* odd ones: 1, 3, 5, 7 */
	DEVICES = 6,
	LEVEL = 6, /* of deflate */
};

#define VOLTS	0.046875 /* per step */
#define AMPERES 0.00625
#define PEAK	325.27 /* of 230 V */

struct device {
	float amp[HARMONICS], phase[HARMONICS]; /* A, radians */
	bool on;
	int left; /* periods until it switches */
};

struct meter {
	struct device device[DEVICES];
	float drift, noise[2]; /* steps */
	float wave[2][PERIOD]; /* one period, in steps */
};

struct worker {
	int16_t *x[2]; /* a chunk of each dataset */
	uint8_t *shuffled, *packed;
	struct libdeflate_compressor *deflate;
};

struct nilm {
	struct synth *s;
	uint64_t windows; /* in a file */
	uint64_t rows;	  /* likewise, and what does not fill a window */
	struct worker *worker;
	size_t room;		 /* of worker.packed */
	pthread_mutex_t library; /* lets one thread in at a time */
};

/* ---- the meter ---- */

static void draw_device(struct device *d, int number, struct synth_rng *rng)
{
	/* from a lamp to a kettle */
	float amp = 0.4f * exp2f((float)number + 0.3f * synth_normal(rng));

	for (int h = 0; h < HARMONICS; h++) {
		d->amp[h] = amp;
		d->phase[h] = synth_real(rng, -0.6f, 0.6f);
		amp *= synth_real(rng, 0.02f, number < 3 ? 0.5f : 0.1f);
	}
	d->on = synth_real(rng, 0, 1) < 0.5f;
	d->left = (int)synth_real(rng, 20, 2000);
}

static void draw_meter(struct meter *m, struct synth_rng *rng)
{
	for (int i = 0; i < DEVICES; i++)
		draw_device(&m->device[i], i, rng);
	m->drift = synth_real(rng, -20, 20);
	m->noise[0] = 28;
	m->noise[1] = 28;
}

/* One period of both signals as the devices now draw it. */
static void draw_wave(struct meter *m)
{
	for (int k = 0; k < PERIOD; k++) {
		float t = 6.2831853f * (float)k / PERIOD, amps = 0;

		for (int i = 0; i < DEVICES; i++) {
			const struct device *d = &m->device[i];

			for (int h = 0; d->on && h < HARMONICS; h++)
				amps += d->amp[h] *
					sinf((float)(2 * h + 1) * t +
					     d->phase[h]);
		}
		m->wave[0][k] =
			(float)(PEAK / VOLTS) * (sinf(t) + 0.02f * sinf(5 * t));
		m->wave[1][k] = amps / (float)AMPERES;
	}
}

/* Devices that switch, and the offset's next step; true: others are on. */
static bool next_period(struct meter *m, struct synth_rng *rng)
{
	bool changed = false;

	m->drift = 0.999f * m->drift + 0.8f * synth_normal(rng);
	for (int i = 0; i < DEVICES; i++) {
		struct device *d = &m->device[i];

		if (d->left--)
			continue;
		d->on = !d->on;
		d->left = (int)synth_real(rng, 50, 3000);
		changed = true;
	}
	return changed;
}

static int16_t to_steps(float v)
{
	v = v > 32767 ? 32767 : v < -32767 ? -32767 : v;
	return (int16_t)lrintf(v);
}

/* The next n samples; whole periods but at the end of a file. */
static void measure(struct meter *m, size_t n, int16_t *const x[2],
		    struct synth_rng *rng)
{
	for (size_t at = 0; at < n; at += PERIOD) {
		size_t k = n - at < PERIOD ? n - at : PERIOD;

		if (next_period(m, rng))
			draw_wave(m);
		for (size_t i = 0; i < k; i++) {
			float v = m->wave[0][i] + m->drift;
			float c = m->wave[1][i] + m->drift * 0.7071f;

			x[0][at + i] =
				to_steps(v + m->noise[0] * synth_normal(rng));
			x[1][at + i] =
				to_steps(c + m->noise[1] * synth_normal(rng));
		}
	}
}

/* ---- the file ---- */

static const char *const names[2] = { "voltage", "current1" };
static const double factors[2] = { VOLTS, AMPERES };

struct book {
	hid_t file, set[2];
};

static bool attribute(hid_t on, const char *name, hid_t type, hid_t in_memory,
		      const void *value)
{
	hid_t space = H5Screate(H5S_SCALAR);
	hid_t a = H5Acreate2(on, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
	bool ok = a >= 0 && H5Awrite(a, in_memory, value) >= 0;

	H5Aclose(a);
	H5Sclose(space);
	return ok;
}

static bool number(hid_t on, const char *name, int64_t value)
{
	return attribute(on, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

static bool create_set(struct book *b, int i, uint64_t rows)
{
	hsize_t n = rows, chunk = rows < WINDOW ? rows : WINDOW;
	hid_t space = H5Screate_simple(1, &n, NULL);
	hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
	bool ok = H5Pset_chunk(plist, 1, &chunk) >= 0 &&
		  H5Pset_shuffle(plist) >= 0 &&
		  H5Pset_deflate(plist, LEVEL) >= 0 &&
		  /* the same seed makes the same bytes */
		  H5Pset_obj_track_times(plist, 0) >= 0;

	b->set[i] = H5Dcreate2(b->file, names[i], H5T_STD_I16LE, space,
			       H5P_DEFAULT, plist, H5P_DEFAULT);
	ok = ok && b->set[i] >= 0 &&
	     attribute(b->set[i], "calibration_factor", H5T_IEEE_F64LE,
		       H5T_NATIVE_DOUBLE, &factors[i]) &&
	     number(b->set[i], "removed_offset", 0);
	H5Pclose(plist);
	H5Sclose(space);
	return ok;
}

/* In memory, until it is whole. */
static bool create_file(struct book *b, uint64_t i, uint64_t rows)
{
	hid_t plist = H5Pcreate(H5P_FILE_ACCESS);
	bool ok = H5Pset_fapl_core(plist, 4 << 20, 0) >= 0;
	char name[32]; /* by which the library tells open files apart */

	snprintf(name, sizeof(name), "nilm-%llu", (unsigned long long)i);
	b->file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, plist);
	b->set[0] = b->set[1] = -1;
	H5Pclose(plist);
	return ok && b->file >= 0 && create_set(b, 0, rows) &&
	       create_set(b, 1, rows) && number(b->file, "frequency", RATE) &&
	       number(b->file, "sequence", (int64_t)i + 1);
}

static void close_file(struct book *b)
{
	for (int i = 0; i < 2; i++)
		if (b->set[i] >= 0)
			H5Dclose(b->set[i]);
	if (b->file >= 0)
		H5Fclose(b->file);
}

/* First the low bytes of all, then the high ones; then deflate. */
static size_t pack(const struct nilm *g, struct worker *w, const int16_t *x,
		   size_t n)
{
	for (size_t i = 0; i < n; i++) {
		w->shuffled[i] = (uint8_t)x[i];
		w->shuffled[n + i] = (uint8_t)((uint16_t)x[i] >> 8);
	}
	return libdeflate_zlib_compress(w->deflate, w->shuffled, 2 * n,
					w->packed, g->room);
}

static bool write_chunks(struct nilm *g, struct worker *w, struct book *b,
			 uint64_t rows, struct synth_rng *rng)
{
	size_t chunk = rows < WINDOW ? rows : WINDOW;
	struct meter m;
	bool ok = true;

	draw_meter(&m, rng);
	draw_wave(&m);
	for (hsize_t at = 0; at < rows && ok; at += chunk) {
		size_t n = rows - at < chunk ? rows - at : chunk;

		measure(&m, n, w->x, rng);
		for (int i = 0; i < 2 && ok; i++) {
			size_t size;

			/* a last chunk that is not full is filled with 0 */
			memset(w->x[i] + n, 0, (chunk - n) * sizeof(int16_t));
			size = pack(g, w, w->x[i], chunk);
			pthread_mutex_lock(&g->library);
			ok = size && H5Dwrite_chunk(b->set[i], H5P_DEFAULT, 0,
						    &at, size, w->packed) >= 0;
			pthread_mutex_unlock(&g->library);
		}
	}
	return ok;
}

/* The whole file's bytes, to be freed by the caller. */
static void *file_image(struct book *b, size_t *size, struct mr_err *err)
{
	ssize_t n = H5Fflush(b->file, H5F_SCOPE_GLOBAL) < 0 ?
			    -1 :
			    H5Fget_file_image(b->file, NULL, 0);
	void *p = n > 0 ? mr_alloc((size_t)n, 1, err) : NULL;

	if (p)
		H5Fget_file_image(b->file, p, (size_t)n);
	*size = (size_t)n;
	return p;
}

static int save(struct nilm *g, uint64_t i, const void *image, size_t size,
		struct mr_err *err)
{
	struct synth_file f = { .fd = -1 };
	int e = synth_file_open(&f, err, "%s/nilm-%07llu.hdf5", g->s->dir,
				(unsigned long long)i + 1);

	if (!e)
		e = synth_file_write(&f, image, size, 0, err);
	if (!e)
		e = synth_file_done(g->s, &f, size, err);
	synth_file_drop(&f);
	return e;
}

static int make_file(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct nilm *g = data;
	struct synth_rng rng = synth_rng_for((uint64_t)g->s->opt->seed, i);
	uint64_t left = (uint64_t)g->s->opt->count - i * g->windows;
	uint64_t rows = left < g->windows ? left * WINDOW : g->rows;
	struct book b;
	void *image = NULL;
	size_t size = 0;
	bool ok;
	int e;

	pthread_mutex_lock(&g->library);
	H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* of this thread */
	ok = create_file(&b, i, rows);
	pthread_mutex_unlock(&g->library);
	ok = ok && write_chunks(g, &g->worker[worker], &b, rows, &rng);
	pthread_mutex_lock(&g->library);
	if (ok)
		image = file_image(&b, &size, err);
	close_file(&b);
	pthread_mutex_unlock(&g->library);
	e = image ? save(g, i, image, size, err) :
		    mr_err_set(err, MR_ENOMEM,
			       "libhdf5 cannot make file %llu in memory; it "
			       "takes --duration's bytes there",
			       (unsigned long long)i + 1);
	free(image);
	return e;
}

/* ---- the kind ---- */

static double duration(const struct synth_options *opt)
{
	return opt->duration > 0 ? opt->duration : 3600;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	if (duration(opt) >= 10 && duration(opt) <= 24 * 3600)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "--duration: a file has 10s, which is one sample, to "
			  "24h");
}

static int prepare(struct nilm *g, struct mr_err *err)
{
	g->room = 2 * WINDOW + WINDOW / 8;
	g->worker = mr_alloc((size_t)g->s->threads, sizeof(*g->worker), err);
	if (!g->worker)
		return MR_ENOMEM;
	for (int i = 0; i < g->s->threads; i++) {
		struct worker *w = &g->worker[i];

		w->x[0] = mr_alloc(WINDOW, sizeof(int16_t), err);
		w->x[1] = mr_alloc(WINDOW, sizeof(int16_t), err);
		w->shuffled = mr_alloc(WINDOW, sizeof(int16_t), err);
		w->packed = mr_alloc(g->room, 1, err);
		w->deflate = libdeflate_alloc_compressor(LEVEL);
		if (!w->x[0] || !w->x[1] || !w->shuffled || !w->packed)
			return MR_ENOMEM;
		if (!w->deflate)
			return mr_err_nomem(err, 0);
	}
	return 0;
}

static void finish(struct nilm *g)
{
	for (int i = 0; g->worker && i < g->s->threads; i++) {
		free(g->worker[i].x[0]);
		free(g->worker[i].x[1]);
		free(g->worker[i].shuffled);
		free(g->worker[i].packed);
		libdeflate_free_compressor(g->worker[i].deflate);
	}
	free(g->worker);
}

static int run(struct synth *s, struct mr_err *err)
{
	uint64_t n = (uint64_t)s->opt->count;
	struct nilm g = { .s = s };
	int e = prepare(&g, err);

	s->next = "hdf5 %s/*.hdf5 dataset=voltage,current1 window=64000 "
		  "attributes=calibration_factor | calibrate | power | "
		  "batch 8";
	g.rows = (uint64_t)(duration(s->opt) * RATE);
	g.windows = g.rows / WINDOW;
	pthread_mutex_init(&g.library, NULL);
	if (!e)
		e = synth_each(s, (n + g.windows - 1) / g.windows, (double)n,
			       make_file, &g, err);
	pthread_mutex_destroy(&g.library);
	finish(&g);
	return e;
}

const struct synth_kind synth_kind_nilm = {
	.name = "nilm",
	.help = "HDF5 files of voltage and current; a sample is 10 s",
	.options = " duration ",
	.check = check,
	.run = run,
};
