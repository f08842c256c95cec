/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about options, from their table: errors, near misses, help. */
#include "option.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char rank_help[] = "which share of each epoch: (R, N) or \"R/N\"";

/* ---- near misses ---- */

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits that turn a into b; texts of options are short. */
static int distance(const char *a, const char *b)
{
	int row[64], n = (int)strlen(b);

	if (n >= 64 || strlen(a) >= 64)
		return INT_MAX;
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int corner = row[0];

		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int up = row[j];

			row[j] = min3(up + 1, row[j - 1] + 1,
				      corner + (a[i - 1] != b[j - 1]));
			corner = up;
		}
	}
	return row[n];
}

struct guess {
	const char *wrong, *best;
	int distance;
};

static void guess(struct guess *g, const char *word)
{
	int d = distance(g->wrong, word);

	if (d < g->distance) {
		g->distance = d;
		g->best = word;
	}
}

static struct guess guess_start(const char *wrong)
{
	return (struct guess){ wrong, NULL, (int)strlen(wrong) / 3 + 2 };
}

/* ---- what is wrong with a value ---- */

/* "shuffle, sequential or block" */
static PyObject *words_text(const char *const *words)
{
	PyObject *out = PyUnicode_FromString("");

	for (int i = 0; out && words[i]; i++) {
		const char *sep = !i ? "" : words[i + 1] ? ", " : " or ";

		PyUnicode_AppendAndDel(
			&out, PyUnicode_FromFormat("%s\"%s\"", sep, words[i]));
	}
	return out;
}

/* What the option takes, in words. */
static PyObject *want(const struct mr_param *p)
{
	char range[64] = "";

	if (p->type == MR_P_ENUM)
		return words_text(p->words);
	if (p->max >= 1e15)
		snprintf(range, sizeof(range), ", at least %.15g", p->min);
	else if (p->max > p->min)
		snprintf(range, sizeof(range), ", %.15g to %.15g", p->min,
			 p->max);
	switch (p->type) {
	case MR_P_INT:
		return PyUnicode_FromFormat("a whole number%s", range);
	case MR_P_REAL:
		return PyUnicode_FromFormat("a number%s", range);
	case MR_P_BOOL:
		return PyUnicode_FromString("True or False");
	case MR_P_SIZE:
		return PyUnicode_FromFormat(
			"a number or a size such as \"512M\" or \"8G\"%s",
			range);
	case MR_P_TIME:
		return PyUnicode_FromString(
			"seconds, or a time such as \"10ms\" or \"5m\"");
	case MR_P_TEXT:
		return PyUnicode_FromString("text, or a list of texts");
	default:
		return PyUnicode_FromString("nothing that Python can give");
	}
}

int mrpy_option_wrong(PyObject *exception, const struct mr_param *p,
		      PyObject *value)
{
	PyObject *w = want(p);

	if (w)
		PyErr_Format(exception, "%s=%R: want %U", p->name, value, w);
	Py_XDECREF(w);
	return -1;
}

int mrpy_option_wrong_word(const struct mr_param *p, PyObject *value,
			   const char *text)
{
	struct guess g = guess_start(text);
	PyObject *w = want(p);

	for (int i = 0; p->words[i]; i++)
		guess(&g, p->words[i]);
	if (w && g.best)
		PyErr_Format(PyExc_ValueError,
			     "%s=%R: want %U; did you mean \"%s\"?", p->name,
			     value, w, g.best);
	else if (w)
		PyErr_Format(PyExc_ValueError, "%s=%R: want %U", p->name, value,
			     w);
	Py_XDECREF(w);
	return -1;
}

int mrpy_option_unknown(const char *function, const char *name)
{
	const struct mr_param *p = mr_option_params();
	struct guess g = guess_start(name);

	guess(&g, "rank");
	for (; p->type != MR_P_END; p++)
		guess(&g, p->name);
	if (g.best)
		PyErr_Format(PyExc_TypeError,
			     "%s() has no option '%s'; did you mean '%s'?",
			     function, name, g.best);
	else
		PyErr_Format(PyExc_TypeError,
			     "%s() has no option '%s'; help(millrace.Loader) "
			     "lists them",
			     function, name);
	return -1;
}

/* ---- documentation ---- */

static bool is_number(const char *s)
{
	return *s && strspn(s, "0123456789.-") == strlen(s);
}

/* The default as Python would write it. */
static PyObject *default_text(const struct mr_param *p)
{
	if (p->type == MR_P_BOOL)
		return PyUnicode_FromString(
			p->def && !strcmp(p->def, "yes") ? "True" : "False");
	if (!p->def || !*p->def)
		return PyUnicode_FromString("None");
	if (p->type != MR_P_TEXT && p->type != MR_P_ENUM && is_number(p->def))
		return PyUnicode_FromString(p->def);
	return PyUnicode_FromFormat("\"%s\"", p->def);
}

PyObject *mrpy_options_signature(void)
{
	PyObject *out = PyUnicode_FromString("");
	const struct mr_param *p = mr_option_params();

	for (; out && p->type != MR_P_END; p++) {
		PyObject *def = default_text(p);

		if (!def) {
			Py_CLEAR(out);
			break;
		}
		PyUnicode_AppendAndDel(
			&out, PyUnicode_FromFormat("%s=%U, ", p->name, def));
		Py_DECREF(def);
	}
	if (out)
		PyUnicode_AppendAndDel(&out, PyUnicode_FromString("rank=None"));
	return out;
}

PyObject *mrpy_options_help(void)
{
	PyObject *out = PyUnicode_FromString("");
	const struct mr_param *p = mr_option_params();

	for (; out && p->type != MR_P_END; p++) {
		PyObject *w = want(p);

		if (!w) {
			Py_CLEAR(out);
			break;
		}
		PyUnicode_AppendAndDel(
			&out, PyUnicode_FromFormat("  %s: %s\n      %U\n",
						   p->name, p->help, w));
		Py_DECREF(w);
	}
	if (out)
		PyUnicode_AppendAndDel(
			&out, PyUnicode_FromFormat("  rank: %s\n", rank_help));
	return out;
}
