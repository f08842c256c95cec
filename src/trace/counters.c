/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/counters.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "core/clock.h"
#include "core/counter.h"
#include "core/le.h"
#include "core/mem.h"

enum {
	TRIES = 32, /* readings to learn what one costs */
	TELL_NS = 1000 * 1000 * 1000,
};

/* Of a sample's time, what reading may take. */
#define SHARE 0.005

struct value {
	uint64_t count, enabled, running;
	uint64_t wall; /* ns by the clock on the wall */
};

/* What is written: read by the recorder while the thread adds. */
struct sum {
	mr_counter calls, count, enabled, running, wall;
	mr_counter squares; /* of the calls' counts, added up: a real number */
};

struct group {
	int n;
	int event[MR_EVENTS]; /* [0] leads */
	int fd[MR_EVENTS];
	struct perf_event_mmap_page *page[MR_EVENTS]; /* of hardware events, */
	uint32_t fast;				      /* which these are */
};

struct mr_counters {
	struct mr_counters_gate gate; /* first */
	const struct mr_events *events;
	struct group *group; /* events->groups of them */
	int at;		     /* the one that counts */
	bool usage;	     /* some are getrusage()'s */
	bool full;	     /* the present sample: all events, or the fast */
	atomic_bool stopped;
	uint64_t batch;
	uint64_t random;

	unsigned stride;
	uint64_t samples, readings; /* that were counted in full */
	double read_ns;

	struct value last[MR_EVENTS], now[MR_EVENTS];
	uint32_t have;		    /* events that are in now[] */
	uint64_t own[2][MR_EVENTS]; /* what a reading adds: fast, full */
	uint64_t own_wall[2];
	struct value part[MR_COUNTER_PARTS][MR_EVENTS];
	uint32_t part_have;

	int steps;
	struct sum *sum; /* [steps + 1][n]; the last: outside */

	/* run delay of the whole thread */
	int tid;
	uint64_t delay0, ns0;
	mr_counter delay, ns;

	uint32_t number; /* the thread's in the file */
	struct mr_counters *next;
};

struct mr_counting {
	struct mr_events events;
	int steps;
	struct mr_recorder *recorder;
	struct mr_tap tap;
	pthread_mutex_t lock;
	struct mr_counters *threads;
	bool told; /* that a thread could not count */
};

/* ---- reading ---- */

bool mr_pmc_read(const struct perf_event_mmap_page *page,
		 uint64_t (*rdpmc)(uint32_t i), uint64_t (*cycles)(void),
		 uint64_t *value, uint64_t *enabled, uint64_t *running)
{
	const volatile struct perf_event_mmap_page *p = page;
	uint32_t seq, index;
	uint64_t count, on, run;

	do {
		seq = p->lock;
		atomic_signal_fence(memory_order_seq_cst);
		index = p->index;
		count = (uint64_t)p->offset;
		on = p->time_enabled;
		run = p->time_running;
		if (!p->cap_user_rdpmc || !index)
			return false;
		if (p->cap_user_time) {
			uint64_t c = cycles(), shift = p->time_shift;
			uint64_t quot = c >> shift;
			uint64_t rem = c & (((uint64_t)1 << shift) - 1);
			uint64_t more = p->time_offset + quot * p->time_mult +
					(rem * p->time_mult >> shift);

			on += more;
			run += more;
		}
		if (p->pmc_width && p->pmc_width < 64) {
			unsigned high = 64u - p->pmc_width;

			/* it counts in so many bits, with a sign */
			count += (uint64_t)((int64_t)(rdpmc(index - 1)
						      << high) >>
					    high);
		} else {
			count += rdpmc(index - 1);
		}
		atomic_signal_fence(memory_order_seq_cst);
	} while (p->lock != seq);
	*value = count;
	*enabled = on;
	*running = run;
	return true;
}

#if defined(__x86_64__)
static uint64_t rdpmc(uint32_t i)
{
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(i));
	return low | (uint64_t)high << 32;
}

static uint64_t cycles(void)
{
	return __rdtsc();
}
#else
/* Never called: only x86 gets pages mapped. */
static uint64_t rdpmc(uint32_t i)
{
	return i;
}

static uint64_t cycles(void)
{
	return 0;
}
#endif

/* The events of a set, one after another. */
static int pop(uint32_t *set)
{
	int i = __builtin_ctz(*set);

	*set &= *set - 1;
	return i;
}

/* The hardware's, without the kernel; false when it must be asked. */
static bool read_fast(struct mr_counters *c)
{
	const struct group *g = &c->group[c->at];

	c->have = 0;
	for (int i = 0; i < g->n; i++) {
		struct value *v = &c->now[g->event[i]];

		if (!g->page[i])
			continue;
		if (!mr_pmc_read(g->page[i], rdpmc, cycles, &v->count,
				 &v->enabled, &v->running))
			return false;
		c->have |= 1u << g->event[i];
	}
	return true;
}

static void read_group(struct mr_counters *c)
{
	const struct group *g = &c->group[c->at];
	uint64_t got[3 + MR_EVENTS]; /* n, enabled, running, values */
	ssize_t n = read(g->fd[0], got, sizeof(got));

	if (n < (ssize_t)((3 + (size_t)g->n) * sizeof(*got)))
		return;
	for (int i = 0; i < g->n; i++) {
		c->now[g->event[i]] =
			(struct value){ got[3 + i], got[1], got[2], 0 };
		c->have |= 1u << g->event[i];
	}
}

static uint64_t of_usage(uint64_t event, const struct rusage *u, uint64_t cpu)
{
	switch (event) {
	case PERF_COUNT_SW_PAGE_FAULTS:
		return (uint64_t)(u->ru_minflt + u->ru_majflt);
	case PERF_COUNT_SW_PAGE_FAULTS_MIN:
		return (uint64_t)u->ru_minflt;
	case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
		return (uint64_t)u->ru_majflt;
	case PERF_COUNT_SW_CONTEXT_SWITCHES:
		return (uint64_t)(u->ru_nvcsw + u->ru_nivcsw);
	default:
		return cpu;
	}
}

static void read_usage(struct mr_counters *c)
{
	uint64_t cpu = mr_clock_cpu_ns();
	struct rusage u;

	if (getrusage(RUSAGE_THREAD, &u) != 0)
		return;
	for (int i = 0; i < c->events->n; i++) {
		const struct mr_event *e = &c->events->event[i];

		if (e->how != MR_EVENT_RUSAGE)
			continue;
		c->now[i] = (struct value){ of_usage(e->config, &u, cpu), cpu,
					    cpu, 0 };
		c->have |= 1u << i;
	}
}

static void read_events(struct mr_counters *c)
{
	if (!c->full && read_fast(c))
		return;
	c->have = 0;
	if (c->events->groups)
		read_group(c);
	if (c->usage)
		read_usage(c);
	c->readings++;
	if (!c->full) {
		/* Someone else has the counters: ask less often. The others
		 * were not read when this sample began. */
		c->have &= c->group[c->at].fast;
		c->gate.fast = false;
	}
}

/* All events that are read, and the time at which. */
static void snap(struct mr_counters *c)
{
	uint64_t ns = mr_clock_ns();
	uint32_t set;

	read_events(c);
	set = c->have;
	while (set)
		c->now[pop(&set)].wall = ns;
}

/* Can the present group be read without the kernel? */
static bool is_fast(struct mr_counters *c)
{
	return c->events->groups && c->group[c->at].fast && read_fast(c);
}

/* ---- adding ---- */

static void sum_add(struct sum *s, uint64_t calls, const struct value *v)
{
	mr_count(&s->calls, calls);
	mr_count(&s->count, v->count);
	mr_count(&s->enabled, v->enabled);
	mr_count(&s->running, v->running);
	mr_count(&s->wall, v->wall);
	mr_count_real(&s->squares, (double)v->count * (double)v->count);
}

static uint64_t without(uint64_t all, uint64_t own)
{
	return all > own ? all - own : 0;
}

/* What event i has counted since the last time, without the reading. */
static struct value since(struct mr_counters *c, int i)
{
	const struct value *a = &c->last[i], *b = &c->now[i];
	struct value v = {
		without(b->count - a->count, c->own[c->full][i]),
		b->enabled - a->enabled,
		b->running - a->running,
		without(b->wall - a->wall, c->own_wall[c->full]),
	};

	c->last[i] = *b;
	return v;
}

void mr_counters_part(struct mr_counters *c, int part)
{
	uint32_t set;

	snap(c);
	set = c->have;
	while (set) {
		int i = pop(&set);
		struct value v = since(c, i);
		struct value *p = &c->part[part][i];

		p->count += v.count;
		p->enabled += v.enabled;
		p->running += v.running;
		p->wall += v.wall;
	}
	c->part_have |= c->have;
}

void mr_counters_add(struct mr_counters *c, int k, unsigned parts)
{
	struct sum *s = &c->sum[k * c->events->n];
	uint32_t set = c->part_have;

	while (set) {
		int i = pop(&set);
		struct value all = { 0 };

		for (int p = 0; p < MR_COUNTER_PARTS; p++) {
			struct value *v = &c->part[p][i];

			if (!(parts & 1u << p))
				continue;
			all.count += v->count;
			all.enabled += v->enabled;
			all.running += v->running;
			all.wall += v->wall;
			*v = (struct value){ 0 };
		}
		sum_add(&s[i], 1, &all);
	}
}

static void outside(struct mr_counters *c)
{
	struct sum *s = &c->sum[c->steps * c->events->n];
	uint32_t set = c->have;

	while (set) {
		int i = pop(&set);
		struct value v = since(c, i);

		sum_add(&s[i], 1, &v);
	}
}

/* By its leader alone: the others are always enabled, and run when it does.
 * Enabled one by one, the kernel lets some of a group's software events wait
 * until the thread is next scheduled. */
static void switch_group(struct mr_counters *c, unsigned long how)
{
	ioctl(c->group[c->at].fd[0], how, 0);
}

/* All events as they are now are where counting goes on. */
static void settle(struct mr_counters *c)
{
	uint32_t set;

	c->full = true;
	snap(c);
	set = c->have;
	while (set) {
		int i = pop(&set);

		c->last[i] = c->now[i];
	}
}

/* The next group's turn. */
static void rotate(struct mr_counters *c)
{
	c->full = true;
	snap(c);
	outside(c);
	switch_group(c, PERF_EVENT_IOC_DISABLE);
	c->at = (c->at + 1) % c->events->groups;
	switch_group(c, PERF_EVENT_IOC_ENABLE);
	settle(c);
}

static unsigned draw(struct mr_counters *c, unsigned below)
{
	c->random = c->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((c->random >> 33) % below);
}

bool mr_counters_start(struct mr_counters *c, uint64_t batch)
{
	if (c->stopped)
		return false;
	c->full = c->gate.left <= 1;
	if (!c->full) {
		c->gate.left--;
	} else {
		/* by chance, so that it never keeps step with the data */
		c->gate.left =
			c->stride > 1 ? 1 + draw(c, 2 * c->stride - 1) : 1;
		c->samples++;
	}
	if (c->events->groups > 1 && batch != c->batch)
		rotate(c);
	c->batch = batch;
	if (c->full)
		c->gate.fast = is_fast(c);
	c->full = c->full || !c->gate.fast;
	memset(c->part, 0, sizeof(c->part));
	c->part_have = 0;
	snap(c);
	outside(c);
	return true;
}

void mr_counters_pace(struct mr_counters *c, double sample_ns)
{
	double each, stride;

	if (!c->samples || sample_ns <= 0)
		return;
	each = (double)c->readings / (double)c->samples * c->read_ns;
	stride = each / (SHARE * sample_ns);
	c->stride = stride < 1	    ? 1 :
		    stride > 100000 ? 100000 :
				      (unsigned)stride + 1;
}

/* ---- a thread's ---- */

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* What a reading costs, and adds to the counters itself: the median of some
 * that follow each other at once. */
static void learn_own(struct mr_counters *c, bool full)
{
	uint64_t diff[MR_EVENTS][TRIES], wall[TRIES], t0;
	int n = c->events->n;

	memset(diff, 0, sizeof(diff));
	c->full = full;
	snap(c);
	memcpy(c->last, c->now, sizeof(c->last));
	t0 = mr_clock_cpu_ns();
	for (int k = 0; k < TRIES; k++) {
		int any = c->have ? __builtin_ctz(c->have) : 0;

		snap(c);
		wall[k] = c->now[any].wall - c->last[any].wall;
		for (int i = 0; i < n; i++)
			diff[i][k] = c->now[i].count - c->last[i].count;
		memcpy(c->last, c->now, sizeof(c->last));
	}
	if (full)
		c->read_ns = (double)(mr_clock_cpu_ns() - t0) / TRIES;
	qsort(wall, TRIES, sizeof(wall[0]), by_size);
	c->own_wall[full] = wall[TRIES / 2];
	for (int i = 0; i < n; i++) {
		qsort(diff[i], TRIES, sizeof(diff[i][0]), by_size);
		if (c->have & 1u << i)
			c->own[full][i] = diff[i][TRIES / 2];
	}
}

static void map_page(struct group *g, int i, const struct mr_event *e)
{
#if defined(__x86_64__)
	void *p;

	if (e->type == PERF_TYPE_SOFTWARE)
		return;
	p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
		 g->fd[i], 0);
	if (p == MAP_FAILED)
		return;
	g->page[i] = p;
	g->fast |= 1u << g->event[i];
#else
	(void)g;
	(void)i;
	(void)e;
#endif
}

static int open_group(struct mr_counters *c, int number)
{
	struct group *g = &c->group[number];
	const struct mr_events *s = c->events;

	for (int i = 0; i < s->n; i++) {
		struct perf_event_attr a = mr_event_attr(&s->event[i]);

		if (!mr_event_in(s, i, number))
			continue;
		a.disabled = g->n == 0; /* the leader's alone counts */
		g->fd[g->n] = mr_perf_open(&a, 0, -1, g->n ? g->fd[0] : -1);
		if (g->fd[g->n] < 0)
			return errno;
		g->event[g->n++] = i;
		map_page(g, g->n - 1, &s->event[i]);
	}
	return 0;
}

static void close_groups(struct mr_counters *c)
{
	for (int k = 0; c->group && k < c->events->groups; k++) {
		struct group *g = &c->group[k];

		for (int i = 0; i < g->n; i++) {
			if (g->page[i])
				munmap(g->page[i],
				       (size_t)sysconf(_SC_PAGESIZE));
			close(g->fd[i]);
		}
		g->n = 0;
	}
}

/* Time that a thread was ready to run and did not, in ns. */
static bool run_delay(int tid, uint64_t *ns)
{
	unsigned long long ran, delay;
	char path[64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fscanf(f, "%llu %llu", &ran, &delay) == 2;
	fclose(f);
	if (ok)
		*ns = delay;
	return ok;
}

static void note_delay(struct mr_counters *c)
{
	uint64_t delay;

	if (!c->ns0 || !run_delay(c->tid, &delay))
		return;
	atomic_store_explicit(&c->delay, delay - c->delay0,
			      memory_order_relaxed);
	atomic_store_explicit(&c->ns, mr_clock_ns() - c->ns0,
			      memory_order_relaxed);
}

static int begin(struct mr_counters *c)
{
	const struct mr_events *s = c->events;

	c->tid = (int)syscall(SYS_gettid);
	if (run_delay(c->tid, &c->delay0))
		c->ns0 = mr_clock_ns();
	for (int i = 0; i < s->n; i++)
		c->usage |= s->event[i].how == MR_EVENT_RUSAGE;
	for (int k = 0; k < s->groups; k++) {
		int e = open_group(c, k);

		if (e)
			return e;
	}
	if (!s->groups)
		learn_own(c, true);
	for (c->at = s->groups - 1; c->at >= 0; c->at--) {
		switch_group(c, PERF_EVENT_IOC_ENABLE);
		learn_own(c, true);
		if (is_fast(c))
			learn_own(c, false);
		if (c->at)
			switch_group(c, PERF_EVENT_IOC_DISABLE);
	}
	c->at = 0;
	settle(c);
	c->samples = c->readings = 0;
	c->stride = 1;
	c->gate.left = 1;
	c->batch = UINT64_MAX;
	c->random = (uint64_t)c->tid;
	return 0;
}

static void destroy(struct mr_counters *c)
{
	if (!c)
		return;
	close_groups(c);
	free(c->group);
	free(c->sum);
	free(c);
}

static void tell_failure(struct mr_counting *o, int errnum)
{
	char reason[160], remedy[160];
	struct mr_json j = { 0 };
	bool first;

	pthread_mutex_lock(&o->lock);
	first = !o->told;
	o->told = true;
	pthread_mutex_unlock(&o->lock);
	if (!first)
		return;
	mr_perf_reason(errnum, reason, remedy);
	mr_json_open(&j, NULL, '{');
	mr_json_open(&j, "counting", '{');
	mr_json_text(&j, "reason", reason);
	mr_json_text(&j, "remedy", remedy);
	mr_json_close(&j, '}');
	mr_json_close(&j, '}');
	if (!j.out.failed)
		mr_recorder_chunk(o->recorder, "META", 0, j.out.text,
				  j.out.len);
	mr_str_fini(&j.out);
}

struct mr_counters *mr_counting_thread(struct mr_counting *o,
				       const struct mr_ring *g)
{
	struct mr_counters *c;
	struct mr_err err;
	int e = ENOMEM;

	if (!o || !g)
		return NULL;
	c = mr_alloc(1, sizeof(*c), &err);
	if (c) {
		size_t sums = (size_t)(o->steps + 1) * (size_t)o->events.n;

		c->events = &o->events;
		c->steps = o->steps;
		c->number = g->number;
		c->group = mr_alloc((size_t)o->events.groups, sizeof(*c->group),
				    &err);
		c->sum = mr_alloc(sums, sizeof(*c->sum), &err);
		if (c->group && c->sum)
			e = begin(c);
	}
	if (e) {
		tell_failure(o, e);
		destroy(c);
		return NULL;
	}
	pthread_mutex_lock(&o->lock);
	c->next = o->threads;
	o->threads = c;
	pthread_mutex_unlock(&o->lock);
	return c;
}

void mr_counters_stop(struct mr_counters *c)
{
	if (!c || c->stopped)
		return;
	c->full = true;
	snap(c);
	outside(c);
	c->stopped = true; /* from now on nobody asks by its number */
	note_delay(c);
	close_groups(c);
}

/* ---- all threads' ---- */

static void put(struct mr_str *out, int step, int event, const struct sum *s)
{
	uint8_t to[MR_MRT_COUNT] = { (uint8_t)step, (uint8_t)event };

	mr_le64_put(to + 8, mr_counted(&s->calls));
	mr_le64_put(to + 16, mr_counted(&s->count));
	mr_le64_put(to + 24, mr_counted(&s->enabled));
	mr_le64_put(to + 32, mr_counted(&s->running));
	mr_le64_put(to + 40, mr_counted(&s->squares));
	mr_le64_put(to + 48, mr_counted(&s->wall));
	mr_str_addn(out, (char *)to, sizeof(to));
}

static void put_delay(struct mr_str *out, struct mr_counters *c, int event)
{
	struct sum s;
	uint64_t ns = mr_counted(&c->ns);

	if (!ns)
		return;
	atomic_init(&s.calls, 1);
	atomic_init(&s.count, mr_counted(&c->delay));
	atomic_init(&s.enabled, ns);
	atomic_init(&s.running, ns);
	atomic_init(&s.squares, 0);
	atomic_init(&s.wall, ns);
	put(out, MR_OUTSIDE, event, &s);
}

static void tell(struct mr_counting *o, struct mr_counters *c)
{
	struct mr_str out = { 0 };
	int n = o->events.n;

	for (int k = 0; k <= o->steps; k++)
		for (int i = 0; i < n; i++)
			if (mr_counted(&c->sum[k * n + i].calls))
				put(&out, k < o->steps ? k : MR_OUTSIDE, i,
				    &c->sum[k * n + i]);
	for (int i = 0; i < n; i++)
		if (o->events.event[i].how == MR_EVENT_SCHED)
			put_delay(&out, c, i);
	if (out.len && !out.failed)
		mr_recorder_chunk(o->recorder, "CNTR", c->number, out.text,
				  out.len);
	mr_str_fini(&out);
}

static void look(struct mr_tap *t, bool last)
{
	struct mr_counting *o = t->self;
	struct mr_counters *c;

	pthread_mutex_lock(&o->lock);
	c = o->threads;
	pthread_mutex_unlock(&o->lock);
	for (; c; c = c->next) {
		if (!last && !c->stopped)
			note_delay(c);
		tell(o, c);
	}
}

static void tell_events(struct mr_counting *o)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_events_json(&o->events, &j);
	mr_json_close(&j, '}');
	if (!j.out.failed)
		mr_recorder_chunk(o->recorder, "META", 0, j.out.text,
				  j.out.len);
	mr_str_fini(&j.out);
}

int mr_counting_new(struct mr_counting **out, const char *list, int steps,
		    struct mr_recorder *r, struct mr_err *err)
{
	struct mr_counting *o = mr_alloc(1, sizeof(*o), err);
	int e;

	*out = NULL;
	if (!o)
		return MR_ENOMEM;
	e = mr_events_init(&o->events, list, false, err);
	if (e || !o->events.n) {
		free(o);
		return e;
	}
	o->steps = steps;
	o->recorder = r;
	pthread_mutex_init(&o->lock, NULL);
	tell_events(o);
	o->tap = (struct mr_tap){ .look = look, .self = o, .every = TELL_NS };
	mr_recorder_tap(r, &o->tap);
	*out = o;
	return 0;
}

void mr_counting_free(struct mr_counting *o)
{
	struct mr_counters *c, *next;

	if (!o)
		return;
	for (c = o->threads; c; c = next) {
		next = c->next;
		destroy(c);
	}
	pthread_mutex_destroy(&o->lock);
	free(o);
}
