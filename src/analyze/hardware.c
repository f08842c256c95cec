/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/hardware.h"

#include <math.h>
#include <stdio.h>

#include "core/json.h"
#include "core/mem.h"

enum {
	COLUMNS = 5,	/* of a table */
	FUNCTIONS = 30, /* that are printed */
	OUTSIDE = 255,
};

/* ---- numbers ---- */

/* Groups that took turns were each there for a part of the time only, which
 * the calls tell; others that wanted the same counters, these. */
static double counted(const struct mr_counted *c)
{
	double v = (double)c->count;

	if (c->enabled > c->running && c->running)
		v *= (double)c->enabled / (double)c->running;
	return v;
}

double mr_counted_per_call(const struct mr_counted *c)
{
	if (!c->calls || (c->enabled && !c->running))
		return NAN;
	return counted(c) / (double)c->calls;
}

/* Student's t: so many deviations hold 95 %, by degrees of freedom. */
static double t_95(double degrees)
{
	static const double few[] = { 12.706, 4.303, 3.182, 2.776 };
	double z = 1.959964, z3 = z * z * z;

	if (degrees <= 4)
		return few[(int)degrees - 1];
	return z + (z3 + z) / (4 * degrees) +
	       (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

double mr_counted_half(const struct mr_counted *c, uint64_t of)
{
	double n = (double)c->calls, sum = (double)c->count, variance, half;

	if (c->calls < 2 || (c->enabled && !c->running))
		return of && c->calls >= of ? 0 : NAN;
	variance = (c->squares - sum * sum / n) / (n - 1);
	if (!(variance > 0))
		variance = 0; /* all the same, but for rounding */
	half = t_95(n - 1) * sqrt(variance / n);
	if (of) /* what was counted is known */
		half *= sqrt(c->calls < of ? 1 - n / (double)of : 0);
	return sum > 0 ? half * counted(c) / sum : half;
}

/* Of how many calls those that were counted are a part; 0: not known. */
static uint64_t calls_of(const struct mr_attribution *a, int step)
{
	return a->spans_lost || a->cut ? 0 : a->calls[step];
}

static const struct mr_counted_event *
event_named(const struct mr_attribution *a, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < a->events; i++) {
		const struct mr_counted_event *e = &a->event[i];

		/* of several ranks, some may lack it */
		if (strncmp(e->name, name, n) == 0 &&
		    (!e->name[n] || e->name[n] == ':') &&
		    strcmp(e->source, "unavailable") != 0)
			return e;
	}
	return NULL;
}

static const struct ratio {
	const char *name, *above, *below, *title;
} ratios[] = {
	{ "ipc", "instructions", "cycles", "IPC" },
	{ "cache_miss_rate", "cache-misses", "cache-references", "cache miss" },
	{ "branch_miss_rate", "branch-misses", "branches", "branch miss" },
	{ "frontend_stalled", "stalled-cycles-frontend", "cycles",
	  "front stall" },
	{ "backend_stalled", "stalled-cycles-backend", "cycles", "back stall" },
	{ "cpu_share", "task-clock", NULL, "on CPU" },
};

/* NAN when one of both is not there. The share of a step's time that it had a
 * CPU is of the calls that were counted. */
static double ratio_of(const struct mr_attribution *a, const struct ratio *r,
		       int step)
{
	const struct mr_counted_event *x = event_named(a, r->above), *y;
	double above, below;

	if (!x)
		return NAN;
	above = mr_counted_per_call(&x->step[step]);
	if (!r->below) {
		const struct mr_counted *c = &x->step[step];

		below = c->calls ? (double)c->wall / (double)c->calls : 0;
	} else {
		y = event_named(a, r->below);
		below = y ? mr_counted_per_call(&y->step[step]) : NAN;
	}
	return below > 0 ? above / below : NAN;
}

static bool has_step(const struct mr_attribution *a, int step)
{
	for (int i = 0; i < a->events; i++)
		if (a->event[i].step[step].calls)
			return true;
	return false;
}

static bool has_event(const struct mr_counted_event *e)
{
	for (int k = 0; k < OUTSIDE; k++)
		if (e->step[k].calls)
			return true;
	return false;
}

static const char *step_name(const struct mr_attribution *a, int k, char *buf,
			     size_t cap)
{
	if (a->step_name[k][0])
		return a->step_name[k];
	snprintf(buf, cap, "step %d", k);
	return buf;
}

/* 1.23 M, 45.6 us, 0.012. */
static void number(char *buf, size_t cap, double v, bool ns)
{
	static const char *const si[] = { "", " k", " M", " G", " T" };
	static const char *const time[] = { " ns", " us", " ms", " s", " ks" };
	int i = 0;

	if (isnan(v)) {
		snprintf(buf, cap, "-");
		return;
	}
	for (; fabs(v) >= 999.5 && i < 4; i++)
		v /= 1000;
	snprintf(buf, cap, "%.3g%s", v, ns ? time[i] : si[i]);
}

/* ---- text: counters ---- */

static void head_row(struct mr_str *out, const char *first)
{
	mr_str_addf(out, "  %-22.22s", first);
}

static void event_title(const struct mr_counted_event *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%.11s", e->name);
	if (strncmp(e->name, "stalled-cycles-", 15) == 0)
		snprintf(buf, cap, "stall-%.5s", e->name + 15);
	else if (strcmp(e->name, "cache-references") == 0)
		snprintf(buf, cap, "cache-refs");
	else if (strcmp(e->name, "context-switches") == 0)
		snprintf(buf, cap, "switches");
	else if (strcmp(e->name, "cpu-migrations") == 0)
		snprintf(buf, cap, "migrations");
	else if (strcmp(e->name, "branch-misses") == 0)
		snprintf(buf, cap, "branch-miss");
	else if (strcmp(e->name, "cache-misses") == 0)
		snprintf(buf, cap, "cache-miss");
	else if (strcmp(e->name, "minor-faults") == 0)
		snprintf(buf, cap, "minor-flt");
	else if (strcmp(e->name, "major-faults") == 0)
		snprintf(buf, cap, "major-flt");
}

/* The mean, and half of its interval as a share of it where it is not
 * exact. */
static void cell(const struct mr_attribution *a, struct mr_str *out,
		 const struct mr_counted_event *e, int step)
{
	const struct mr_counted *c = &e->step[step];
	double mean = mr_counted_per_call(c),
	       half = mr_counted_half(c, calls_of(a, step));
	double share = mean > 0 ? 100 * half / mean : 0;
	char buf[32], more[32] = "";

	number(buf, sizeof(buf), mean, strcmp(e->unit, "ns") == 0);
	if (share >= 1000)
		snprintf(more, sizeof(more), "+->999%%");
	else if (share > 0)
		snprintf(more, sizeof(more), "+-%.*f%%", share < 9.95, share);
	mr_str_addf(out, " %9s %-6s", buf, more);
}

/* Some of the events: their names, sources, and one row per step. */
static void counter_table(const struct mr_attribution *a, struct mr_str *out,
			  const int *event, int n)
{
	char buf[32], name[64];

	head_row(out, "per call");
	for (int i = 0; i < n; i++) {
		event_title(&a->event[event[i]], buf, sizeof(buf));
		mr_str_addf(out, " %11s     ", buf);
	}
	mr_str_add(out, "\n");
	head_row(out, "");
	for (int i = 0; i < n; i++)
		mr_str_addf(out, " %11s     ", a->event[event[i]].source);
	mr_str_add(out, "\n");
	for (int k = 0; k < OUTSIDE; k++) {
		if (!has_step(a, k))
			continue;
		head_row(out, step_name(a, k, name, sizeof(name)));
		for (int i = 0; i < n; i++)
			cell(a, out, &a->event[event[i]], k);
		mr_str_add(out, "\n");
	}
}

static void ratio_table(const struct mr_attribution *a, struct mr_str *out)
{
	char name[64];
	bool any[MR_COUNT(ratios)] = { 0 }, some = false;

	for (size_t r = 0; r < MR_COUNT(ratios); r++)
		for (int k = 0; k < OUTSIDE; k++)
			any[r] |= !isnan(ratio_of(a, &ratios[r], k));
	for (size_t r = 0; r < MR_COUNT(ratios); r++)
		some |= any[r];
	if (!some)
		return;
	head_row(out, "");
	for (size_t r = 0; r < MR_COUNT(ratios); r++)
		if (any[r])
			mr_str_addf(out, " %11s", ratios[r].title);
	mr_str_add(out, "\n");
	for (int k = 0; k < OUTSIDE; k++) {
		if (!has_step(a, k))
			continue;
		head_row(out, step_name(a, k, name, sizeof(name)));
		for (size_t r = 0; r < MR_COUNT(ratios); r++) {
			double v = ratio_of(a, &ratios[r], k);

			if (!any[r])
				continue;
			if (isnan(v))
				mr_str_addf(out, " %11s", "-");
			else if (r == 0)
				mr_str_addf(out, " %11.2f", v);
			else
				mr_str_addf(out, " %9.1f %%", 100 * v);
		}
		mr_str_add(out, "\n");
	}
}

static void counted_line(const struct mr_attribution *a, struct mr_str *out)
{
	uint64_t calls = 0, of = 0;
	bool shared = false;

	for (int k = 0; k < OUTSIDE; k++) {
		uint64_t most = 0;

		for (int i = 0; i < a->events; i++) {
			const struct mr_counted *c = &a->event[i].step[k];

			most = c->calls > most ? c->calls : most;
			shared |= c->running < c->enabled - c->enabled / 100;
		}
		if (most)
			of += a->calls[k];
		calls += most;
	}
	mr_str_addf(out, "hardware: counted %llu of %llu calls in %d threads",
		    (unsigned long long)calls, (unsigned long long)of,
		    a->counted_threads);
	mr_str_add(out, calls < of ? "; +-: half of a mean's 95 % interval\n" :
				     "\n");
	if (a->spans_lost)
		mr_str_addf(out,
			    "  %llu spans were lost: there were more "
			    "calls\n",
			    (unsigned long long)a->spans_lost);
	if (shared)
		mr_str_add(out, "  the counters were shared with other "
				"programs: counts are scaled by the time they "
				"were there\n");
}

/* Why something is not as it should be, and what would help, where there is
 * something to say. */
static void add_why(struct mr_str *out, const char *reason, const char *remedy)
{
	if (*reason)
		mr_str_addf(out, ": %s", reason);
	if (*reason && *remedy)
		mr_str_addf(out, "; try: %s", remedy);
	mr_str_add(out, "\n");
}

/* Events that could not be had: those with the same reason together. */
static void missing(const struct mr_attribution *a, struct mr_str *out)
{
	bool told[MR_COUNTED_EVENTS] = { 0 };

	for (int i = 0; i < a->events; i++) {
		const struct mr_counted_event *e = &a->event[i];
		bool gone = strcmp(e->source, "unavailable") == 0;

		if (told[i] || (!gone && !*e->via))
			continue;
		mr_str_addf(out,
			    "  %s: ", gone ? "unavailable" : "by getrusage");
		for (int k = i; k < a->events; k++) {
			const struct mr_counted_event *f = &a->event[k];

			if (strcmp(f->reason, e->reason) != 0 ||
			    strcmp(f->source, e->source) != 0 ||
			    strcmp(f->via, e->via) != 0)
				continue;
			mr_str_addf(out, "%s%s", k > i ? ", " : "", f->name);
			told[k] = true;
		}
		add_why(out, e->reason, e->remedy);
	}
}

static void run_delay(const struct mr_attribution *a, struct mr_str *out)
{
	const struct mr_counted_event *e = event_named(a, "run-delay");
	const struct mr_counted *c = e ? &e->step[OUTSIDE] : NULL;
	char buf[32];

	if (!c || !c->enabled)
		return;
	number(buf, sizeof(buf), (double)c->count, true);
	mr_str_addf(out,
		    "  run delay (%s): threads were ready to run and had no "
		    "CPU for %s, %.1f %% of their time\n",
		    e->source, buf,
		    100 * (double)c->count / (double)c->enabled);
}

static void print_counters(const struct mr_attribution *a, struct mr_str *out)
{
	int event[MR_COUNTED_EVENTS], n = 0;

	if (!a->events)
		return;
	for (int i = 0; i < a->events; i++)
		if (has_event(&a->event[i]))
			event[n++] = i;
	if (n)
		counted_line(a, out);
	else
		mr_str_add(out, "hardware: nothing was counted per step\n");
	if (*a->no_counting)
		mr_str_addf(out, "  some threads were not counted: %s\n",
			    a->no_counting);
	for (int i = 0; i < n; i += COLUMNS)
		counter_table(a, out, event + i,
			      n - i < COLUMNS ? n - i : COLUMNS);
	ratio_table(a, out);
	run_delay(a, out);
	missing(a, out);
}

/* ---- text: functions ---- */

static void print_functions(const struct mr_attribution *a, struct mr_str *out)
{
	if (!*a->source)
		return;
	if (!a->samples) {
		mr_str_add(out, "functions: no samples");
		add_why(out, a->reason, a->remedy);
		return;
	}
	mr_str_addf(out,
		    "functions: %llu samples by %s, %d a second (%s)%s, %llu "
		    "lost\n",
		    (unsigned long long)a->samples, a->sampled_by, a->hz,
		    a->source, a->user_only ? ", without the kernel" : "",
		    (unsigned long long)a->lost);
	mr_str_add(out, "    share   95 % interval   function, in step\n");
	for (size_t i = 0; i < a->cells && i < FUNCTIONS; i++) {
		const struct mr_cell *c = &a->cell[i];
		double low, high;

		mr_interval(c->samples, a->samples, &low, &high);
		mr_str_addf(out, "  %5.1f %%  %5.1f - %5.1f %%  %s, %s\n",
			    100 * (double)c->samples / (double)a->samples,
			    100 * low, 100 * high,
			    mr_symbols_name(a->symbols, c->function),
			    a->place[c->place].name);
	}
}

void mr_hardware_print(const struct mr_attribution *a, struct mr_str *out)
{
	print_counters(a, out);
	print_functions(a, out);
}

/* ---- JSON ---- */

static void json_count(const struct mr_attribution *a, struct mr_json *j,
		       const struct mr_counted_event *e, int k)
{
	const struct mr_counted *c = &e->step[k];
	double per = mr_counted_per_call(c),
	       half = mr_counted_half(c, calls_of(a, k));

	mr_json_open(j, e->name, '{');
	mr_json_uint(j, "calls", c->calls);
	mr_json_uint(j, "count", c->count);
	mr_json_real(j, "per_call", per, 8);
	if (k != OUTSIDE && !isnan(half))
		mr_json_real(j, "half_interval", half, 5);
	if (k != OUTSIDE && calls_of(a, k))
		mr_json_real(j, "total", per * (double)a->calls[k], 8);
	mr_json_uint(j, "enabled_ns", c->enabled);
	mr_json_uint(j, "running_ns", c->running);
	mr_json_uint(j, "wall_ns", c->wall);
	mr_json_close(j, '}');
}

static void json_step(const struct mr_attribution *a, struct mr_json *j, int k)
{
	char buf[32];

	mr_json_open(j, NULL, '{');
	mr_json_text(j, "step",
		     k == OUTSIDE ? "outside" :
				    step_name(a, k, buf, sizeof(buf)));
	if (k != OUTSIDE)
		mr_json_uint(j, "calls", a->calls[k]);
	mr_json_open(j, "events", '{');
	for (int i = 0; i < a->events; i++)
		if (a->event[i].step[k].calls)
			json_count(a, j, &a->event[i], k);
	mr_json_close(j, '}');
	for (size_t r = 0; r < MR_COUNT(ratios) && k != OUTSIDE; r++) {
		double v = ratio_of(a, &ratios[r], k);

		if (!isnan(v))
			mr_json_real(j, ratios[r].name, v, 5);
	}
	mr_json_close(j, '}');
}

static void json_events(const struct mr_attribution *a, struct mr_json *j)
{
	mr_json_open(j, "events", '[');
	for (int i = 0; i < a->events; i++) {
		const struct mr_counted_event *e = &a->event[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", e->name);
		mr_json_text(j, "source", e->source);
		mr_json_text(j, "unit", e->unit);
		if (e->user_only)
			mr_json_bool(j, "user_only", true);
		if (*e->via)
			mr_json_text(j, "via", e->via);
		if (*e->reason) {
			mr_json_text(j, "reason", e->reason);
			mr_json_text(j, "remedy", e->remedy);
		}
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void json_sampling(const struct mr_attribution *a, struct mr_json *j)
{
	mr_json_open(j, "sampling", '{');
	mr_json_text(j, "event", a->sampled_by);
	mr_json_text(j, "source", a->source);
	mr_json_int(j, "hz", a->hz);
	mr_json_uint(j, "samples", a->samples);
	mr_json_uint(j, "lost", a->lost);
	if (a->user_only)
		mr_json_bool(j, "user_only", true);
	if (*a->reason) {
		mr_json_text(j, "reason", a->reason);
		mr_json_text(j, "remedy", a->remedy);
	}
	mr_json_close(j, '}');
}

static void json_share(const struct mr_attribution *a, struct mr_json *j,
		       uint64_t samples)
{
	double low, high;

	mr_interval(samples, a->samples, &low, &high);
	mr_json_uint(j, "samples", samples);
	mr_json_real(j, "share", (double)samples / (double)a->samples, 6);
	mr_json_real(j, "low", low, 5);
	mr_json_real(j, "high", high, 5);
	mr_json_close(j, '}');
}

static void json_functions(const struct mr_attribution *a, struct mr_json *j)
{
	mr_json_open(j, "places", '[');
	for (size_t i = 0; i < a->places && a->samples; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_text(j, "place", a->place[i].name);
		json_share(a, j, a->place[i].samples);
	}
	mr_json_close(j, ']');
	mr_json_open(j, "functions", '[');
	for (size_t i = 0; i < a->cells && a->samples; i++) {
		const struct mr_cell *c = &a->cell[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "place", a->place[c->place].name);
		mr_json_text(j, "function",
			     mr_symbols_name(a->symbols, c->function));
		json_share(a, j, c->samples);
	}
	mr_json_close(j, ']');
}

void mr_hardware_json(const struct mr_attribution *a, struct mr_json *j)
{
	if (a->events) {
		json_events(a, j);
		mr_json_open(j, "counters", '[');
		for (int k = 0; k < MR_STEPS; k++)
			if (has_step(a, k))
				json_step(a, j, k);
		mr_json_close(j, ']');
	}
	if (*a->source) {
		json_sampling(a, j);
		json_functions(a, j);
	}
}

int mr_hardware_text(const char *file, bool json, char **text,
		     struct mr_err *err)
{
	struct mr_attribution *a = mr_alloc(1, sizeof(*a), err);
	struct mr_json j = { 0 };
	int e;

	if (!a)
		return MR_ENOMEM;
	e = mr_attribute(a, file, true, err);
	if (e) {
		free(a);
		return e;
	}
	if (json) {
		mr_json_open(&j, NULL, '{');
		mr_hardware_json(a, &j);
		mr_json_close(&j, '}');
	} else {
		mr_str_add(&j.out, "");
		mr_hardware_print(a, &j.out);
	}
	mr_attribution_fini(a);
	free(a);
	*text = mr_str_take(&j.out);
	return *text ? 0 : mr_err_nomem(err, j.out.cap);
}
