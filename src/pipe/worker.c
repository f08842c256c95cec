/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a sample: a worker claims a run of positions, and takes each
 * sample through the read and all steps, into its row of the batch, before
 * it turns to the next. No lock, queue, wake-up or allocation per sample.
 *
 * Steps do not know that they are measured: lap() does it between them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "core/arena.h"
#include "core/futex.h"
#include "core/mem.h"
#include "core/rng.h"
#include "pipe/fetch.h"
#include "pipe/loader.h"

enum {
	CLAIM_NS = 500 * 1000, /* a claim should cover about this much work */
	CHEAP_NS = 20 * 1000,  /* samples below are timed one in STRIDE */
	STRIDE = 8,
	BRIEF_NS = 500 * 1000, /* batches below share wake-ups, which come */
	OWED_NS = 400 * 1000,  /* at most about this late */
	REPLACE_TRIES = 32,
	REPLACE_STREAM = 255, /* of random numbers, beside the steps' */
	PATH = 4096,
	WHOLE_NS = 4000 * 1000, /* ragged batches up to this are one claim */
	/* Storage that delays each sample so much, in so many of the last 8
	 * claims, is worth reading ahead. */
	SLOW_NS = 50 * 1000,
	SLOW_CLAIMS = 4,
};

struct mr_worker {
	struct mr_loader *l;
	pthread_t thread;
	bool joinable;
	struct mr_thread_stats *stats;

	/* two areas per field: a step reads one and writes the other; one more
	 * pair is for bytes that a source takes apart */
	struct mr_buf *area[MR_MAX_FIELDS + 1][2];
	int side[MR_MAX_FIELDS + 1]; /* the one that was written last */
	struct mr_arena scratch;
	struct mr_order_cache order;
	struct mr_err err;
	const char *at_step; /* where the sample is, for messages */
	uint64_t offset;     /* and where it lies in its file */
	size_t bytes;	     /* read for it */
	char path[PATH];
	size_t guess; /* size of the files seen lately */

	/* claims */
	uint64_t chunk, claims;
	double ns_per_tick;

	/* timing of the present claim, in ticks */
	bool timing;
	unsigned stride, timed;
	uint64_t last, wait_in, wait_out;
	uint64_t ticks[MR_MAX_STEPS];
	long sleeps; /* of its own will, in the present claim */
	struct rusage before;
	struct mr_slot *owed; /* its batch is ready, its consumer asleep, */
	uint64_t owed_at;     /* since then */
	uint8_t slow;	      /* a bit for each of the last claims */
	double sample_ns;     /* of late */
};

/* ---- measuring ---- */

/* The time since the last lap goes to step k (0: the read). */
static void lap(struct mr_worker *w, int k)
{
#ifdef MR_COUNTERS
	uint64_t now, t;

	if (!w->timing)
		return;
	now = mr_clock_tick(&w->l->clock);
	t = now - w->last;
	w->last = now;
	w->ticks[k] += t;
	mr_hist_add(&w->stats->step[k].hist, t);
#else
	(void)w;
	(void)k;
#endif
}

static void lap_start(struct mr_worker *w, uint64_t row)
{
#ifdef MR_COUNTERS
	w->timing = (row + w->claims) % w->stride == 0;
	if (w->timing) {
		w->timed++;
		w->last = mr_clock_tick(&w->l->clock);
	}
#else
	(void)w;
	(void)row;
#endif
}

static void count_bytes(struct mr_worker *w, int k, size_t in, size_t out)
{
#ifdef MR_COUNTERS
	struct mr_step_count *c = &w->stats->step[k];

	mr_count(&c->calls, 1);
	mr_count(&c->bytes_in, in);
	mr_count(&c->bytes_out, out);
#else
	(void)w;
	(void)k;
	(void)in;
	(void)out;
#endif
}

static double cpu_ns(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e9 +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e3;
}

/*
 * The time that a claim's work took by itself: what the thread had of the
 * CPU, and what it slept in reads, which is the storage's doing. The rest of
 * `ns` the system gave to others; a wall clock alone would take a busy
 * machine for slow storage.
 */
static double own_time(struct mr_worker *w, double ns, uint64_t samples)
{
	struct rusage now;
	double cpu, off, slept, taken, blocked = 0;

	if (getrusage(RUSAGE_THREAD, &now) != 0)
		return ns;
	cpu = cpu_ns(&now) - cpu_ns(&w->before);
	off = ns - cpu;
	slept = (double)(now.ru_nvcsw - w->before.ru_nvcsw - w->sleeps);
	taken = (double)(now.ru_nivcsw - w->before.ru_nivcsw);
	w->before = now;
	if (slept > 0 && off > 0)
		blocked = off * slept / (slept + taken);
	mr_count(&w->stats->blocked, (uint64_t)(blocked / w->ns_per_tick));
	w->slow =
		(uint8_t)(w->slow << 1 | (blocked > SLOW_NS * (double)samples &&
					  blocked > ns / 4));
	if (w->l->fetch && __builtin_popcount(w->slow) >= SLOW_CLAIMS)
		mr_fetch_poke(w->l->fetch);
	return cpu + blocked < ns ? cpu + blocked : ns;
}

/* ---- memory for fields on their way ---- */

static int too_large(struct mr_worker *w, size_t bytes)
{
	return mr_err_set(&w->err, MR_ELIMIT,
			  "needs %zu bytes; with a memory budget of %zu, a "
			  "sample may have %zu: raise --memory",
			  bytes, w->l->budget.max, w->l->sample_max);
}

/* Room in the area of a field that is not in use; keeps `used` bytes. */
static void *area_reserve(struct mr_worker *w, int field, size_t bytes,
			  size_t used)
{
	struct mr_buf **b = &w->area[field][!w->side[field]];

	if (*b && (*b)->cap >= bytes)
		return (*b)->data;
	if (bytes > w->l->sample_max) {
		too_large(w, bytes);
		return NULL;
	}
	if (*b ? mr_buf_grow(*b, bytes, used, &w->err) :
		 mr_pool_get(&w->l->pool, bytes, b, &w->err))
		return NULL;
	return (*b)->data;
}

/* Room at the end of a run's bytes of a ragged field, keeping what the
 * present sample has written so far. */
static void *run_reserve(struct mr_worker *w, struct mr_run *run, int r,
			 size_t bytes, size_t written)
{
	struct mr_buf **b = &run->buf[r];
	size_t need = run->used[r] + bytes, grown;

	if (*b && (*b)->cap >= need)
		return (char *)(*b)->data + run->used[r];
	if (bytes > w->l->sample_max) {
		too_large(w, bytes);
		return NULL;
	}
	if (!*b) {
		/* Room for the whole run, going by the rows seen so far. */
		size_t mean = mr_counted(&w->l->row_mean[r]);

		grown = need + (mean + mean / 4) * run->rows;
		if (grown > w->l->sample_max)
			grown = need;
		if (mr_pool_get(&w->l->pool, grown, b, &w->err))
			return NULL;
	} else {
		grown = (*b)->cap + (*b)->cap / 2;
		if (mr_buf_grow(*b, need > grown ? need : grown,
				run->used[r] + written, &w->err))
			return NULL;
	}
	return (char *)(*b)->data + run->used[r];
}

/* The sample at hand, and its row. */
struct row {
	struct mr_batch *b;
	struct mr_run *run; /* NULL when no field is ragged */
	uint32_t at;
	uint64_t index;
};

/*
 * Where the bytes of a field go: a row of the batch, the end of the run, or
 * an area of the worker. reserve() may be called again for more.
 */
struct sink {
	const struct row *row;
	int field, out; /* out: the output field, or -1 */
};

static void *reserve(struct mr_worker *w, const struct sink *s, size_t bytes,
		     size_t written)
{
	const struct mr_out_field *o;

	if (s->out < 0)
		return area_reserve(w, s->field, bytes, written);
	o = &w->l->plan.out[s->out];
	if (o->dense)
		return mr_batch_row(s->row->b, s->out, s->row->at);
	return run_reserve(w, s->row->run, o->ragged, bytes, written);
}

/* The sink holds the tensor t now. */
static void settle(struct mr_worker *w, const struct sink *s,
		   const struct mr_tensor *t)
{
	const struct mr_out_field *o;

	if (s->out < 0) {
		w->side[s->field] ^= 1;
		return;
	}
	o = &w->l->plan.out[s->out];
	if (o->dense)
		return;
	s->row->run->used[o->ragged] += mr_tensor_bytes(t);
	memcpy(s->row->b->shapes[s->out] + s->row->at * (uint32_t)t->ndim,
	       t->shape, (size_t)t->ndim * sizeof(int64_t));
}

/* ---- the read ---- */

static int short_file(struct mr_worker *w, const struct mr_extent *x,
		      size_t got)
{
	return mr_err_set(&w->err, MR_EDATA,
			  "%s: ends at byte %llu, %llu short of this sample; "
			  "the file has shrunk since it was opened",
			  x->path, (unsigned long long)(x->offset + got),
			  (unsigned long long)(x->length - got));
}

/* A guess at a file's size must not be what the budget refuses. */
static size_t guess_for(const struct mr_worker *w, size_t bytes)
{
	return bytes < w->l->sample_max ? bytes : w->l->sample_max;
}

/* Room for more of a file that filled its buffer of *want bytes. */
static uint8_t *more_room(struct mr_worker *w, int fd,
			  const struct mr_extent *x, const struct sink *s,
			  uint8_t *p, size_t *want)
{
	size_t got = *want;
	char next;

	*want = guess_for(w, got * 2);
	/* At the limit it matters whether there is more at all. */
	if (*want == got && pread(fd, &next, 1, (off_t)(x->offset + got)) == 0)
		return p;
	if (*want == got)
		*want = got + 1;
	return reserve(w, s, *want, got);
}

/* Bytes [offset, ...) of fd into the sink; *n is how many there were. */
static int read_into(struct mr_worker *w, int fd, const struct mr_extent *x,
		     const struct sink *s, uint8_t **data, size_t *n)
{
	bool to_end = x->length == MR_TO_END;
	size_t want = to_end ? guess_for(w, w->guess) : x->length, got = 0;
	uint8_t *p = reserve(w, s, want, 0);

	while (p && (to_end || got < want)) {
		ssize_t k;

		if (got == want) { /* longer than guessed */
			p = more_room(w, fd, x, s, p, &want);
			if (!p || got == want)
				break;
		}
		k = pread(fd, p + got, want - got, (off_t)(x->offset + got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return mr_err_sys(&w->err, errno, x->path,
					  "cannot read");
		if (k == 0 && !to_end)
			return short_file(w, x, got);
		if (k == 0)
			break;
		got += (size_t)k;
	}
	if (!p)
		return w->err.code;
	if (to_end && got >= w->guess)
		w->guess = got + got / 8 + 1;
	*data = p;
	*n = got;
	return 0;
}

static int read_direct(struct mr_worker *w, const struct mr_extent *x,
		       const struct sink *s, uint8_t **data, size_t *n)
{
	int fd = x->fd, e;

	if (fd < 0)
		fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return mr_err_sys(&w->err, errno, x->path, "cannot open");
	e = read_into(w, fd, x, s, data, n);
	if (x->fd < 0)
		close(fd);
	return e;
}

/* Bytes that were read ahead: used where they lie, or copied when they are
 * themselves the output. */
static int take_fetched(struct mr_worker *w, const struct mr_fetched *got,
			const struct mr_extent *x, const struct sink *s,
			uint8_t **data, size_t *n)
{
	if (got->error)
		return mr_err_sys(&w->err, got->error, x->path, "cannot read");
	*n = got->length;
	*data = got->buf->data;
	if (s->out < 0)
		return 0;
	*data = reserve(w, s, *n, 0);
	if (!*data)
		return w->err.code;
	memcpy(*data, got->buf->data, *n);
	return 0;
}

/* Small fixed fields (labels) are written by the source where they belong. */
static int place_fixed(struct mr_worker *w, const struct row *r,
		       struct mr_tensor *t, int first)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->in.n; i++) {
		struct sink s = { r, i, p->in_out[i] };

		t[i] = mr_tensor_of(&p->in.item[i].spec);
		w->side[i] = 0;
		if (i < first || !mr_spec_fixed(&p->in.item[i].spec))
			continue;
		t[i].data = reserve(w, &s, mr_tensor_bytes(&t[i]), 0);
		if (!t[i].data)
			return w->err.code;
		settle(w, &s, &t[i]);
	}
	return 0;
}

static int read_sample(struct mr_worker *w, const struct row *r,
		       const struct mr_fetched *got, struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	bool raw = p->source->flags & MR_SOURCE_RAW;
	struct sink s = { r, raw ? 0 : MR_MAX_FIELDS, raw ? p->in_out[0] : -1 };
	struct mr_extent x;
	uint8_t *data = NULL;
	size_t n = 0;
	int e;

	if (!p->source->locate) {
		e = place_fixed(w, r, t, 0);
		return e ? e :
			   p->source->generate(p->source_self, r->index, t,
					       &w->err);
	}
	e = place_fixed(w, r, t, raw);
	if (!e)
		e = p->source->locate(p->source_self, r->index, w->path,
				      sizeof(w->path), &x, &w->err);
	if (e)
		return e;
	w->offset = x.offset;
	if (got && !got->retry)
		e = take_fetched(w, got, &x, &s, &data, &n);
	else
		e = read_direct(w, &x, &s, &data, &n);
	if (!e)
		e = p->source->unpack(p->source_self, r->index, data, n, t,
				      &w->err);
	if (e)
		return e;
	/* What was read ahead stays in its buffer until the sample is done. */
	if (s.out >= 0 || !got || got->retry)
		settle(w, &s, &t[0]);
	w->bytes = n;
	mr_count(&w->stats->bytes_read, n);
	return 0;
}

/* ---- the steps ---- */

static int run_step(struct mr_worker *w, const struct row *r,
		    const struct mr_step *st, struct mr_tensor *t)
{
	struct mr_tensor *in = &t[st->field];
	struct mr_tensor out = mr_tensor_of(&st->out);
	struct sink s = { r, st->field, st->out_field };
	struct mr_rng rng;
	struct mr_opctx cx = { .self = st->self,
			       .rng = &rng,
			       .scratch = &w->scratch,
			       .index = r->index,
			       .err = &w->err };
	size_t bytes = st->bytes;
	int64_t elements;
	int e;

	w->at_step = st->op->name;
	if (st->op->flags & MR_OP_RANDOM)
		rng = mr_rng_for(w->l->opt.seed, r->b->epoch, r->index,
				 (uint64_t)st->stage);
	if (!st->fixed) {
		if (st->op->flags & MR_OP_SHAPE_KEEP)
			memcpy(out.shape, in->shape, sizeof(out.shape));
		else if ((e = st->op->shape(&cx, in, &out)))
			return e;
		if (!mr_shape_elements(out.shape, out.ndim, out.dtype,
				       &elements))
			return mr_err_set(&w->err, MR_EDATA,
					  "a shape that is out of range");
		bytes = mr_tensor_bytes(&out);
	}
	out.data = reserve(w, &s, bytes, 0);
	if (!out.data)
		return w->err.code;
	e = st->op->run(&cx, in, &out);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	settle(w, &s, &out);
	count_bytes(w, st->stage, mr_tensor_bytes(in), mr_tensor_bytes(&out));
	*in = out;
	return 0;
}

/* Output fields that neither a step nor the read has put in place. */
static int place_rest(struct mr_worker *w, const struct row *r,
		      struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->outs; i++) {
		struct mr_tensor *f = &t[p->out[i].id];
		struct sink s = { r, p->out[i].id, i };
		size_t n;
		void *to;

		if (p->out[i].placed)
			continue;
		n = mr_tensor_bytes(f);
		to = reserve(w, &s, n, 0);
		if (!to)
			return w->err.code;
		memcpy(to, f->data, n);
		settle(w, &s, f);
	}
	return 0;
}

/* One sample from the storage to its row. */
static int sample(struct mr_worker *w, const struct row *r,
		  const struct mr_fetched *got)
{
	const struct mr_plan *p = &w->l->plan;
	struct mr_tensor t[MR_MAX_FIELDS];
	int e;

	w->at_step = "read";
	w->offset = w->bytes = 0;
	e = read_sample(w, r, got, t);
	if (e)
		return e;
	count_bytes(w, 0, w->bytes, mr_tensor_bytes(&t[0]));
	lap(w, 0);
	for (int k = 0; k < p->steps; k++) {
		e = run_step(w, r, &p->step[k], t);
		if (e)
			return e;
		lap(w, p->step[k].stage);
	}
	return place_rest(w, r, t);
}

/* ---- bad samples ---- */

static void report_bad(struct mr_worker *w, const struct row *r)
{
	const struct mr_plan *p = &w->l->plan;
	char key[PATH];
	struct mr_bad bad = { .index = r->index,
			      .epoch = r->b->epoch,
			      .key = key,
			      .offset = w->offset,
			      .step = w->at_step,
			      .reason = w->err.text };

	p->source->key(p->source_self, r->index, key, sizeof(key));
	mr_batch_add_bad(r->b, r->at, &bad, w->err.code);
}

/* What the failed sample had written to ragged fields is forgotten. */
static void rewind_run(struct mr_run *run, const size_t *used)
{
	if (run)
		memcpy(run->used, used, sizeof(run->used));
}

/* A row that failed takes another sample: which one is fixed by the seed. */
static bool replace(struct mr_worker *w, struct row *r, const size_t *used)
{
	struct mr_rng rng = mr_rng_for(w->l->opt.seed, r->b->epoch, r->index,
				       REPLACE_STREAM);

	for (int i = 0; i < REPLACE_TRIES; i++) {
		rewind_run(r->run, used);
		r->index = mr_rng_below(&rng, w->l->plan.samples);
		if (sample(w, r, NULL) == 0)
			return true;
	}
	return false;
}

static void do_row(struct mr_worker *w, struct row *r,
		   const struct mr_fetched *got)
{
	size_t used[MR_MAX_FIELDS];
	bool good;

	if (r->run)
		memcpy(used, r->run->used, sizeof(used));
	good = sample(w, r, got) == 0;
	if (!good) {
		report_bad(w, r);
		if (w->l->opt.on_error == MR_ON_ERROR_REPLACE)
			good = replace(w, r, used);
		if (!good)
			rewind_run(r->run, used);
	}
	r->b->index[r->at] = r->index;
	r->b->good[r->at] = good;
}

/* ---- claims ---- */

/* Wakes the consumer, if that was put off. */
static void pay_wake(struct mr_worker *w)
{
	if (w->owed)
		mr_futex_wake(&w->owed->state, 1);
	w->owed = NULL;
}

/* Waits until batch s may be worked on; false when the loader stops. */
static bool pass_gate(struct mr_worker *w, uint64_t s)
{
	struct mr_loader *l = w->l;
	uint64_t t0;

	if (s < atomic_load_explicit(&l->limit, memory_order_acquire))
		return !atomic_load_explicit(&l->stop, memory_order_relaxed);
	pay_wake(w);
	t0 = mr_clock_tick(&l->clock);
	for (;;) {
		unsigned seen = atomic_load(&l->gate);

		if (atomic_load(&l->stop) || s < atomic_load(&l->limit))
			break;
		w->sleeps++;
		atomic_fetch_add(&l->waiting, 1);
		mr_futex_wait(&l->gate, seen, -1);
		atomic_fetch_sub(&l->waiting, 1);
	}
	w->wait_out += mr_clock_tick(&l->clock) - t0;
	return !atomic_load(&l->stop);
}

static struct mr_run *begin_run(struct mr_batch *b, uint32_t row, uint32_t rows)
{
	struct mr_run *run;

	if (!b->run)
		return NULL;
	run = &b->run[atomic_fetch_add(&b->runs, 1)];
	memset(run, 0, sizeof(*run));
	run->first = row;
	run->rows = rows;
	return run;
}

/* How large rows of ragged fields are, for the next runs. */
static void learn_sizes(struct mr_loader *l, const struct mr_run *run)
{
	for (int r = 0; r < l->plan.ragged; r++) {
		uint64_t old = mr_counted(&l->row_mean[r]);
		uint64_t now = run->used[r] / run->rows;

		atomic_store_explicit(&l->row_mean[r],
				      old ? (7 * old + now) / 8 : now,
				      memory_order_relaxed);
	}
}

/*
 * Some rows of a batch are done; who does the last of all finishes it. A
 * consumer that sleeps on it is woken, for batches that take next to no time
 * a little later: one wake-up, which costs as much as some of them, then
 * serves for several.
 */
static void end_run(struct mr_worker *w, struct mr_slot *slot, uint32_t rows)
{
	struct mr_loader *l = w->l;

	if (atomic_fetch_sub(&slot->left, rows) != rows)
		return;
	mr_batch_finish(atomic_load(&slot->batch), &l->pool);
	if (atomic_exchange(&slot->state, MR_SLOT_READY) != MR_SLOT_AWAITED)
		return;
	w->owed = slot;
	w->owed_at = mr_clock_tick(&l->clock);
	if (w->sample_ns * (double)l->rows > BRIEF_NS)
		pay_wake(w);
}

static bool do_run(struct mr_worker *w, uint64_t s, uint32_t first,
		   uint32_t end)
{
	struct mr_loader *l = w->l;
	struct mr_slot *slot = &l->slot[s % l->ring];
	struct row r = { .b = mr_loader_enter(l, s) };
	uint64_t position = s * l->rows + first, window = UINT64_MAX;
	bool ahead = false;

	if (!r.b) { /* no memory: the consumer finds no batch, and says so */
		atomic_store(&slot->state, MR_SLOT_READY);
		mr_futex_wake(&slot->state, 1);
		return false;
	}
	r.run = begin_run(r.b, first, end - first);
	for (r.at = first; r.at < end; r.at++, position++) {
		struct mr_fetched *got = NULL;

		r.index = mr_order_at(&l->order, &w->order, r.b->epoch,
				      r.b->number * l->rows + r.at);
		if (l->fetch && position / MR_FETCH_WINDOW != window) {
			window = position / MR_FETCH_WINDOW;
			ahead = mr_fetch_ahead(l->fetch, position);
		}
		if (ahead) {
			pay_wake(w);
			got = mr_fetch_get(l->fetch, position, &w->wait_in,
					   &w->sleeps);
			if (!got)
				return false;
		}
		lap_start(w, r.at);
		do_row(w, &r, got);
		if (got)
			mr_fetch_done(l->fetch, got);
		if (atomic_load_explicit(&l->stop, memory_order_relaxed))
			return false;
	}
	if (r.run)
		learn_sizes(l, r.run);
	end_run(w, slot, end - first);
	return true;
}

/* Positions [p, p + n): split at the batches' borders. */
static bool do_claim(struct mr_worker *w, uint64_t p, uint64_t n,
		     uint64_t *samples)
{
	struct mr_loader *l = w->l;

	while (n) {
		uint64_t s = p / l->rows, row = p % l->rows;
		uint64_t part = l->rows - row < n ? l->rows - row : n;
		uint32_t have, end;

		if (s >= l->end)
			return false;
		have = mr_loader_rows(l, s);
		end = row + part < have ? (uint32_t)(row + part) : have;
		if (row < end) {
			if (!pass_gate(w, s) ||
			    !do_run(w, s, (uint32_t)row, end))
				return false;
			*samples += end - row;
		}
		p += part;
		n -= part;
	}
	return true;
}

/* Adds the claim's ticks to the counters. Of cheap samples only some were
 * timed: their share stands for all. */
static void account(struct mr_worker *w, uint64_t ticks, uint64_t samples)
{
	struct mr_thread_stats *st = w->stats;
	uint64_t waits = w->wait_in + w->wait_out;
	double scale = w->timed ? (double)samples / w->timed : 0;
	double parts = 0, work = ticks > waits ? (double)(ticks - waits) : 0;

	for (int k = 0; k < w->l->pipeline->n; k++)
		parts += (double)w->ticks[k] * scale;
	if (parts > work && parts > 0)
		scale *= work / parts;
	for (int k = 0; k < w->l->pipeline->n; k++) {
		uint64_t t = (uint64_t)((double)w->ticks[k] * scale);

		mr_count(&st->step[k].ticks, t);
		mr_count(k ? &st->steps : &st->fetch, t);
		w->ticks[k] = 0;
	}
	mr_count(&st->busy, ticks);
	mr_count(&st->wait_in, w->wait_in);
	mr_count(&st->wait_out, w->wait_out);
	mr_count(&st->samples, samples);
}

/* The next claim covers about CLAIM_NS. */
static void adapt(struct mr_worker *w, uint64_t ticks, uint64_t samples)
{
	uint64_t waits = w->wait_in + w->wait_out;
	double ns;

	if (!samples || ticks <= waits)
		return;
	ns = (double)(ticks - waits) * w->ns_per_tick;
	ns = own_time(w, ns, samples) / (double)samples;
	w->sample_ns = w->sample_ns > 0 ? 0.75 * w->sample_ns + 0.25 * ns : ns;
	w->stride = ns < CHEAP_NS ? STRIDE : 1;
	w->chunk = ns * w->l->max_chunk < CLAIM_NS ? w->l->max_chunk :
						     (uint64_t)(CLAIM_NS / ns);
	if (w->chunk < w->l->min_chunk)
		w->chunk = w->l->min_chunk;
	if (w->stride > w->chunk)
		w->stride = 1;
}

/* Positions of a claim that begins at p. */
static uint64_t claim_size(const struct mr_worker *w, uint64_t p)
{
	const struct mr_loader *l = w->l;
	uint64_t all, share, n = w->chunk, to_border = l->rows - p % l->rows;

	/* Near the end, smaller claims let all threads finish together. */
	if (l->end != UINT64_MAX) {
		all = l->end * l->rows;
		share = p < all ? (all - p) / (2 * (uint64_t)l->threads) : 0;
		if (share < n)
			n = share > l->min_chunk ? share : l->min_chunk;
	}
	/* A ragged batch by one worker needs no joining; but not at the cost
	 * of threads that find nothing to do. */
	if (l->plan.ragged && w->sample_ns * (double)to_border <= WHOLE_NS &&
	    atomic_load_explicit(&l->depth, memory_order_relaxed) >
		    (unsigned)l->threads)
		n = to_border;
	return n;
}

/* One atomic operation per claim, not per sample. */
static uint64_t claim(struct mr_worker *w, uint64_t *n)
{
	struct mr_loader *l = w->l;
	uint64_t p = atomic_load_explicit(&l->next, memory_order_relaxed);

	do {
		*n = claim_size(w, p);
	} while (!atomic_compare_exchange_weak(&l->next, &p, p + *n));
	return p;
}

static void *worker_main(void *arg)
{
	struct mr_worker *w = arg;
	struct mr_loader *l = w->l;
	uint64_t t0 = mr_clock_tick(&l->clock);
	bool go = true;

	w->ns_per_tick = mr_clock_ns_per_tick(&l->clock);
	getrusage(RUSAGE_THREAD, &w->before);
	while (go && !atomic_load_explicit(&l->stop, memory_order_relaxed)) {
		uint64_t n, samples = 0, t1, p = claim(w, &n);

		w->wait_in = w->wait_out = w->timed = 0;
		w->sleeps = 0;
		go = do_claim(w, p, n, &samples);
		w->claims++;
		t1 = mr_clock_tick(&l->clock);
		if (w->owed &&
		    (double)(t1 - w->owed_at) * w->ns_per_tick > OWED_NS)
			pay_wake(w);
		account(w, t1 - t0, samples);
		adapt(w, t1 - t0, samples);
		t0 = t1;
	}
	pay_wake(w);
	return NULL;
}

/* ---- life ---- */

int mr_thread_start(pthread_t *t, const char *name, void *(*main)(void *),
		    void *arg)
{
	sigset_t all, old;
	int e;

	/* Signals are the program's business: its own threads take them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(t, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!e)
		pthread_setname_np(*t, name);
	return e;
}

int mr_workers_start(struct mr_loader *l, struct mr_err *err)
{
	l->worker = mr_alloc((size_t)l->threads, sizeof(*l->worker), err);
	if (!l->worker)
		return MR_ENOMEM;
	atomic_store(&l->stop, false);
	for (int i = 0; i < l->threads; i++) {
		struct mr_worker *w = &l->worker[i];
		int e;

		w->l = l;
		w->stats = &l->stats[i];
		w->chunk = l->min_chunk;
		w->stride = 1;
		w->guess = 64 << 10;
		mr_arena_init(&w->scratch, l->sample_max);
		e = mr_thread_start(&w->thread, "mr-worker", worker_main, w);
		if (e)
			return mr_err_set(err, MR_ESTATE,
					  "cannot start thread %d of %d: %s",
					  i + 1, l->threads, strerror(e));
		w->joinable = true;
	}
	return 0;
}

void mr_workers_stop(struct mr_loader *l)
{
	atomic_store(&l->stop, true);
	atomic_fetch_add(&l->gate, 1);
	mr_futex_wake(&l->gate, INT_MAX);
	for (int i = 0; l->worker && i < l->threads; i++) {
		struct mr_worker *w = &l->worker[i];

		if (w->joinable)
			pthread_join(w->thread, NULL);
		for (int f = 0; f <= MR_MAX_FIELDS; f++) {
			mr_buf_unref(w->area[f][0]);
			mr_buf_unref(w->area[f][1]);
		}
		mr_arena_fini(&w->scratch);
	}
	free(l->worker);
	l->worker = NULL;
}
