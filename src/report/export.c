/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as something else, by the ending of its name. */
#include "analyze/attribute.h"
#include "report/html.h"
#include "trace/sink/sinks.h"

#include <stdlib.h>
#include <strings.h>

typedef int (*write_fn)(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
			struct mr_err *err);

/* Functions, by the step that they ran in, if the trace has sampled them;
 * else the steps alone. */
static int write_folded(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
			struct mr_err *err)
{
	struct mr_attribution a;
	char *text;
	int e = mr_attribute(&a, m->path, true, err);

	if (e)
		return e;
	text = a.samples ? mr_folded_text(&a) : NULL;
	if (a.samples && !text)
		e = mr_err_set(err, MR_ENOMEM, "out of memory");
	else if (text)
		mr_out_text(o, text);
	else
		e = mr_folded_write(o, r, m, err);
	free(text);
	mr_attribution_fini(&a);
	return e;
}

static const struct {
	const char *ending;
	write_fn write;
} kinds[] = {
	{ ".json", mr_chrome_write },
	{ ".folded", write_folded },
	{ ".csv", mr_csv_write },
	{ ".html", mr_html_write },
};

static write_fn writer_of(const char *to)
{
	const char *name = strrchr(to, '/');
	const char *dot = strrchr(name ? name : to, '.');

	for (size_t i = 0; dot && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcasecmp(dot, kinds[i].ending))
			return kinds[i].write;
	return NULL;
}

/* What is missing, which is no failure. */
static void tell(const char *file, const struct mr_mrt *m,
		 const struct mr_roll *r, struct mr_err *err)
{
	if (r->cut)
		mr_err_set(err, 0,
			   "%s: at byte %llu of %zu %s; what is before was "
			   "exported",
			   file, (unsigned long long)r->read, m->size, r->cut);
	else if (!r->done)
		mr_err_set(err, 0, "%s: %s; what there is was exported", file,
			   mr_roll_cut(r));
	else if (r->left_out)
		mr_err_set(err, 0,
			   "%s: %llu spans of threads with numbers over %d "
			   "were left out",
			   file, (unsigned long long)r->left_out,
			   MR_ROLL_THREADS);
}

int mr_trace_export_check(const char *to, struct mr_err *err)
{
	if (writer_of(to))
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "%s: a trace becomes what the name ends in: .json, "
			  ".folded, .csv or .html; .mrt is the recording "
			  "itself",
			  to);
}

int mr_trace_export(const char *file, const char *to, struct mr_err *err)
{
	write_fn write = writer_of(to);
	struct mr_roll r;
	struct mr_mrt m;
	struct mr_out o;
	int e;

	mr_err_set(err, 0, "%s", "");
	if (!write)
		return mr_trace_export_check(to, err);
	e = mr_mrt_open(&m, file, err);
	if (e)
		return e;
	e = mr_roll_read(&r, &m, err);
	if (e)
		goto close;
	e = mr_out_open(&o, to, err);
	if (e)
		goto fini;
	e = write(&o, &r, &m, err);
	if (e)
		mr_out_drop(&o);
	else
		e = mr_out_close(&o, err);
	if (!e)
		tell(file, &m, &r, err);
fini:
	mr_roll_fini(&r);
close:
	mr_mrt_close(&m);
	return e;
}
