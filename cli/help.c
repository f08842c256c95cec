/* SPDX-License-Identifier: Apache-2.0 */
/* Help and man pages, from the tables. */
#include <string.h>

#include "cli.h"

enum { WIDTH = 78, INDENT = 24 };

/* Words of s from column `col` on, broken at WIDTH, indented. */
static void wrap(FILE *out, const char *s, int col, int indent)
{
	bool gap = false; /* a blank is due before the next word */

	while (*s) {
		int n = (int)strcspn(s, " \n");

		if (col + gap + n > WIDTH && col > indent) {
			fprintf(out, "\n%*s", indent, "");
			col = indent;
			gap = false;
		}
		col += fprintf(out, "%s%.*s", gap ? " " : "", n, s);
		s += n;
		gap = *s != 0;
		s += gap;
	}
	fputc('\n', out);
}

static void option_head(const struct mr_param *p, char *buf, size_t cap)
{
	struct mr_str range = { 0 };
	size_t n = (size_t)snprintf(buf, cap, "--%s", p->name);

	for (size_t i = 0; i < n && i < cap; i++)
		if (buf[i] == '_')
			buf[i] = '-';
	mr_param_range(p, &range);
	if (p->type == MR_P_ENUM && range.text)
		snprintf(buf + n, cap - n, " %s", range.text);
	else if (p->type != MR_P_BOOL)
		snprintf(buf + n, cap - n, " %s",
			 p->type == MR_P_TEXT ? "TEXT" :
			 p->type == MR_P_SIZE ? "SIZE" :
			 p->type == MR_P_TIME ? "TIME" :
			 p->type == MR_P_INTS ? "N,N,..." :
						"N");
	mr_str_fini(&range);
}

static void option_tail(const struct mr_param *p, struct mr_str *out)
{
	mr_str_add(out, p->help);
	if (p->def && *p->def && p->type != MR_P_BOOL)
		mr_str_addf(out, " (default %s)", p->def);
}

/* but: a table whose options are not told again, or NULL. */
static void table_help(const struct mr_param *params,
		       const struct mr_param *but, FILE *out)
{
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++) {
		char head[160];
		struct mr_str tail = { 0 };
		int col;

		if (but && mr_param_find(but, params[i].name))
			continue;
		option_head(&params[i], head, sizeof(head));
		option_tail(&params[i], &tail);
		col = fprintf(out, "  %s", head);
		if (col + 1 >= INDENT)
			col = fprintf(out, "\n%*s", INDENT, "") - 1;
		else
			col += fprintf(out, "%*s", INDENT - col, "");
		wrap(out, tail.text ? tail.text : "", col, INDENT);
		mr_str_fini(&tail);
	}
}

void cli_help(const struct cli_command *c, FILE *out)
{
	fprintf(out, "usage: millrace %s [options] %s\n\n", c->name, c->args);
	wrap(out, c->help, 0, 0);
	if (c->more)
		fprintf(out, "\n%s", c->more);
	if (mr_param_count(c->options) || c->takes_loader_options)
		fputs("\noptions:\n", out);
	table_help(c->options, NULL, out);
	if (c->takes_loader_options)
		table_help(mr_option_params(), c->options, out);
	fputs("  -h, --help            this text\n", out);
}

void cli_help_all(FILE *out)
{
	fputs("usage: millrace COMMAND [options] PIPELINE\n\n"
	      "Feeds training data to neural networks, and says why they "
	      "wait.\n\ncommands:\n",
	      out);
	for (size_t i = 0; cli_commands[i]; i++)
		fprintf(out, "  %-10s %s\n", cli_commands[i]->name,
			cli_commands[i]->help);
	fputs("\nmillrace COMMAND --help tells more. A pipeline is a text, or "
	      "@file:\n  millrace run 'files photos | batch 64'\n",
	      out);
}

/* ---- man page ---- */

/* A text with the characters that troff takes for its own escaped. */
static void troff(FILE *out, const char *s)
{
	bool start = true;

	for (; *s; s++) {
		if (start && (*s == '.' || *s == '\''))
			fputs("\\&", out);
		if (*s == '\\')
			fputs("\\e", out);
		else if (*s == '-')
			fputs("\\-", out);
		else
			fputc(*s, out);
		start = *s == '\n';
	}
}

static void table_man(const struct mr_param *params, FILE *out)
{
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++) {
		char head[160];
		struct mr_str tail = { 0 };

		option_head(&params[i], head, sizeof(head));
		option_tail(&params[i], &tail);
		fputs(".TP\n.B ", out);
		troff(out, head);
		fputs("\n", out);
		troff(out, tail.text ? tail.text : "");
		fputs("\n", out);
		mr_str_fini(&tail);
	}
}

static void entry_man(const struct mr_entry *e, FILE *out)
{
	size_t n = mr_param_count(e->params);

	fprintf(out, ".TP\n.B %s\n", e->name);
	troff(out, e->help);
	fputs(".\n", out);
	if (e->max_level)
		fprintf(out, ".br\nLevels %d to %d, default %d.\n",
			e->min_level, e->max_level, e->default_level);
	for (size_t i = 0; i < n; i++) {
		struct mr_str range = { 0 };

		mr_param_range(&e->params[i], &range);
		fprintf(out, ".br\n.I %s\n", e->params[i].name);
		troff(out, "(");
		troff(out, range.text ? range.text : "");
		fputs("): ", out);
		troff(out, e->params[i].help);
		fputs("\n", out);
		mr_str_fini(&range);
	}
}

void cli_man(FILE *out)
{
	struct mr_entry e;

	fprintf(out,
		".TH MILLRACE 1 \"\" \"millrace %s\"\n.SH NAME\n"
		"millrace \\- feeds training data to neural networks, and "
		"says why they wait\n.SH SYNOPSIS\n.B millrace\n"
		".I COMMAND\n[options]\n.I PIPELINE\n.SH COMMANDS\n",
		mr_version());
	for (size_t i = 0; cli_commands[i]; i++) {
		const struct cli_command *c = cli_commands[i];

		fprintf(out, ".SS \"millrace %s ", c->name);
		troff(out, c->args);
		fputs("\"\n", out);
		troff(out, c->help);
		fputs(".\n", out);
		if (c->more) {
			fputs(".PP\n.nf\n", out);
			troff(out, c->more);
			fputs(".fi\n", out);
		}
		table_man(c->options, out);
	}
	fputs(".SH OPTIONS OF ALL COMMANDS THAT RUN A PIPELINE\n", out);
	table_man(mr_option_params(), out);
	fputs(".SH SOURCES, STEPS AND CODECS\n", out);
	for (size_t i = 0; mr_entry(i, &e); i++)
		entry_man(&e, out);
	fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n", out);
}
