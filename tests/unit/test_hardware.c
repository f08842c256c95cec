/* SPDX-License-Identifier: Apache-2.0 */
/* Counters without the kernel, traces that were written by hand, and names
 * of functions. */
#include "scratch.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "analyze/demangle.h"
#include "analyze/elf.h"
#include "analyze/hardware.h"
#include "core/le.h"
#include "core/mem.h"
#include "trace/counters.h"
#include "trace/sampler.h"
#include "trace/touched.h"

/* ---- rdpmc ---- */

static uint64_t registers[4];
static struct perf_event_mmap_page *moving; /* changes while it is read */
static int moves;

static uint64_t fake_rdpmc(uint32_t i)
{
	if (moving && moves++ < 3) {
		moving->lock++;
		moving->offset += 1000;
	}
	return registers[i];
}

static uint64_t fake_cycles(void)
{
	return 5000;
}

static void test_counters_of_48_bits_are_read_with_their_sign(void **state)
{
	struct perf_event_mmap_page p = { .index = 3,
					  .offset = 1000,
					  .pmc_width = 48 };
	uint64_t v, on, run;

	(void)state;
	p.cap_user_rdpmc = 1;
	p.time_enabled = p.time_running = 77;
	registers[2] = 234;
	assert_true(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
	assert_int_equal(v, 1234);
	assert_int_equal(on, 77);
	assert_int_equal(run, 77);
	registers[2] = ((uint64_t)1 << 48) - 400; /* -400 */
	assert_true(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
	assert_int_equal(v, 600);
}

static void test_counter_that_is_not_there_is_left_to_the_kernel(void **state)
{
	struct perf_event_mmap_page p = { .index = 0, .pmc_width = 48 };
	uint64_t v, on, run;

	(void)state;
	p.cap_user_rdpmc = 1;
	assert_false(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
	p.index = 1;
	p.cap_user_rdpmc = 0;
	assert_false(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
}

static void test_reading_is_repeated_while_the_page_changes(void **state)
{
	struct perf_event_mmap_page p = { .index = 1, .pmc_width = 64 };
	uint64_t v, on, run;

	(void)state;
	p.cap_user_rdpmc = 1;
	registers[0] = 5;
	moving = &p;
	moves = 0;
	assert_true(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
	moving = NULL;
	assert_int_equal(v, 3005);
	assert_int_equal(moves, 4);
}

static void test_time_goes_on_between_the_kernels_updates(void **state)
{
	struct perf_event_mmap_page p = { .index = 1, .pmc_width = 64 };
	uint64_t v, on, run;

	(void)state;
	p.cap_user_rdpmc = 1;
	p.cap_user_time = 1;
	p.time_enabled = 200;
	p.time_running = 100;
	p.time_shift = 10;
	p.time_mult = 512; /* half a ns for a cycle */
	p.time_offset = (uint64_t)-1000;
	assert_true(mr_pmc_read(&p, fake_rdpmc, fake_cycles, &v, &on, &run));
	assert_int_equal(on, 200 + 2500 - 1000);
	assert_int_equal(run, 100 + 2500 - 1000);
}

/* ---- lists of events ---- */

static void test_lists_of_events_are_checked(void **state)
{
	static const char *const bad[] = {
		"cycels",
		"cycles,",
		"rxyz",
		"r",
		"r11112222333344445",
		"cycles:k",
		"a-name-that-is-much-longer-than-any-event-has-it",
	};
	static const int code[] = { MR_EINVAL, 0,	  MR_EINVAL, MR_EINVAL,
				    MR_EINVAL, MR_EINVAL, MR_EINVAL };
	struct mr_events s;
	struct mr_err err;
	char many[400] = "cs";

	(void)state;
	for (size_t i = 0; i < MR_COUNT(bad); i++)
		assert_int_equal(mr_events_init(&s, bad[i], false, &err),
				 code[i]);
	for (int i = 0; i < MR_EVENTS; i++)
		strcat(many, ",cs");
	assert_int_equal(mr_events_init(&s, many, false, &err), MR_EINVAL);
	assert_int_equal(mr_events_init(&s, "none", false, &err), 0);
	assert_int_equal(s.n, 0);
	assert_int_equal(mr_events_init(&s, "r1c2,task-clock:u", false, &err),
			 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.event[0].config, 0x1c2);
	assert_true(s.event[1].user_only);
	assert_int_equal(mr_events_init(&s, "", false, &err), 0);
	for (int i = 0; i < s.n; i++)
		assert_true(s.event[i].how != MR_EVENT_NONE ||
			    (*s.event[i].reason && *s.event[i].remedy));
}

/* ---- traces by hand ---- */

static struct mr_str file;

static void chunk(const char *kind, uint32_t thread, const void *data, size_t n)
{
	uint8_t head[MR_MRT_CHUNK];

	mr_mrt_put_chunk(head, kind, thread, data, n);
	mr_str_addn(&file, (char *)head, sizeof(head));
	mr_str_addn(&file, data, n);
}

static void text_chunk(const char *kind, uint32_t thread, const char *text)
{
	chunk(kind, thread, text, strlen(text));
}

static void begin_file(void)
{
	struct mr_mrt_header h = { .pid = 7, .ranks = 1 };
	uint8_t head[MR_MRT_HEADER];

	mr_str_fini(&file);
	file = (struct mr_str){ 0 };
	mr_mrt_put_header(head, &h);
	mr_str_addn(&file, (char *)head, sizeof(head));
}

static void span(struct mr_str *to, uint64_t from, uint64_t end, uint8_t kind,
		 uint8_t flags, uint8_t step, uint64_t sample)
{
	struct mr_mrt_span s = { .start = from,
				 .duration = end - from,
				 .sample = sample,
				 .kind = kind,
				 .flags = flags,
				 .step = step };
	uint8_t b[MR_MRT_SPAN];

	mr_mrt_put_span(b, &s);
	mr_str_addn(to, (char *)b, sizeof(b));
}

static void sample(struct mr_str *to, uint64_t time, uint32_t tid, unsigned n,
		   unsigned kernel, const uint64_t *address)
{
	uint8_t b[24] = { 0 };

	mr_le64_put(b, time);
	mr_le32_put(b + 8, 7);
	mr_le32_put(b + 12, tid);
	mr_le32_put(b + 16, n | kernel << 16);
	mr_str_addn(to, (char *)b, sizeof(b));
	for (unsigned i = 0; i < n; i++) {
		mr_le64_put(b, address[i]);
		mr_str_addn(to, (char *)b, 8);
	}
}

static void count(struct mr_str *to, uint8_t step, uint8_t event,
		  uint64_t calls, uint64_t sum, uint64_t on, uint64_t run)
{
	uint8_t b[MR_MRT_COUNT] = { step, event };
	double squares;
	uint64_t bits;

	mr_le64_put(b + 8, calls);
	mr_le64_put(b + 16, sum);
	mr_le64_put(b + 24, on);
	mr_le64_put(b + 32, run);
	/* as if all calls had been the same */
	squares = (double)sum * (double)sum / (double)calls;
	memcpy(&bits, &squares, sizeof(bits));
	mr_le64_put(b + 40, bits);
	mr_le64_put(b + 48, 2 * sum);
	mr_str_addn(to, (char *)b, sizeof(b));
}

static void flush(const char *kind, uint32_t thread, struct mr_str *s)
{
	chunk(kind, thread, s->text, s->len);
	s->len = 0;
}

static void write_trace(void)
{
	static const char maps[] =
		"\7\0\0\0"
		"1000-2000 r-xp 00000000 00:00 0 /nowhere/liba.so\n"
		"2000-3000 r-xp 00000000 00:00 0 \n"
		"nonsense\n"
		"5000-4000 r-xp 00000000 00:00 0 /nowhere/back.so\n";
	static const uint64_t a[] = { 0x1010 }, b[] = { 0x2010, 0x1020 },
			      k[] = { 0xffffffff81000000, 0x1010 },
			      wild[] = { 0x1010, 0x9999999, 0x1020 };
	struct mr_str s = { 0 };

	begin_file();
	text_chunk("META", 0,
		   "{\"events\":[{\"name\":\"cycles\",\"source\":"
		   "\"hw-counted\",\"unit\":\"\"},{\"name\":\"instructions\","
		   "\"source\":\"hw-counted\",\"unit\":\"\"},{\"name\":"
		   "\"cache-misses\",\"source\":\"unavailable\",\"reason\":"
		   "\"none here\",\"remedy\":\"buy one\"},{\"name\":"
		   "\"task-clock\",\"source\":\"sw-counted\",\"via\":"
		   "\"getrusage\"}]}");
	text_chunk("META", 0,
		   "{\"sampling\":{\"event\":\"cycles\",\"hz\":1000,"
		   "\"source\":\"hw-sampled\",\"lost\":3}}");
	chunk("NAME", 0, "\0read", 5);
	chunk("NAME", 0, "\1one", 4);
	chunk("NAME", 0, "\2two", 4);
	chunk("NAME", 0, "\3three", 6);
	text_chunk("THRD", 1, "{\"pid\":7,\"tid\":70}");
	text_chunk("THRD", 2, "{\"pid\":7,\"tid\":71}");
	chunk("MAPS", 0, maps, sizeof(maps) - 1);
	/* thread 1: read 100-200, then two and three took turns in 200-400;
	 * the sample is 90-450, the work 50-500; the batch is of no thread */
	span(&s, 100, 200, MR_SPAN_STEP, 0, 0, 5);
	span(&s, 200, 300, MR_SPAN_STEP, MR_SPAN_LAID, 2, 5);
	span(&s, 300, 400, MR_SPAN_STEP, MR_SPAN_LAID, 3, 5);
	span(&s, 90, 450, MR_SPAN_SAMPLE, 0, 0, 5);
	span(&s, 50, 500, MR_SPAN_WORK, 0, 0, MR_NO_SAMPLE);
	span(&s, 0, 10000, MR_SPAN_BATCH, 0, 0, MR_NO_SAMPLE);
	flush("SPAN", 1, &s);
	span(&s, 100, 600, MR_SPAN_STEP, 0, 1, 6);
	flush("SPAN", 2, &s);
	sample(&s, 100, 70, 1, 0, a);	 /* read */
	sample(&s, 199, 70, 2, 0, b);	 /* read */
	sample(&s, 200, 70, 1, 0, a);	 /* two+three */
	sample(&s, 399, 70, 2, 1, k);	 /* two+three, in the kernel */
	sample(&s, 449, 70, 1, 0, a);	 /* engine */
	sample(&s, 499, 70, 3, 0, wild); /* engine */
	sample(&s, 500, 70, 1, 0, a);	 /* outside */
	sample(&s, 300, 71, 1, 0, a);	 /* one */
	sample(&s, 300, 72, 1, 0, a);	 /* a thread without spans */
	flush("SMPL", 0, &s);
	count(&s, 1, 0, 1, 10, 5, 5);
	flush("CNTR", 1, &s); /* outdated by the next */
	count(&s, 1, 0, 10, 1000, 50, 50);
	count(&s, 1, 1, 10, 2000, 100, 50); /* half of the time */
	count(&s, 255, 1, 4, 100, 100, 100);
	count(&s, 1, 99, 4, 100, 100, 100); /* no such event */
	flush("CNTR", 1, &s);
	count(&s, 1, 0, 30, 3000, 50, 50);
	flush("CNTR", 2, &s);
	mr_str_fini(&s);
	put("t.mrt", file.text, file.len);
}

static const struct mr_place *place(const struct mr_attribution *a,
				    const char *name)
{
	for (size_t i = 0; i < a->places; i++)
		if (strcmp(a->place[i].name, name) == 0)
			return &a->place[i];
	fail_msg("no place %s", name);
	return NULL;
}

static struct mr_attribution at;

static void test_samples_go_to_the_innermost_span(void **state)
{
	struct mr_err err;
	char *folded;

	(void)state;
	write_trace();
	assert_int_equal(mr_attribute(&at, textf("%s/t.mrt", top), true, &err),
			 0);
	assert_int_equal(at.samples, 9);
	assert_int_equal(at.lost, 3);
	assert_int_equal(place(&at, "read")->samples, 2);
	assert_int_equal(place(&at, "two+three")->samples, 2);
	assert_int_equal(place(&at, "engine")->samples, 2);
	assert_int_equal(place(&at, "one")->samples, 1);
	assert_int_equal(place(&at, "outside")->samples, 2);
	folded = mr_folded_text(&at);
	assert_non_null(strstr(folded, "read;[unknown in liba.so];"
				       "[anonymous code] 1\n"));
	assert_non_null(strstr(folded, "two+three;[unknown in liba.so];"
				       "[kernel] 1\n"));
	/* what follows an address without code is no stack */
	assert_non_null(strstr(folded, "engine;[unknown in liba.so] 2\n"));
	free(folded);
	mr_attribution_fini(&at);
}

static void test_samples_in_a_turn_are_the_steps_whose_turn_it_was(void **state)
{
	static const uint64_t a[] = { 0x1010 };
	struct mr_str s = { 0 };
	struct mr_err err;

	(void)state;
	begin_file();
	text_chunk("META", 0,
		   "{\"sampling\":{\"event\":\"cycles\",\"hz\":1000,"
		   "\"source\":\"hw-sampled\"}}");
	chunk("NAME", 0, "\2two", 4);
	chunk("NAME", 0, "\3three", 6);
	text_chunk("THRD", 1, "{\"pid\":7,\"tid\":70}");
	/* laid one after another, two first; in fact three came in between */
	span(&s, 120000, 130000, MR_SPAN_TURN, 0, 2, 5);
	span(&s, 100000, 160000, MR_SPAN_STEP, MR_SPAN_LAID, 2, 5);
	span(&s, 110000, 119000, MR_SPAN_TURN, 0, 3, 5);
	span(&s, 160000, 200000, MR_SPAN_STEP, MR_SPAN_LAID, 3, 5);
	span(&s, 90000, 300000, MR_SPAN_SAMPLE, 0, 0, 5);
	span(&s, 90000, 300000, MR_SPAN_BATCH, 0, 0, MR_NO_SAMPLE);
	flush("SPAN", 1, &s);
	sample(&s, 20000, 70, 1, 0, a);	 /* before the first batch */
	sample(&s, 30000, 70, 1, 0, a);	 /* so is this */
	sample(&s, 111000, 70, 1, 0, a); /* three */
	sample(&s, 125000, 70, 1, 0, a); /* two */
	sample(&s, 150000, 70, 1, 0, a); /* nobody said whose turn it was */
	sample(&s, 400000, 70, 1, 0, a); /* outside */
	flush("SMPL", 0, &s);
	mr_str_fini(&s);
	put("t.mrt", file.text, file.len);
	assert_int_equal(mr_attribute(&at, textf("%s/t.mrt", top), true, &err),
			 0);
	assert_int_equal(at.samples, 6);
	assert_int_equal(place(&at, "two")->samples, 1);
	assert_int_equal(place(&at, "three")->samples, 1);
	assert_int_equal(place(&at, "two+three")->samples, 1);
	assert_int_equal(place(&at, "outside")->samples, 1);
	assert_int_equal(place(&at, "before the first batch")->samples, 2);
	assert_int_equal(at.calls[2], 1); /* a turn is no call */
	mr_attribution_fini(&at);
}

static void test_means_of_counted_calls_have_an_interval(void **state)
{
	/* 1, 2, 3, 4, 5: the deviation is sqrt(2.5), t of 4 degrees 2.776 */
	struct mr_counted c = { .calls = 5,
				.count = 15,
				.squares = 55,
				.enabled = 9,
				.running = 9 };
	double half = 2.776 * sqrt(2.5 / 5);

	(void)state;
	assert_true(mr_counted_per_call(&c) == 3);
	assert_true(fabs(mr_counted_half(&c, 0) - half) < 1e-9);
	/* a half of all was counted; all of them were */
	assert_true(fabs(mr_counted_half(&c, 10) - half * sqrt(0.5)) < 1e-9);
	assert_true(mr_counted_half(&c, 5) == 0);
	/* scaled as the mean is */
	c.running = 3;
	assert_true(mr_counted_per_call(&c) == 9);
	assert_true(fabs(mr_counted_half(&c, 0) - 3 * half) < 1e-9);
	/* many: 1.96 deviations */
	c = (struct mr_counted){ .calls = 10000,
				 .count = 50000,
				 .squares = 10000 * 25 + 9999 * 4.0 };
	assert_true(fabs(mr_counted_half(&c, 0) - 1.96 * 2 / 100) < 1e-4);
	c.calls = 1;
	assert_true(isnan(mr_counted_half(&c, 9)));
	assert_true(mr_counted_half(&c, 1) == 0);
}

static void test_names_of_cxx_are_said_as_they_are_written(void **state)
{
	static const struct {
		const char *mangled, *plain;
	} names[] = {
		{ "_ZN3c104impl3fooEiPKc", "c10::impl::foo" },
		{ "_ZNK1A1fEv", "A::f" },
		{ "_ZN1AclEi", "A::operator()" },
		{ "_ZN1AIiE1fEv", "A<int>::f" },
		{ "main", "main" },
		{ "_Zebra", "_Zebra" },
		{ "_ZN", "_ZN" },
	};
	struct mr_demangler d = { 0 };
	char buf[256];

	(void)state;
	mr_demangle(&d, names[0].mangled, buf, sizeof(buf));
	for (size_t i = 0; i < MR_COUNT(names); i++)
		assert_string_equal(
			mr_demangle(&d, names[i].mangled, buf, sizeof(buf)),
			d.demangle ? names[i].plain : names[i].mangled);
	mr_demangler_fini(&d);
}

static void test_the_last_counters_of_each_thread_are_added(void **state)
{
	struct mr_err err;
	char *text;

	(void)state;
	write_trace();
	assert_int_equal(mr_attribute(&at, textf("%s/t.mrt", top), true, &err),
			 0);
	assert_int_equal(at.events, 4);
	assert_int_equal(at.counted_threads, 2);
	assert_int_equal(at.event[0].step[1].calls, 40);
	assert_int_equal(at.event[0].step[1].count, 4000);
	assert_true(at.event[0].step[1].squares == 40 * 100 * 100);
	assert_int_equal(at.event[0].step[1].wall, 8000);
	/* 2,000 in half of the time are 4,000 */
	assert_true(mr_counted_per_call(&at.event[1].step[1]) == 400);
	mr_attribution_fini(&at);
	assert_int_equal(
		mr_hardware_text(textf("%s/t.mrt", top), false, &text, &err),
		0);
	assert_non_null(strstr(text, "unavailable: cache-misses: none here; "
				     "try: buy one\n"));
	assert_non_null(strstr(text, "by getrusage: task-clock\n"));
	assert_non_null(strstr(text, "shared with other programs"));
	assert_non_null(strstr(text, "4.00")); /* instructions per cycle */
	free(text);
	assert_int_equal(
		mr_hardware_text(textf("%s/t.mrt", top), true, &text, &err), 0);
	assert_non_null(strstr(text, "\"ipc\": 4"));
	free(text);
}

static void test_intervals_hold_what_they_should(void **state)
{
	double low, high;

	(void)state;
	mr_interval(50, 100, &low, &high);
	assert_true(low > 0.40 && low < 0.41 && high > 0.59 && high < 0.60);
	mr_interval(0, 10, &low, &high);
	assert_true(low == 0 && high > 0.27 && high < 0.28);
	mr_interval(0, 0, &low, &high);
	assert_true(low == 0 && high == 1);
}

static void test_traces_without_hardware_say_nothing(void **state)
{
	struct mr_err err;
	char *text;

	(void)state;
	begin_file();
	put("empty.mrt", file.text, file.len);
	assert_int_equal(mr_hardware_text(textf("%s/empty.mrt", top), false,
					  &text, &err),
			 0);
	assert_string_equal(text, "");
	free(text);
	put("none.mrt", "no trace", 8);
	assert_int_equal(
		mr_hardware_text(textf("%s/none.mrt", top), false, &text, &err),
		MR_EDATA);
	assert_non_null(strstr(err.text, "none.mrt"));
}

/* Each bit of the chunks' contents turned over in turn: nothing breaks. */
static void test_hostile_traces_do_no_harm(void **state)
{
	static const char *const kinds[] = { "MAPS", "SMPL", "CNTR", "SPAN",
					     "META", "THRD", "NAME" };
	struct mr_str good;
	struct mr_err err;

	(void)state;
	write_trace();
	good = file;
	file = (struct mr_str){ 0 };
	for (size_t k = 0; k < MR_COUNT(kinds); k++) {
		for (int turn = 0; turn < 60; turn++) {
			uint64_t seed = k * 1000 + (uint64_t)turn;
			struct mr_mrt m;
			struct mr_mrt_chunk c;

			put("t.mrt", good.text, good.len);
			assert_int_equal(
				mr_mrt_open(&m, textf("%s/t.mrt", top), &err),
				0);
			begin_file();
			while (mr_mrt_next(&m, &c)) {
				uint8_t copy[4096];
				char kind[4];
				size_t n = c.size;

				memcpy(copy, c.data, n);
				memcpy(kind, c.data - MR_MRT_CHUNK + 4, 4);
				if (memcmp(kind, kinds[k], 4) == 0) {
					n -= draw(&seed) % 3 ? 0 :
							       draw(&seed) % n;
					for (int b = 0; b < 4 && n; b++)
						copy[draw(&seed) % n] =
							(uint8_t)draw(&seed);
				}
				chunk(kind, c.thread, copy, n);
			}
			mr_mrt_close(&m);
			put("bad.mrt", file.text, file.len);
			if (!mr_attribute(&at, textf("%s/bad.mrt", top), false,
					  &err)) {
				free(mr_folded_text(&at));
				mr_attribution_fini(&at);
			}
		}
	}
	mr_str_fini(&good);
	mr_str_fini(&file);
}

/* ---- another process ---- */

__attribute__((noinline)) uint64_t spins_in_a_child(uint64_t x);
uint64_t spins_in_a_child(uint64_t x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static void spin(double seconds)
{
	volatile uint64_t x = 1;
	clock_t until = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);

	while (clock() < until)
		x = spins_in_a_child(x);
}

/* Waits for a word, then works, and so does a child of its own. */
static pid_t start_child(int *go)
{
	int fds[2];
	char word;
	pid_t child, grandchild;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child) {
		close(fds[0]);
		*go = fds[1];
		return child;
	}
	close(fds[1]);
	if (read(fds[0], &word, 1) != 1)
		_exit(1);
	grandchild = fork();
	spin(0.2);
	if (grandchild > 0)
		waitpid(grandchild, NULL, 0);
	_exit(0);
}

static void test_another_process_is_sampled_with_its_children(void **state)
{
	struct mr_mrt_header h;
	struct mr_clock clock_;
	struct mr_recorder *r;
	struct mr_sampler *s;
	struct mr_recorded done;
	struct mr_err err;
	char *folded;
	int go, status;
	pid_t child = start_child(&go);

	(void)state;
	mr_clock_init(&clock_);
	mr_mrt_now(&h);
	assert_int_equal(mr_recorder_new(&r, textf("%s/f.mrt", top), &h,
					 &clock_, 1, &err),
			 0);
	assert_int_equal(mr_sampler_open(&s, child, 2000, r, &err), 0);
	assert_int_equal(write(go, "x", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(go);
	mr_recorder_close(r, NULL, NULL, &done);
	mr_sampler_free(s);
	assert_int_equal(mr_attribute(&at, textf("%s/f.mrt", top), true, &err),
			 0);
	if (strcmp(at.source, "unavailable") == 0) {
		mr_attribution_fini(&at);
		skip(); /* perf_event_open is not allowed here */
	}
	/* two processes, 0.2 s each: 800 samples, less what the machine
	 * throttles */
	assert_true(at.samples > 200);
	folded = mr_folded_text(&at);
	if (strcmp(mr_elf_unknown(), "unknown") == 0)
		assert_non_null(strstr(folded, "spins_in_a_child"));
	free(folded);
	mr_attribution_fini(&at);
}

static void test_process_that_is_gone_is_an_error(void **state)
{
	struct mr_mrt_header h;
	struct mr_clock clock_;
	struct mr_recorder *r;
	struct mr_sampler *s;
	struct mr_recorded done;
	struct mr_err err;
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	mr_clock_init(&clock_);
	mr_mrt_now(&h);
	assert_int_equal(mr_recorder_new(&r, textf("%s/f.mrt", top), &h,
					 &clock_, 1, &err),
			 0);
	assert_int_not_equal(mr_sampler_open(&s, child, 100, r, &err), 0);
	assert_null(s);
	mr_recorder_close(r, NULL, NULL, &done);
}

/* ---- names ---- */

__attribute__((noinline)) int named_by_its_symbol(int x);
int named_by_its_symbol(int x)
{
	return x * 3;
}

/* The offset in the file of a function of this program. */
static uint64_t offset_of(const void *function)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long long from, to, offset = 0, found = 0;
	uint64_t at_ = (uint64_t)(uintptr_t)function;
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx-%llx %*s %llx", &from, &to, &offset) ==
			    3 &&
		    at_ >= from && at_ < to)
			found = at_ - from + offset;
	if (f)
		fclose(f);
	return found;
}

static void need_libdw(void)
{
	if (strcmp(mr_elf_unknown(), "unknown") != 0)
		skip();
}

static void test_functions_of_this_program_have_names(void **state)
{
	struct mr_elf *e;
	const char *name;
	uint64_t offset =
		offset_of((const void *)(uintptr_t)named_by_its_symbol);

	(void)state;
	need_libdw();
	e = mr_elf_open("/proc/self/exe");
	assert_non_null(e);
	name = mr_elf_function(e, offset + 1);
	assert_non_null(name);
	assert_string_equal(name, "named_by_its_symbol");
	assert_null(mr_elf_function(e, UINT64_MAX));
	mr_elf_close(e);
}

static void test_stripped_program_has_names_no_more(void **state)
{
	struct mr_elf *e;
	uint64_t offset =
		offset_of((const void *)(uintptr_t)named_by_its_symbol);
	const char *name;

	(void)state;
	need_libdw();
	if (system(textf("strip -o %s/bare $(readlink -f /proc/%d/exe) "
			 "2>/dev/null",
			 top, (int)getpid())) != 0)
		skip();
	e = mr_elf_open(textf("%s/bare", top));
	assert_non_null(e);
	name = mr_elf_function(e, offset + 1);
	assert_true(!name || strcmp(name, "named_by_its_symbol") != 0);
	mr_elf_close(e);
}

static void test_what_is_no_program_is_refused(void **state)
{
	(void)state;
	put("text", "hello", 5);
	assert_null(mr_elf_open(textf("%s/text", top)));
	assert_null(mr_elf_open(textf("%s/nothing", top)));
	assert_null(mr_elf_open(top));
	assert_int_equal(mkfifo(textf("%s/pipe", top), 0600), 0);
	assert_null(mr_elf_open(textf("%s/pipe", top)));
}

static void test_forked_processes_have_their_parents_maps(void **state)
{
	struct mr_mrt_header h = { 0 };
	struct mr_symbols *s;
	struct mr_err err;
	uint32_t f;

	(void)state;
	assert_int_equal(mr_symbols_new(&s, &h, false, &err), 0);
#define MAPS(text) \
	mr_symbols_maps(s, (const uint8_t *)(text), sizeof(text) - 1, &err)
	assert_int_equal(MAPS("\1\0\0\0"
			      "1000-2000 r-xp 0 0:0 0 /a.so\n"),
			 0);
	assert_int_equal(MAPS("\2\0\0\0"
			      "fork 1\n"),
			 0);
	assert_int_equal(MAPS("\2\0\0\0"
			      "3000-4000 r-xp 0 0:0 0 /b.so\n"),
			 0);
	assert_int_equal(MAPS("\1\0\0\0"
			      "5000-6000 r-xp 0 0:0 0 /c.so\n"),
			 0);
	/* a loop of parents has an end */
	assert_int_equal(MAPS("\3\0\0\0"
			      "fork 3\n"),
			 0);
	assert_int_equal(mr_symbols_find(s, 2, 0x1000, false, &f, &err), 0);
	assert_string_equal(mr_symbols_name(s, f),
			    textf("[%s in a.so]", mr_elf_unknown()));
	assert_int_equal(mr_symbols_find(s, 2, 0x3000, false, &f, &err), 0);
	assert_string_equal(mr_symbols_name(s, f),
			    textf("[%s in b.so]", mr_elf_unknown()));
	assert_int_equal(mr_symbols_find(s, 1, 0x3000, false, &f, &err), 0);
	assert_int_equal(f, MR_NO_FUNCTION);
	/* mapped after the fork */
	assert_int_equal(mr_symbols_find(s, 2, 0x5000, false, &f, &err), 0);
	assert_int_equal(f, MR_NO_FUNCTION);
	assert_int_equal(mr_symbols_find(s, 3, 0x5000, false, &f, &err), 0);
	assert_int_equal(f, MR_NO_FUNCTION);
	mr_symbols_free(s);
}

static void test_only_memory_that_samples_lie_in_is_kept(void **state)
{
	static const char maps[] = "PIDX1000-2000 r-xp a.so\n"
				   "fork 7\n"
				   "3000-4000 r-xp b.so\n"
				   "5000-6000 r-xp c.so";
	uint8_t sample[24 + 16] = { 0 }, to[sizeof(maps)];
	struct mr_touched t = { 0 };
	size_t n;

	(void)state;
	sample[16] = 2;
	mr_le64_put(sample + 24, 0x5fff);
	mr_le64_put(sample + 32, 0x2000); /* after the end of the first */
	mr_touched_add(&t, sample, sizeof(sample));
	mr_touched_add(&t, sample, 30); /* cut off: without an address */
	assert_int_equal(t.n, 2);
	mr_touched_ready(&t);
	n = mr_touched_maps(&t, (const uint8_t *)maps, sizeof(maps) - 1, to);
	assert_int_equal(n, strlen("PIDXfork 7\n5000-6000 r-xp c.so"));
	assert_memory_equal(to, "PIDXfork 7\n5000-6000 r-xp c.so", n);
	assert_int_equal(mr_touched_maps(&t, (const uint8_t *)maps, 3, to), 3);
	mr_touched_fini(&t);
}

static void test_what_samples_lie_in_grows_with_the_code_alone(void **state)
{
	enum { ADDRESSES = 0xffff, PAGES = 300 };
	static const char maps[] = "PIDX1000-2000 r-xp a.so\n";
	static uint8_t sample[24 + 8 * ADDRESSES], to[sizeof(maps)];
	const size_t all = sizeof(maps) - 1;
	struct mr_touched t = { 0 };

	(void)state;
	sample[16] = sample[17] = 0xff;
	for (int turn = 0; turn < 20; turn++) {
		for (uint64_t i = 0; i < ADDRESSES; i++)
			mr_le64_put(sample + 24 + 8 * i,
				    i % PAGES << 12 | (i & 0xfff));
		mr_touched_add(&t, sample, sizeof(sample));
	}
	assert_int_equal(t.n, PAGES);
	assert_true(t.cap <= 4 * PAGES);
	/* more than any program has: whatever there is may be touched */
	for (uint64_t turn = 1; turn < 20; turn++) {
		for (uint64_t i = 0; i < ADDRESSES; i++)
			mr_le64_put(sample + 24 + 8 * i, (turn << 16 | i)
								 << 12);
		mr_touched_add(&t, sample, sizeof(sample));
	}
	mr_touched_ready(&t);
	assert_int_equal(mr_touched_maps(&t, (const uint8_t *)maps, all, to),
			 all);
	assert_memory_equal(to, maps, all);
	mr_touched_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_counters_of_48_bits_are_read_with_their_sign),
		cmocka_unit_test(
			test_counter_that_is_not_there_is_left_to_the_kernel),
		cmocka_unit_test(
			test_reading_is_repeated_while_the_page_changes),
		cmocka_unit_test(test_time_goes_on_between_the_kernels_updates),
		cmocka_unit_test(test_lists_of_events_are_checked),
		cmocka_unit_test(test_samples_go_to_the_innermost_span),
		cmocka_unit_test(
			test_samples_in_a_turn_are_the_steps_whose_turn_it_was),
		cmocka_unit_test(
			test_names_of_cxx_are_said_as_they_are_written),
		cmocka_unit_test(test_means_of_counted_calls_have_an_interval),
		cmocka_unit_test(
			test_the_last_counters_of_each_thread_are_added),
		cmocka_unit_test(test_intervals_hold_what_they_should),
		cmocka_unit_test(test_traces_without_hardware_say_nothing),
		cmocka_unit_test(test_hostile_traces_do_no_harm),
		cmocka_unit_test(
			test_another_process_is_sampled_with_its_children),
		cmocka_unit_test(test_process_that_is_gone_is_an_error),
		cmocka_unit_test(test_functions_of_this_program_have_names),
		cmocka_unit_test(test_stripped_program_has_names_no_more),
		cmocka_unit_test(test_what_is_no_program_is_refused),
		cmocka_unit_test(test_forked_processes_have_their_parents_maps),
		cmocka_unit_test(test_only_memory_that_samples_lie_in_is_kept),
		cmocka_unit_test(
			test_what_samples_lie_in_grows_with_the_code_alone),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
