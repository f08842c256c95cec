/* SPDX-License-Identifier: Apache-2.0 */
/* millrace: finds the command, sets its options by the table, runs it. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/mem.h"

int cli_fail(const struct mr_err *err)
{
	fprintf(stderr, "millrace: %s\n", err->text);
	return err->code == MR_EPARSE || err->code == MR_EINVAL ? EXIT_USAGE :
								  EXIT_FAILED;
}

int cli_usage(const char *fmt, ...)
{
	va_list ap;

	fputs("millrace: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
	return EXIT_USAGE;
}

/* ---- options ---- */

struct parse {
	const struct cli_command *command;
	char *options; /* the command's struct */
	struct mr_arena *strings;
	struct cli_args *args;
};

/* --on-error is the member on_error. */
static void member_name(char *to, size_t cap, const char *from, size_t n)
{
	size_t i;

	for (i = 0; i < n && i + 1 < cap; i++)
		to[i] = from[i] == '-' ? '_' : from[i];
	to[i] = 0;
}

/* And back, up to the value in on_error=VALUE. */
static void with_dashes(char *s)
{
	for (; *s && *s != '='; s++)
		if (*s == '_')
			*s = '-';
}

static const char *any_option(size_t i, const void *data)
{
	const struct cli_command *c = data;
	size_t n = mr_param_count(c->options);

	return i < n ? c->options[i].name : mr_option_params()[i - n].name;
}

static size_t option_count(const struct cli_command *c)
{
	return mr_param_count(c->options) +
	       (c->takes_loader_options ? mr_param_count(mr_option_params()) :
					  0);
}

static int unknown_option(const struct cli_command *c, const char *arg,
			  const char *name)
{
	const char *near = mr_nearest(name, option_count(c), any_option, c);
	char dashed[64];

	if (!near)
		return cli_usage("%s has no option %s; see millrace %s --help",
				 c->name, arg, c->name);
	snprintf(dashed, sizeof(dashed), "%s", near);
	with_dashes(dashed);
	return cli_usage("%s has no option %s; did you mean --%s?", c->name,
			 arg, dashed);
}

static void note_given(struct cli_args *a, const char *name)
{
	for (int i = 0; i < a->givens; i++)
		if (!strcmp(a->given[i], name))
			return;
	assert(a->givens < CLI_OPTIONS);
	a->given[a->givens++] = name;
}

static bool is_among(const char *name, const char *names)
{
	size_t n = strlen(name);

	for (const char *s = names; (s = strstr(s, name)); s += n)
		if ((s == names || s[-1] == ' ') && (!s[n] || s[n] == ' '))
			return true;
	return false;
}

static int refuse(const struct cli_args *args, const char *use,
		  const char *names, bool among)
{
	char dashed[64];

	for (int i = 0; i < args->givens; i++) {
		if (is_among(args->given[i], names) != among)
			continue;
		snprintf(dashed, sizeof(dashed), "%s", args->given[i]);
		with_dashes(dashed);
		return cli_usage("--%s means nothing to `%s`; leave it out",
				 dashed, use);
	}
	return 0;
}

int cli_takes_only(const struct cli_args *args, const char *use,
		   const char *names)
{
	return refuse(args, use, names, false);
}

int cli_takes_all_but(const struct cli_args *args, const char *use,
		      const char *names)
{
	return refuse(args, use, names, true);
}

/* One option at argv[i]; *used is how many words it took. */
static int set_option(const struct parse *ps, int argc, char **argv, int i,
		      int *used)
{
	const struct cli_command *c = ps->command;
	const char *arg = argv[i], *eq = strchr(arg, '=');
	size_t n = eq ? (size_t)(eq - arg) - 2 : strlen(arg) - 2;
	const struct mr_param *p;
	const char *value = eq ? eq + 1 : NULL;
	char *to = ps->options;
	char name[64];
	struct mr_err err;

	member_name(name, sizeof(name), arg + 2, n);
	p = mr_param_find(c->options, name);
	if (!p && c->takes_loader_options) {
		p = mr_param_find(mr_option_params(), name);
		to += c->loader;
	}
	if (!p)
		return unknown_option(c, arg, name);
	*used = 1;
	if (!value && p->type == MR_P_BOOL) {
		value = "yes";
	} else if (!value) {
		if (i + 1 >= argc)
			return cli_usage("%s needs a value", arg);
		value = argv[i + 1];
		*used = 2;
	}
	if (mr_param_set(p, to, value, ps->strings, &err)) {
		with_dashes(err.text);
		return cli_usage("--%s", err.text);
	}
	note_given(ps->args, p->name);
	return 0;
}

static const struct {
	const char *given, *means;
} shorthand[] = {
	{ "-o", "--out" },
	{ "--plugin", "--plugins" },
};

/* The word with a shorthand written out, alone or before `=value`. */
static char *written_out(char *arg, struct mr_arena *strings)
{
	for (size_t k = 0; k < MR_COUNT(shorthand); k++) {
		size_t n = strlen(shorthand[k].given), all;
		char *s;

		if (strncmp(arg, shorthand[k].given, n) ||
		    (arg[n] && arg[n] != '='))
			continue;
		all = strlen(shorthand[k].means) + strlen(arg + n) + 1;
		s = mr_arena_take(strings, all);
		if (!s)
			return arg;
		snprintf(s, all, "%s%s", shorthand[k].means, arg + n);
		return s;
	}
	return arg;
}

/* A full disk or a closed pipe behind stdout is a failure too. */
static int flushed(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	perror("millrace: standard output");
	return EXIT_FAILED;
}

/* Options may stand before, between and after the arguments; -- ends them. */
static int parse_options(const struct parse *ps, int argc, char **argv,
			 struct cli_args *left)
{
	bool ended = false;
	int n = 0;

	for (int i = 0; i < argc;) {
		int used = 1, e;

		if (!ended)
			argv[i] = written_out(argv[i], ps->strings);
		if (ended || argv[i][0] != '-' || !argv[i][1]) {
			argv[n++] = argv[i++];
			continue;
		}
		if (!strcmp(argv[i], "--")) {
			ended = true;
			left->behind = n;
			i++;
			continue;
		}
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
			cli_help(ps->command, stdout);
			exit(flushed(EXIT_DONE));
		}
		if (argv[i][1] != '-')
			return cli_usage("unknown option %s; see millrace %s "
					 "--help",
					 argv[i], ps->command->name);
		e = set_option(ps, argc, argv, i, &used);
		if (e)
			return e;
		i += used;
	}
	left->argc = n;
	return 0;
}

static int run_command(const struct cli_command *c, int argc, char **argv)
{
	struct mr_arena strings;
	struct mr_err err;
	struct cli_args args = { c, 0, argv, -1, &strings, { NULL }, 0 };
	struct parse ps = { c, NULL, &strings, &args };
	int code;

	mr_arena_init(&strings, (size_t)16 << 20);
	ps.options = mr_alloc(1, c->size, &err);
	if (!ps.options)
		return cli_fail(&err);
	mr_param_defaults(c->options, ps.options);
	if (c->takes_loader_options) {
		struct mr_options opt;

		mr_options_init(&opt);
		memcpy(ps.options + c->loader, &opt, sizeof(opt));
	}
	code = parse_options(&ps, argc, argv, &args);
	if (!code)
		code = c->run(&args, ps.options);
	free(ps.options);
	mr_arena_fini(&strings);
	return flushed(code);
}

static const char *command_name(size_t i, const void *data)
{
	(void)data;
	return cli_commands[i]->name;
}

static size_t command_count(void)
{
	size_t n = 0;

	while (cli_commands[n])
		n++;
	return n;
}

int main(int argc, char **argv)
{
	const char *near;

	if (argc < 2) {
		cli_help_all(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")) {
		cli_help_all(stdout);
		return flushed(EXIT_DONE);
	}
	if (!strcmp(argv[1], "--version")) {
		printf("millrace %s\n", mr_version());
		return flushed(EXIT_DONE);
	}
	for (size_t i = 0; cli_commands[i]; i++)
		if (!strcmp(cli_commands[i]->name, argv[1]))
			return run_command(cli_commands[i], argc - 2, argv + 2);
	near = mr_nearest(argv[1], command_count(), command_name, NULL);
	if (near)
		return cli_usage("unknown command '%s'; did you mean '%s'?",
				 argv[1], near);
	return cli_usage("unknown command '%s'; millrace --help lists them",
			 argv[1]);
}
