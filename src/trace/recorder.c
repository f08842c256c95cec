/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/le.h"
#include "core/mem.h"

enum {
	LOOK_NS = 100 * 1000 * 1000, /* between two looks at the rings */
	REST_NS = 200 * 1000 * 1000, /* and where there are none */
	MEMORY = 64 << 20,	     /* for all rings together, */
	RING_MIN = 1 << 14,	     /* spans of each at least, */
	RING_MAX = 1 << 17,	     /* and at most */
	CHUNK = 2048,		     /* spans of a chunk */
	SLOWEST = 64,		     /* samples whose names are kept */
};

struct slow {
	uint64_t sample, ns;
};

struct mr_recorder {
	int fd;
	char *path;
	const struct mr_clock *clock;
	pthread_t thread;
	atomic_uint poke, asleep;
	atomic_bool stop;
	uint64_t ring_size;

	pthread_mutex_t lock; /* of the list, and of the file */
	struct mr_ring *rings;
	struct mr_tap *taps;
	uint32_t threads;
	struct mr_recorded done;

	/* the recorder thread's */
	uint64_t tick, ns; /* a moment on both clocks, renewed at each look */
	double ns_per_tick;
	struct slow slow[SLOWEST]; /* [0] is the fastest of them */
	size_t slows;
	uint8_t *chunk;
};

/* ---- the file ---- */

/* All of both parts, or an errno. Under the lock. */
static int write_both(int fd, struct iovec *io)
{
	while (io[0].iov_len + io[1].iov_len) {
		ssize_t n = writev(fd, io, 2);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		for (int i = 0; i < 2; i++) {
			size_t k = (size_t)n < io[i].iov_len ? (size_t)n :
							       io[i].iov_len;

			io[i].iov_base = (char *)io[i].iov_base + k;
			io[i].iov_len -= k;
			n -= (ssize_t)k;
		}
	}
	return 0;
}

bool mr_recorder_chunk(struct mr_recorder *r, const char *kind, uint32_t thread,
		       const void *data, size_t size)
{
	uint8_t head[MR_MRT_CHUNK];
	struct iovec io[2] = { { head, sizeof(head) },
			       { (void *)(uintptr_t)data, size } };
	bool whole;

	mr_mrt_put_chunk(head, kind, thread, data, size);
	pthread_mutex_lock(&r->lock);
	if (!r->done.failed.code) {
		int e = write_both(r->fd, io);

		if (e)
			mr_err_sys(&r->done.failed, e, r->path,
				   "the trace ends here: cannot write");
		else
			r->done.bytes += sizeof(head) + size;
	}
	whole = !r->done.failed.code;
	pthread_mutex_unlock(&r->lock);
	return whole;
}

void mr_recorder_name(struct mr_recorder *r, uint8_t step, const char *name)
{
	char text[256] = { (char)step };
	size_t n = strnlen(name, sizeof(text) - 1);

	memcpy(text + 1, name, n);
	mr_recorder_chunk(r, "NAME", 0, text, n + 1);
}

/* ---- spans ---- */

/* The slowest samples, each once; the fastest of them is in front. */
static void note_slow(struct mr_recorder *r, uint64_t sample, uint64_t ns)
{
	struct slow *s = r->slow;
	size_t at = 0, least = 0;

	if (r->slows == SLOWEST && ns <= s[0].ns)
		return;
	while (at < r->slows && s[at].sample != sample)
		at++;
	if (at == r->slows && r->slows < SLOWEST)
		s[r->slows++] = (struct slow){ sample, ns };
	else if (at == r->slows)
		s[0] = (struct slow){ sample, ns };
	else if (s[at].ns < ns)
		s[at].ns = ns;
	for (size_t i = 1; i < r->slows; i++)
		if (s[i].ns < s[least].ns)
			least = i;
	if (least) {
		struct slow t = s[0];

		s[0] = s[least];
		s[least] = t;
	}
}

static uint64_t to_ns(const struct mr_recorder *r, uint64_t tick)
{
	int64_t ago = (int64_t)(r->tick - tick);

	return r->ns - (uint64_t)(int64_t)((double)ago * r->ns_per_tick);
}

static void encode(struct mr_recorder *r, const struct mr_span *s, uint8_t *to)
{
	struct mr_mrt_span out = {
		.start = to_ns(r, s->start),
		.duration = (uint64_t)((double)(s->end - s->start) *
				       r->ns_per_tick),
		.sample = s->sample,
		.batch = s->batch,
		.bytes = s->bytes,
		.kind = s->kind,
		.step = s->step,
	};

	mr_mrt_put_span(to, &out);
	if ((s->kind & 0x3f) == MR_SPAN_SAMPLE)
		note_slow(r, s->sample, out.duration);
}

/* Memory for the spans to come: a page that a thread is the first to write to
 * costs it a fault, which would be counted as a step's. Where the kernel does
 * not know how, it is so. */
static void make_ready(struct mr_ring *g, uint64_t head)
{
	uint64_t want = head + g->size / 8, page = (uint64_t)getpagesize();
	uint64_t from, to;

	want = want < g->size ? want : g->size;
	if (want <= g->ready)
		return;
	from = g->ready * sizeof(*g->span) / page * page;
	to = want * sizeof(*g->span);
#ifdef MADV_POPULATE_WRITE
	madvise((char *)g->span + from, to - from, MADV_POPULATE_WRITE);
#endif
	g->ready = want;
}

static void drain(struct mr_recorder *r, struct mr_ring *g)
{
	uint64_t tail = atomic_load_explicit(&g->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&g->head, memory_order_acquire);
	uint64_t lost = mr_counted(&g->lost);
	uint8_t told[8];

	make_ready(g, head);
	while (tail < head) {
		size_t n = head - tail < CHUNK ? head - tail : CHUNK;

		for (size_t i = 0; i < n; i++)
			encode(r, &g->span[(tail + i) & (g->size - 1)],
			       r->chunk + i * MR_MRT_SPAN);
		tail += n;
		atomic_store_explicit(&g->tail, tail, memory_order_release);
		if (mr_recorder_chunk(r, "SPAN", g->number, r->chunk,
				      n * MR_MRT_SPAN))
			r->done.spans += n;
		else
			r->done.lost += n;
	}
	if (lost == g->lost_told)
		return;
	mr_le64_put(told, lost);
	mr_recorder_chunk(r, "DROP", g->number, told, sizeof(told));
	g->lost_told = lost;
}

/* At one moment: of several tries, the one that was interrupted least. */
static void read_both_clocks(struct mr_recorder *r)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = mr_clock_tick(r->clock), ns = mr_clock_ns();
		uint64_t took = mr_clock_tick(r->clock) - before;

		if (took >= least)
			continue;
		least = took;
		r->tick = before + took / 2;
		r->ns = ns;
	}
}

static void look(struct mr_recorder *r)
{
	struct mr_ring *g;

	r->ns_per_tick = mr_clock_ns_per_tick(r->clock);
	read_both_clocks(r);
	pthread_mutex_lock(&r->lock);
	g = r->rings;
	pthread_mutex_unlock(&r->lock);
	for (; g; g = g->next)
		drain(r, g);
}

/* Until when the recorder may sleep, at most. */
static uint64_t look_at_taps(struct mr_recorder *r, bool last)
{
	uint64_t now = mr_clock_ns(), wake = now + REST_NS;
	struct mr_tap *t;

	pthread_mutex_lock(&r->lock);
	t = r->taps;
	pthread_mutex_unlock(&r->lock);
	for (; t; t = t->next) {
		if (last || now >= t->due) {
			t->due = now + t->every;
			t->look(t, last);
		}
		if (t->due < wake)
			wake = t->due;
	}
	return wake;
}

void mr_recorder_tap(struct mr_recorder *r, struct mr_tap *t)
{
	t->due = mr_clock_ns() + t->every;
	pthread_mutex_lock(&r->lock);
	t->next = r->taps;
	r->taps = t;
	pthread_mutex_unlock(&r->lock);
}

/* Until a tap is due; with rings that threads write to, no longer than until
 * the next look at them. */
static uint64_t sleep_for(struct mr_recorder *r, uint64_t wake)
{
	uint64_t now = mr_clock_ns(), ns = wake > now ? wake - now : 1;
	bool rings;

	pthread_mutex_lock(&r->lock);
	rings = r->rings != NULL;
	pthread_mutex_unlock(&r->lock);
	return rings && ns > LOOK_NS ? LOOK_NS : ns;
}

static void *record(void *arg)
{
	struct mr_recorder *r = arg;

	while (!atomic_load(&r->stop)) {
		unsigned seen = atomic_load(&r->poke);
		uint64_t wake;

		look(r);
		wake = look_at_taps(r, false);
		atomic_store(&r->asleep, 1);
		if (!atomic_load(&r->stop))
			mr_futex_wait(&r->poke, seen, sleep_for(r, wake));
		atomic_store(&r->asleep, 0);
	}
	return NULL;
}

/* ---- life ---- */

static int start(struct mr_recorder *r, struct mr_err *err)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(&r->thread, NULL, record, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (e)
		return mr_err_set(err, MR_ESTATE,
				  "cannot start the recorder's thread: %s",
				  strerror(e));
	pthread_setname_np(r->thread, "mr-recorder");
	return 0;
}

static void destroy(struct mr_recorder *r)
{
	struct mr_ring *g, *next;

	for (g = r->rings; g; g = next) {
		next = g->next;
		mr_unmap(g->span, g->size * sizeof(*g->span));
		free(g);
	}
	if (r->fd >= 0)
		close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r->path);
	free(r->chunk);
	free(r);
}

static int make_file(struct mr_recorder *r, const struct mr_mrt_header *h,
		     struct mr_err *err)
{
	uint8_t head[MR_MRT_HEADER];
	int e;

	r->fd = open(r->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (r->fd < 0)
		return mr_err_sys(err, errno, r->path, "cannot create");
	mr_mrt_put_header(head, h);
	e = mr_write_all(r->fd, head, sizeof(head));
	if (e)
		return mr_err_sys(err, e, r->path, "cannot write");
	r->done.bytes = sizeof(head);
	return 0;
}

int mr_recorder_new(struct mr_recorder **out, const char *path,
		    const struct mr_mrt_header *header,
		    const struct mr_clock *clock, int threads,
		    struct mr_err *err)
{
	struct mr_recorder *r = mr_alloc(1, sizeof(*r), err);
	uint64_t size = RING_MAX;
	int e;

	*out = NULL;
	if (!r)
		return MR_ENOMEM;
	r->fd = -1;
	r->clock = clock;
	pthread_mutex_init(&r->lock, NULL);
	while (size > RING_MIN &&
	       size * sizeof(struct mr_span) * (uint64_t)threads > MEMORY)
		size /= 2;
	r->ring_size = size;
	r->path = mr_strdup(path, err);
	r->chunk = mr_alloc(CHUNK, MR_MRT_SPAN, err);
	e = r->path && r->chunk ? make_file(r, header, err) : MR_ENOMEM;
	if (!e)
		e = start(r, err);
	if (e) {
		destroy(r);
		return e;
	}
	*out = r;
	return 0;
}

void mr_recorder_thread(struct mr_recorder *r, const struct mr_ring *g,
			const char *role, const char *name)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "name", name);
	mr_json_text(&j, "role", role);
	mr_json_int(&j, "pid", getpid());
	mr_json_int(&j, "tid", (int)syscall(SYS_gettid));
	mr_json_close(&j, '}');
	if (!j.out.failed)
		mr_recorder_chunk(r, "THRD", g->number, j.out.text, j.out.len);
	mr_str_fini(&j.out);
}

struct mr_ring *mr_recorder_ring(struct mr_recorder *r, struct mr_err *err)
{
	struct mr_ring *g = mr_alloc_aligned(sizeof(*g), err);

	if (!g)
		return NULL;
	g->size = r->ring_size;
	g->span = mr_map(g->size * sizeof(*g->span), err);
	if (!g->span) {
		free(g);
		return NULL;
	}
	make_ready(g, 0);
	g->poke = &r->poke;
	g->asleep = &r->asleep;
	pthread_mutex_lock(&r->lock);
	g->number = ++r->threads;
	g->next = r->rings;
	r->rings = g;
	pthread_mutex_unlock(&r->lock);
	return g;
}

static int slower_first(const void *a, const void *b)
{
	const struct slow *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

/* Names of the slowest samples, as one chunk. */
static void write_keys(struct mr_recorder *r, mr_key_fn key, const void *self)
{
	struct mr_str out = { 0 };
	char text[4096];

	qsort(r->slow, r->slows, sizeof(*r->slow), slower_first);
	for (size_t i = 0; i < r->slows; i++) {
		uint8_t head[8];
		size_t n = key(self, r->slow[i].sample, text, sizeof(text));

		n = n < sizeof(text) ? n : sizeof(text) - 1;
		mr_le64_put(head, r->slow[i].sample | (uint64_t)n << 48);
		mr_str_addn(&out, (char *)head, sizeof(head));
		mr_str_addn(&out, text, n);
	}
	if (out.len && !out.failed)
		mr_recorder_chunk(r, "KEYS", 0, out.text, out.len);
	mr_str_fini(&out);
}

void mr_recorder_close(struct mr_recorder *r, mr_key_fn key, const void *self,
		       struct mr_recorded *out)
{
	uint8_t done[24];

	if (!r)
		return;
	atomic_store(&r->stop, true);
	atomic_fetch_add(&r->poke, 1);
	mr_futex_wake(&r->poke, 1);
	pthread_join(r->thread, NULL);
	look(r);
	look_at_taps(r, true);
	if (key)
		write_keys(r, key, self);
	for (struct mr_ring *g = r->rings; g; g = g->next)
		r->done.lost += mr_counted(&g->lost);
	mr_le64_put(done, r->done.spans);
	mr_le64_put(done + 8, r->done.lost);
	mr_le64_put(done + 16, mr_clock_ns());
	mr_recorder_chunk(r, "DONE", 0, done, sizeof(done));
	if (out)
		*out = r->done;
	destroy(r);
}
