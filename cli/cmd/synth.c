/* SPDX-License-Identifier: Apache-2.0 */
/* synth: make realistic data, for trying things out and for benchmarks. */
#include "synth/synth.h"
#include "cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/str.h"

extern const struct synth_kind synth_kind_images, synth_kind_tensors;
extern const struct synth_kind synth_kind_html;
extern const struct synth_kind synth_kind_flac, synth_kind_mp3, synth_kind_wav;
extern const struct synth_kind synth_kind_nilm, synth_kind_png16;

static const struct synth_kind *const kinds[] = {
	&synth_kind_images, &synth_kind_tensors, &synth_kind_png16,
	&synth_kind_flac,   &synth_kind_mp3,	 &synth_kind_wav,
	&synth_kind_nilm,   &synth_kind_html,
};

static const char *const sizes[] = { "500x375", NULL };
static const char *const subsamplings[] = { "mixed", "420", "444", NULL };

static const struct mr_param options[] = {
	MR_INT(struct synth_options, count, "1000", 1, 1e9, "how many samples"),
	MR_INT(struct synth_options, classes, "10", 1, 100000,
	       "how many classes; sample i is of class i modulo this"),
	{ "size", MR_P_INTS, offsetof(struct synth_options, size), "", 8, 16384,
	  sizes,
	  "images: the usual width and height, 500x375; png16: of all, "
	  "2592x1728" },
	MR_BOOL(struct synth_options, same_size, "no",
		"images: all of exactly that size"),
	MR_INT(struct synth_options, quality, "0", 0, 100,
	       "images: of the JPEGs; 0: mixed as in photo collections"),
	MR_ENUM(struct synth_options, subsampling, "mixed", subsamplings,
		"images: of the chroma; mixed: mostly 4:4:4 for pictures of "
		"ImageNet's size, 4:2:0 for larger ones"),
	MR_INTS(struct synth_options, shape, "3,32,32", 1, 1e9,
		"tensors: of one sample"),
	MR_DTYPE(struct synth_options, dtype, "u8", "tensors: element type"),
	MR_INT(struct synth_options, files, "1", 1, 100000,
	       "tensors: spread over that many .npy files"),
	MR_BOOL(struct synth_options, each, "no",
		"tensors: a raw file per sample, in class folders"),
	MR_TIME(struct synth_options, duration, "0", 0, 86400,
		"flac, mp3, wav: of a clip on average; nilm: of a file; 0: "
		"12.66s, of mp3 2.46s, of nilm 1h"),
	MR_INT(struct synth_options, seed, "0", 0, 9e15,
	       "the same seed makes the same data"),
	MR_INT(struct synth_options, threads, "0", 0, 1024,
	       "0: the cores this process may use"),
	MR_BOOL(struct synth_options, force, "no",
		"write into a directory that is not empty"),
	MR_PARAM_END
};

static const char *kind_name(size_t i, const void *data)
{
	(void)data;
	return kinds[i]->name;
}

static const struct synth_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < MR_COUNT(kinds); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

static int unknown_kind(const char *name)
{
	const char *near = mr_nearest(name, MR_COUNT(kinds), kind_name, NULL);
	struct mr_str s = { 0 };
	int code;

	if (near)
		mr_str_addf(&s, " Did you mean %s?", near);
	mr_str_add(&s, " The kinds are:");
	for (size_t i = 0; i < MR_COUNT(kinds); i++)
		mr_str_addf(&s, "\n  %-8s %s", kinds[i]->name, kinds[i]->help);
	code = cli_usage("no such kind of data: %s.%s", name,
			 s.text ? s.text : "");
	mr_str_fini(&s);
	return code;
}

/* As the user writes it: same_size -> same-size. */
static void option_name(const struct mr_param *p, char buf[MR_NAME_MAX])
{
	snprintf(buf, MR_NAME_MAX, "%s", p->name);
	for (char *c = buf; *c; c++)
		if (*c == '_')
			*c = '-';
}

static bool kind_takes(const struct synth_kind *k, const char *option)
{
	char word[MR_NAME_MAX + 2];

	snprintf(word, sizeof(word), " %s ", option);
	return strstr(" count classes seed threads force ", word) ||
	       strstr(k->options, word);
}

/* An option of another kind that was set is a mistake worth telling; name
 * is of this option, or empty. */
static void find_stranger(const struct synth_kind *k,
			  const struct synth_options *opt,
			  char name[MR_NAME_MAX])
{
	struct synth_options def = { 0 };

	mr_param_defaults(options, &def);
	for (const struct mr_param *p = options; p->name; p++) {
		struct mr_str is = { 0 }, was = { 0 };
		bool changed;

		mr_param_text(p, opt, &is);
		mr_param_text(p, &def, &was);
		changed = strcmp(is.text ? is.text : "",
				 was.text ? was.text : "") != 0;
		mr_str_fini(&is);
		mr_str_fini(&was);
		option_name(p, name);
		if (changed && !kind_takes(k, name))
			return;
	}
	name[0] = 0;
}

static void summary(const struct synth *s, double seconds)
{
	unsigned long long n = atomic_load(&s->files);
	const char *at = strstr(s->next, "%s");
	char count[32], size[32];

	printf("%s file%s, %s in %.1f s in %s; try: "
	       "millrace run '%.*s%s%s'\n",
	       mr_str_count(count, n), n == 1 ? "" : "s",
	       mr_str_size(size, (double)atomic_load(&s->bytes)), seconds,
	       s->dir, (int)(at - s->next), s->next, s->dir, at + 2);
}

/* After an error or a signal: what is there all the same. */
static int leave(const struct synth *s, int e, const struct mr_err *err)
{
	unsigned long long n = atomic_load(&s->files);
	int code = e ? cli_fail(err) : EXIT_FAILED;
	char count[32];

	if (n || !e)
		fprintf(stderr, "millrace: %s after %s file%s in %s\n",
			e ? "failed" : "stopped", mr_str_count(count, n),
			n == 1 ? "" : "s", s->dir);
	return code;
}

static int run(const struct cli_args *args, void *options_)
{
	struct synth_options *opt = options_;
	struct synth s = { .opt = opt };
	const struct synth_kind *kind;
	char stranger[MR_NAME_MAX];
	struct mr_err err = { 0 };
	uint64_t start = mr_clock_ns();
	int e;

	if (args->argc != 2)
		return cli_usage("synth wants a KIND and a DIR");
	kind = find_kind(args->argv[0]);
	if (!kind)
		return unknown_kind(args->argv[0]);
	find_stranger(kind, opt, stranger);
	if (stranger[0])
		return cli_usage("synth %s has no option --%s", kind->name,
				 stranger);
	s.dir = args->argv[1];
	if (strlen(s.dir) > PATH_MAX - 64)
		return cli_usage("DIR is too long");
	s.threads = opt->threads ? (int)opt->threads : mr_machine_cores();
	cli_catch_signals();

	e = kind->check(opt, &err);
	if (e)
		return cli_fail(&err);
	e = synth_make_dirs(s.dir, &err);
	if (!e && !opt->force)
		e = synth_check_empty(s.dir, &err);
	if (!e)
		e = kind->run(&s, &err);
	if (e || s.stopped)
		return leave(&s, e, &err);
	summary(&s, (double)(mr_clock_ns() - start) * 1e-9);
	return EXIT_DONE;
}

const struct cli_command cli_command_synth = {
	.name = "synth",
	.args = "KIND DIR",
	.help = "make realistic data",
	.more = "Kinds:\n"
		"  html     pages of news in class folders (pages/), the texts "
		"of their\n"
		"           articles (texts/), and for their words a "
		"vocabulary "
		"of GPT-2's\n"
		"           kind and a table of embeddings\n"
		"  images   JPEG photos in class folders: they have the "
		"spectra, sizes and\n"
		"           qualities of ImageNet's, and cost as much to "
		"decode\n"
		"  tensors  .npy files of smooth fields with noise, and "
		"labels.npy\n"
		"  png16    the same photos as 16-bit PNGs, 2592x1728, "
		"18 MB each\n"
		"  flac     speech-like clips, 16 kHz; wav: the same, not "
		"packed\n"
		"  mp3      speech-like clips, 48 kHz, by libmp3lame if it is "
		"there\n"
		"  nilm     voltage and current, 6.4 kHz, in HDF5 files of an "
		"hour; a sample\n"
		"           is 10 s, 143 KB of a file\n\n"
		"The data is a function of the seed, whatever the number of "
		"threads. DIR is\n"
		"made if need be; one that is not empty is refused without "
		"--force.\n",
	.size = sizeof(struct synth_options),
	.options = options,
	.run = run,
};
