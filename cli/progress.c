/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core/clock.h"

static double now(void)
{
	return (double)mr_clock_ns() / 1e9;
}

void cli_progress_start(struct cli_progress *p, const char *label, double total)
{
	*p = (struct cli_progress){ .label = label,
				    .total = total,
				    .start = now() };
	p->on = isatty(STDERR_FILENO) || getenv("MILLRACE_PROGRESS");
}

static void time_left(char *buf, size_t cap, double s)
{
	if (s < 100)
		snprintf(buf, cap, "%.0f s left", s);
	else if (s < 6000)
		snprintf(buf, cap, "%.0f min left", s / 60);
	else
		snprintf(buf, cap, "%.1f h left", s / 3600);
}

void cli_progress_show(struct cli_progress *p, double done)
{
	double t, rate;
	char a[32], b[32], left[48] = "";

	if (!p->on)
		return;
	t = now();
	if (t - p->last < 0.1)
		return;
	p->last = t;
	rate = t > p->start ? done / (t - p->start) : 0;
	mr_str_count(a, (unsigned long long)done);
	if (p->total > 0) {
		if (rate > 0)
			time_left(left, sizeof(left), (p->total - done) / rate);
		fprintf(stderr, "\r%s  %s of %s  %.0f %%  %.0f/s  %s\033[K",
			p->label, a,
			mr_str_count(b, (unsigned long long)p->total),
			100 * done / p->total, rate, left);
	} else {
		fprintf(stderr, "\r%s  %s  %.0f/s\033[K", p->label, a, rate);
	}
	fflush(stderr);
	p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
}
