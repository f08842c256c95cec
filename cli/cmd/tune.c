/* SPDX-License-Identifier: Apache-2.0 */
/* tune: which steps to run once, how to store them, what to cache. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/file.h"
#include "storing.h"

enum { CHECKED = 256 }; /* samples whose batches are compared */

struct tune {
	struct mr_options loader;
	const char *weights, *max_memory, *accelerator, *scratch, *apply,
		*write, *html, *out;
	int64_t epochs, repeats;
	uint64_t max_storage;
	double max_prepare, price_hour, price_gb, seconds, precision;
	bool exhaustive, keep_order, json;
};

#define T struct tune

static const struct mr_param options[] = {
	MR_INT(T, epochs, "30", 1, 1e9,
	       "of the job: the least time of all of them, with the "
	       "preparation, is the best"),
	MR_TEXT(T, weights, "",
		"instead: P,S,T, how much preparation's time, storage and "
		"throughput count"),
	MR_SIZE(T, max_storage, "0", 0, 1e18,
		"bytes that may be stored; 0: any"),
	MR_TIME(T, max_prepare, "0", 0, 1e9,
		"that the preparation may take; 0: any"),
	MR_TEXT(T, max_memory, "",
		"for caches: a size (8G), or a share of the data set (35%); "
		"empty: half of what this process may use"),
	MR_REAL(T, price_hour, "0", 0, 1e9,
		"of an hour of the job; with prices, the cheapest is the "
		"best"),
	MR_REAL(T, price_gb, "0", 0, 1e9,
		"of a gigabyte stored for as long as the job runs"),
	MR_TEXT(T, accelerator, "",
		"samples per second that it takes, beyond which speed is of "
		"no use, or one that `diagnose` knows; empty: any"),
	MR_BOOL(T, keep_order, "no",
		"leave block order out, which reads neighbours by one "
		"request"),
	MR_TEXT(T, apply, "",
		"make the best strategy's data set in this directory, and "
		"check that its batches are the same"),
	MR_TEXT(T, write, "", "write the new pipeline to this file, for @FILE"),
	MR_BOOL(T, exhaustive, "no", "measure every strategy; takes long"),
	MR_INT(T, repeats, "5", 1, 100,
	       "how often --exhaustive measures each: for intervals"),
	MR_TIME(T, seconds, "0", 0, 600, "to take, about; 0: 50 s"),
	MR_REAL(T, precision, "0.05", 0.005, 0.5,
		"of means over the samples that are looked at: more of them "
		"for less"),
	MR_TEXT(T, scratch, "",
		"a folder on the storage that a set would be on, for sets of "
		"samples; empty: that of --apply, or $TMPDIR"),
	MR_TEXT(T, out, "", "write the JSON object to this file"),
	MR_TEXT(T, html, "",
		"write it as a page to this file, too, with charts"),
	MR_BOOL(T, json, "no", "print one JSON object instead of text"),
	MR_PARAM_END
};

static bool tell(void *data, const char *what, double done)
{
	struct cli_progress *p = data;

	p->label = what;
	cli_progress_show(p, 100 * done);
	return cli_stopped();
}

/* The folder that `dir` is in, where there is a `dir`. */
static const char *parent(const char *dir, char *buf, size_t cap)
{
	char *slash;

	snprintf(buf, cap, "%s", dir);
	while (*buf && buf[strlen(buf) - 1] == '/')
		buf[strlen(buf) - 1] = 0;
	slash = strrchr(buf, '/');
	if (!*dir)
		return "";
	if (!slash)
		return ".";
	slash[slash == buf] = 0;
	return buf;
}

/* ---- the same batches ---- */

static int digest(const char *pipeline, struct mr_options *opt, uint64_t *sum,
		  uint64_t *samples, struct mr_err *err)
{
	struct mr_loader *l;
	struct mr_batch *b;
	int e = mr_loader_open_with(&l, pipeline, opt, err);

	*sum = *samples = 0;
	while (!e && !(e = mr_loader_next(l, &b, err))) {
		*sum = mr_batch_digest(b, *sum);
		*samples += mr_batch_count(b);
		mr_batch_release(b);
		if (cli_stopped())
			e = mr_err_set(err, MR_ESTATE, "stopped");
	}
	if (l)
		mr_loader_close(l);
	return e == MR_END ? 0 : e;
}

/* The old and the new pipeline over the first samples, in the new order. */
static int check(const char *old, const struct mr_tuned *t, FILE *to)
{
	struct mr_options opt = t->loader;
	uint64_t a, b, n;
	struct mr_err err;
	char count[32];
	int e;

	opt.storage = "";
	opt.epochs = 1;
	opt.samples = CHECKED;
	opt.cold = false;
	opt.trace = NULL;
	e = digest(old, &opt, &a, &n, &err);
	if (!e)
		e = digest(t->pipeline, &opt, &b, &n, &err);
	if (e)
		return cli_fail(&err);
	if (a != b) {
		mr_err_set(&err, MR_EDATA,
			   "the new pipeline gives other batches than the old "
			   "one: digests %016llx and %016llx; do not use it",
			   (unsigned long long)b, (unsigned long long)a);
		return cli_fail(&err);
	}
	fprintf(to,
		"checked: the batches of %s samples are the same as the old "
		"pipeline's, byte for byte\n",
		mr_str_count(count, n));
	return EXIT_DONE;
}

static int apply(const char *pipeline, struct mr_tuned *t, FILE *to)
{
	struct mr_store_report r;
	int code = EXIT_DONE;
	char n[32], size[32];

	if (!t->found)
		return EXIT_FAILED;
	if (t->stores) {
		code = cli_store_quietly("tune", pipeline, &t->store, &r);
		if (code == EXIT_DONE)
			fprintf(to, "%s: %s samples, %s, made in %.1f s\n",
				t->store.out, mr_str_count(n, r.samples),
				mr_str_size(size, (double)r.bytes), r.seconds);
	} else {
		fprintf(to, "nothing is to be stored\n");
	}
	if (code == EXIT_DONE)
		code = check(pipeline, t, to);
	if (code == EXIT_DONE)
		fprintf(to, "use it: %s\n", t->run);
	return code;
}

/* ---- files ---- */

static int save(const char *path, const char *head, const char *text)
{
	struct mr_str s = { 0 };
	struct mr_err err;
	int e;

	if (!*path)
		return EXIT_DONE;
	mr_str_addf(&s, "%s%s\n", head, text);
	e = s.failed ? mr_err_set(&err, MR_ENOMEM, "out of memory") :
		       mr_file_write(path, s.text, s.len, &err);
	mr_str_fini(&s);
	return e ? cli_fail(&err) : EXIT_DONE;
}

/* A command may have line ends in it, and a comment ends at the first. */
static void add_comment(struct mr_str *out, const char *what, const char *text)
{
	mr_str_addf(out, "# %s: ", what);
	for (; *text; text++) {
		mr_str_addn(out, text, 1);
		if (*text == '\n')
			mr_str_add(out, "#   ");
	}
	mr_str_add(out, "\n");
}

/* For @FILE; its options are not a pipeline's, and are said there, and how the
 * set is made that it reads. */
static int write_pipeline(const char *path, const struct mr_tuned *t)
{
	struct mr_str head = { 0 };
	int code;

	mr_str_add(&head, "# made by millrace tune\n");
	if (t->stores)
		add_comment(&head, "reads what is made by", t->prepare);
	add_comment(&head, "run with", t->options);
	code = head.failed ? EXIT_FAILED : save(path, head.text, t->pipeline);
	mr_str_fini(&head);
	return code;
}

static int finish(const char *pipeline, const struct tune *o,
		  struct mr_tuned *t)
{
	FILE *to = o->json ? stderr : stdout;
	struct mr_err err;
	int code;

	if (o->json)
		puts(t->json);
	else
		fputs(t->text, stdout);
	fflush(stdout);
	code = save(o->out, "", t->json);
	if (code == EXIT_DONE && *o->html) {
		if (mr_tuning_page(t->json, "the tuning", o->html, &err))
			code = cli_fail(&err);
		else
			fprintf(stderr, "millrace: %s: written\n", o->html);
	}
	if (code == EXIT_DONE && *o->apply)
		code = apply(pipeline, t, to);
	if (code == EXIT_DONE && *o->write && t->found)
		code = write_pipeline(o->write, t);
	return code == EXIT_DONE && !t->found ? EXIT_FAILED : code;
}

static int run(const struct cli_args *args, void *options_)
{
	const struct tune *o = options_;
	struct mr_tune_options t;
	struct cli_progress progress;
	struct mr_tuned tuned;
	struct mr_err err;
	char buf[4096];
	int e, code = 0;

	if (args->argc != 1)
		return cli_usage("tune takes one pipeline; quote it: millrace "
				 "tune 'files DIR | ... | batch 64'");
	if (!o->exhaustive)
		code = cli_takes_all_but(args, "tune without --exhaustive",
					 "repeats");
	if (code)
		return code;
	mr_tune_options_init(&t);
	t.loader = o->loader;
	t.weights = o->weights;
	t.epochs = o->epochs;
	t.max_storage = o->max_storage;
	t.max_prepare = o->max_prepare;
	t.max_memory = o->max_memory;
	t.price_hour = o->price_hour;
	t.price_gb = o->price_gb;
	t.accelerator = o->accelerator;
	t.keep_order = o->keep_order;
	t.precision = o->precision;
	t.seconds = o->seconds;
	t.exhaustive = o->exhaustive;
	t.repeats = (int)o->repeats;
	t.scratch =
		*o->scratch ? o->scratch : parent(o->apply, buf, sizeof(buf));
	t.applies = *o->apply != 0;
	if (t.applies)
		t.out = o->apply;
	t.progress = tell;
	t.data = &progress;
	cli_clean_on_signals();
	cli_progress_start(&progress, "tune", 100);
	e = mr_tune(args->argv[0], &t, &tuned, &err);
	cli_progress_end(&progress);
	if (e)
		return cli_fail(&err);
	code = finish(args->argv[0], o, &tuned);
	mr_tuned_free(&tuned);
	return code;
}

const struct cli_command cli_command_tune = {
	.name = "tune",
	.args = "PIPELINE",
	.help = "which steps to run once and store, how, and what to cache; "
		"and do it",
	.more = "A sample of the data set is measured at each place where the\n"
		"pipeline could be split, every strategy is predicted from\n"
		"that, and the best few are measured (docs/tuning.md).\n"
		"Random steps are never stored: batches stay the same.\n",
	.size = sizeof(struct tune),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct tune, loader),
	.run = run,
};
