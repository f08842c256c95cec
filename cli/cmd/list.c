/* SPDX-License-Identifier: Apache-2.0 */
/* list: what there is, from the tables. */
#include <string.h>

#include "cli.h"

struct list {
	bool markdown, man;
};

static const struct mr_param options[] = {
	MR_BOOL(struct list, markdown, "no",
		"print the whole reference as Markdown"),
	MR_BOOL(struct list, man, "no", "print the manual page (troff)"),
	MR_PARAM_END
};

/* ---- text ---- */

static void list_entry(const struct mr_entry *e)
{
	printf("  %-12s %s", e->name, e->help);
	if (e->max_level)
		printf(" (levels %d to %d, default %d)", e->min_level,
		       e->max_level, e->default_level);
	printf("%s\n", e->missing ? " (not in this build)" : "");
}

static void list_kind(enum mr_kind kind, const char *title)
{
	struct mr_entry e;

	printf("%s\n", title);
	for (size_t i = 0; mr_entry(i, &e); i++)
		if (e.kind == kind)
			list_entry(&e);
}

static void show_param(const struct mr_param *p, bool first)
{
	struct mr_str range = { 0 };

	mr_param_range(p, &range);
	printf("  %-12s %s\n", p->name, p->help);
	printf("  %-12s   %s; ", "", range.text ? range.text : "");
	if (!p->def)
		printf("required");
	else if (*p->def)
		printf("default %s", p->def);
	else
		printf("default: none");
	printf("%s\n", first ? "; its name may be left out" : "");
	mr_str_fini(&range);
}

static const char *const kinds[] = {
	[MR_KIND_SOURCE] = "source",
	[MR_KIND_STEP] = "step",
	[MR_KIND_CODEC] = "codec",
};

static void show_entry(const struct mr_entry *e)
{
	size_t n = mr_param_count(e->params);

	printf("%s: %s (%s)\n", e->name, e->help, kinds[e->kind]);
	if (e->max_level)
		printf("  levels       %d to %d; default %d\n", e->min_level,
		       e->max_level, e->default_level);
	if (e->missing)
		printf("not in this build: %s\n", e->missing);
	for (size_t i = 0; i < n; i++)
		show_param(&e->params[i], i == 0);
}

/* ---- Markdown ---- */

/* Bars would end the cell. */
static void cell(const char *s)
{
	printf(" ");
	for (; *s; s++)
		printf(*s == '|' ? "\\%c" : "%c", *s);
	printf(" |");
}

static void markdown_params(const struct mr_param *params, bool dashes)
{
	size_t n = mr_param_count(params);

	if (!n)
		return;
	printf("\n| %s | values | default | |\n|---|---|---|---|\n",
	       dashes ? "option" : "parameter");
	for (size_t i = 0; i < n; i++) {
		const struct mr_param *p = &params[i];
		struct mr_str range = { 0 };

		mr_param_range(p, &range);
		printf("| `%s", dashes ? "--" : "");
		for (const char *s = p->name; *s; s++)
			putchar(dashes && *s == '_' ? '-' : *s);
		printf("` |");
		cell(range.text ? range.text : "");
		cell(!p->def ? "required" : p->def);
		cell(p->help);
		printf("\n");
		mr_str_fini(&range);
	}
}

static void markdown_kind(enum mr_kind kind, const char *title)
{
	struct mr_entry e;

	printf("\n## %s\n", title);
	for (size_t i = 0; mr_entry(i, &e); i++) {
		if (e.kind != kind)
			continue;
		printf("\n### %s\n%s.\n", e.name, e.help);
		markdown_params(e.params, false);
	}
}

static void markdown_codecs(void)
{
	struct mr_entry e;

	printf("\n## Codecs\n\n| codec | levels | default | |\n"
	       "|---|---|---|---|\n");
	for (size_t i = 0; mr_entry(i, &e); i++) {
		if (e.kind != MR_KIND_CODEC)
			continue;
		printf("| `%s` |", e.name);
		if (e.max_level)
			printf(" %d to %d | %d |", e.min_level, e.max_level,
			       e.default_level);
		else
			printf(" | |");
		cell(e.help);
		printf("\n");
	}
}

static void markdown(void)
{
	printf("# Reference\n\n"
	       "Made by `millrace list --markdown` from the tables in the "
	       "code; a test keeps it equal.\n"
	       "A value without a name goes to the first parameter that has "
	       "none yet.\n"
	       "Steps that work on one field also take `field=NAME`; without "
	       "it they take the first one that fits.\n");
	markdown_kind(MR_KIND_SOURCE, "Sources");
	markdown_kind(MR_KIND_STEP, "Steps");
	markdown_codecs();
	printf("\n## Commands\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		const struct cli_command *c = cli_commands[i];

		printf("\n### millrace %s %s\n%s.%s\n", c->name, c->args,
		       c->help,
		       c->takes_loader_options ?
			       " Also takes the options of a loader, below." :
			       "");
		markdown_params(c->options, true);
	}
	printf("\n## Options of a loader\nOf the commands that run a "
	       "pipeline; in Python, keywords of `millrace.Loader`; in C, "
	       "members of `struct mr_options`.\n");
	markdown_params(mr_option_params(), true);
}

/* ---- the command ---- */

static const char *entry_name(size_t i, const void *data)
{
	struct mr_entry e;

	(void)data;
	return mr_entry(i, &e) ? e.name : NULL;
}

static int show_named(const char *name)
{
	struct mr_entry e;
	const char *near;
	size_t n = 0;

	for (; mr_entry(n, &e); n++) {
		if (!strcmp(e.name, name)) {
			show_entry(&e);
			return EXIT_DONE;
		}
	}
	near = mr_nearest(name, n, entry_name, NULL);
	if (near)
		return cli_usage(
			"list: no source, step or codec '%s'; did you mean "
			"'%s'?",
			name, near);
	return cli_usage(
		"list: no source, step or codec '%s'; `millrace list` shows "
		"them all",
		name);
}

static int run(const struct cli_args *args, void *options_)
{
	struct list *o = options_;
	const char *what = args->argc ? args->argv[0] : "";

	if (args->argc > 1)
		return cli_usage("list takes one name");
	if (o->markdown) {
		markdown();
	} else if (o->man) {
		cli_man(stdout);
	} else if (!*what) {
		list_kind(MR_KIND_SOURCE, "sources");
		list_kind(MR_KIND_STEP, "steps");
		list_kind(MR_KIND_CODEC, "codecs");
	} else if (!strcmp(what, "sources")) {
		list_kind(MR_KIND_SOURCE, "sources");
	} else if (!strcmp(what, "steps")) {
		list_kind(MR_KIND_STEP, "steps");
	} else if (!strcmp(what, "codecs")) {
		list_kind(MR_KIND_CODEC, "codecs");
	} else {
		return show_named(what);
	}
	return EXIT_DONE;
}

const struct cli_command cli_command_list = {
	.name = "list",
	.args = "[steps|sources|codecs|NAME]",
	.help = "what there is, or the parameters of one",
	.size = sizeof(struct list),
	.options = options,
	.run = run,
};
