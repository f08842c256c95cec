/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keyword arguments by the library's own table of options: names, types,
 * ranges, words and help are written down once, in C.
 *
 * rank= is the exception: two members of struct mr_options in one argument.
 */
#include "option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct mr_param *find(const char *name)
{
	const struct mr_param *p = mr_option_params();

	for (; p->type != MR_P_END; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

static bool in_range(const struct mr_param *p, double v)
{
	return v >= p->min && v <= p->max;
}

/* value as an integer object; NULL when it is none, without exception. */
static PyObject *integer(PyObject *value)
{
	PyObject *n = PyBool_Check(value) ? NULL : PyNumber_Index(value);

	if (!n)
		PyErr_Clear();
	return n;
}

/* Into the 8 bytes at `to`: sizes are unsigned, the rest is not. */
static int set_integer(const struct mr_param *p, void *to, PyObject *value)
{
	PyObject *n = integer(value);
	bool negative;
	double d;
	uint64_t u;

	if (!n)
		return mrpy_option_wrong(PyExc_TypeError, p, value);
	d = PyLong_AsDouble(n);
	negative = d < 0;
	u = negative ? (uint64_t)PyLong_AsLongLong(n) :
		       PyLong_AsUnsignedLongLong(n);
	Py_DECREF(n);
	if (PyErr_Occurred() || d > p->max ||
	    (p->type == MR_P_INT && !negative && u > INT64_MAX)) {
		PyErr_Clear();
		PyErr_Format(PyExc_ValueError, "%s=%R: too large", p->name,
			     value);
		return -1;
	}
	if (d < p->min)
		return mrpy_option_wrong(PyExc_ValueError, p, value);
	memcpy(to, &u, sizeof(u));
	return 0;
}

struct unit {
	const char *name;
	double scale;
};

static const struct unit sizes[] = {
	{ "", 1 },	 { "K", 0x1p10 }, { "M", 0x1p20 },
	{ "G", 0x1p30 }, { "T", 0x1p40 }, { NULL, 0 },
};

static const struct unit times[] = {
	{ "", 1 },   { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },
	{ "m", 60 }, { "h", 3600 },  { NULL, 0 },
};

static bool unit_is(const struct unit *u, const char *text)
{
	size_t n = strlen(u->name);

	if (strncmp(text, u->name, n) != 0)
		return false;
	/* 8G, 8GB and 8GiB are the same, as for the command. */
	return !text[n] || (u->scale > 1e3 && (!strcmp(text + n, "B") ||
					       !strcmp(text + n, "iB")));
}

/* "1.5G" with the units of the type; false when it is no such text. */
static bool quantity(enum mr_param_type type, const char *text, double *v)
{
	const struct unit *u = type == MR_P_SIZE ? sizes : times;
	char *end;

	*v = PyOS_string_to_double(text, &end, NULL);
	if (PyErr_Occurred()) {
		PyErr_Clear();
		return false;
	}
	for (; u->name; u++) {
		if (unit_is(u, end)) {
			*v *= u->scale;
			return isfinite(*v);
		}
	}
	return false;
}

static int set_size(const struct mr_param *p, void *to, PyObject *value)
{
	const char *text;
	uint64_t u;
	double v;

	if (!PyUnicode_Check(value))
		return set_integer(p, to, value);
	text = PyUnicode_AsUTF8AndSize(value, NULL);
	if (!text)
		return -1;
	if (!quantity(p->type, text, &v) || v < 0 || v >= 0x1p63 ||
	    !in_range(p, v))
		return mrpy_option_wrong(PyExc_ValueError, p, value);
	u = (uint64_t)v;
	memcpy(to, &u, sizeof(u));
	return 0;
}

static int set_real(const struct mr_param *p, void *to, PyObject *value)
{
	const char *text;
	double v;

	if (PyUnicode_Check(value) && p->type == MR_P_TIME) {
		text = PyUnicode_AsUTF8AndSize(value, NULL);
		if (!text)
			return -1;
		if (!quantity(p->type, text, &v))
			return mrpy_option_wrong(PyExc_ValueError, p, value);
	} else {
		v = PyFloat_AsDouble(value);
		if (PyErr_Occurred()) {
			PyErr_Clear();
			return mrpy_option_wrong(PyExc_TypeError, p, value);
		}
	}
	if (!in_range(p, v))
		return mrpy_option_wrong(PyExc_ValueError, p, value);
	memcpy(to, &v, sizeof(v));
	return 0;
}

static int set_word(const struct mr_param *p, void *to, PyObject *value)
{
	const char *text;

	if (!PyUnicode_Check(value))
		return mrpy_option_wrong(PyExc_TypeError, p, value);
	text = PyUnicode_AsUTF8AndSize(value, NULL);
	if (!text)
		return -1;
	for (int i = 0; p->words[i]; i++) {
		if (!strcmp(p->words[i], text)) {
			memcpy(to, &i, sizeof(i));
			return 0;
		}
	}
	return mrpy_option_wrong_word(p, value, text);
}

/* Bytes of a str or path; surrogates stand for bytes that are no UTF-8.
 * Raises TypeError for what is neither. */
static PyObject *bytes_of(PyObject *text, const char *what)
{
	PyObject *s = PyOS_FSPath(text), *bytes = NULL;

	if (!s)
		return NULL;
	if (PyUnicode_Check(s))
		bytes = PyUnicode_AsEncodedString(s, "utf-8",
						  "surrogateescape");
	else
		bytes = Py_NewRef(s);
	Py_DECREF(s);
	if (bytes &&
	    memchr(PyBytes_AsString(bytes), 0, (size_t)PyBytes_Size(bytes))) {
		PyErr_Format(PyExc_ValueError,
			     "%s: the text has a zero byte in it", what);
		Py_CLEAR(bytes);
	}
	return bytes;
}

/* A list of texts, joined by commas. */
static PyObject *join(const struct mr_param *p, PyObject *value)
{
	Py_ssize_t n = PySequence_Size(value);
	PyObject *out = PyBytes_FromString("");

	for (Py_ssize_t i = 0; out && i < n; i++) {
		PyObject *item = PySequence_GetItem(value, i);
		PyObject *b = item ? bytes_of(item, p->name) : NULL;

		Py_XDECREF(item);
		if (!b) {
			Py_CLEAR(out);
			break;
		}
		if (i)
			PyBytes_ConcatAndDel(&out, PyBytes_FromString(","));
		PyBytes_ConcatAndDel(&out, b);
	}
	return out;
}

static int set_text(const struct mr_param *p, void *to, PyObject *value,
		    PyObject *keep)
{
	PyObject *bytes = PyList_Check(value) || PyTuple_Check(value) ?
				  join(p, value) :
				  bytes_of(value, p->name);
	const char *text;
	int rc;

	if (!bytes && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		return mrpy_option_wrong(PyExc_TypeError, p, value);
	}
	if (!bytes)
		return -1;
	text = PyBytes_AsString(bytes);
	rc = PyList_Append(keep, bytes);
	Py_DECREF(bytes);
	memcpy(to, &text, sizeof(text));
	return rc;
}

static int set(struct mrpy_options *o, const struct mr_param *p,
	       PyObject *value)
{
	void *to = (char *)&o->opt + p->offset;

	switch (p->type) {
	case MR_P_INT:
		return set_integer(p, to, value);
	case MR_P_SIZE:
		return set_size(p, to, value);
	case MR_P_REAL:
	case MR_P_TIME:
		return set_real(p, to, value);
	case MR_P_BOOL:
		if (!PyBool_Check(value))
			return mrpy_option_wrong(PyExc_TypeError, p, value);
		*(bool *)to = Py_IsTrue(value);
		return 0;
	case MR_P_ENUM:
		return set_word(p, to, value);
	case MR_P_TEXT:
		return set_text(p, to, value, o->keep);
	default:
		return mrpy_option_wrong(PyExc_TypeError, p, value);
	}
}

/* The numbers of (R, N) or "R/N"; false when it has no such form. */
static bool rank_parts(PyObject *value, long long *rank, long long *ranks)
{
	PyObject *pair;
	bool good;
	char end;

	if (PyUnicode_Check(value)) {
		const char *s = PyUnicode_AsUTF8AndSize(value, NULL);

		return s && sscanf(s, "%lld/%lld%c", rank, ranks, &end) == 2;
	}
	pair = PySequence_Tuple(value);
	good = pair && PyArg_ParseTuple(pair, "LL", rank, ranks);
	Py_XDECREF(pair);
	return good;
}

static int set_rank(struct mr_options *opt, PyObject *value)
{
	long long rank, ranks;

	if (!rank_parts(value, &rank, &ranks)) {
		PyErr_Clear();
		PyErr_Format(PyUnicode_Check(value) ? PyExc_ValueError :
						      PyExc_TypeError,
			     "rank=%R: want (R, N) or \"R/N\"", value);
		return -1;
	}
	if (rank < 0 || rank >= ranks) {
		PyErr_Format(PyExc_ValueError,
			     "rank=%R: want (R, N) with 0 <= R < N", value);
		return -1;
	}
	opt->rank = rank;
	opt->ranks = ranks;
	return 0;
}

static int set_by_name(struct mrpy_options *o, const char *function,
		       const char *name, PyObject *value, bool json)
{
	const struct mr_param *p = find(name);

	if (json && !strcmp(name, "json")) {
		int yes = PyObject_IsTrue(value);

		o->json = yes > 0;
		return yes < 0 ? -1 : 0;
	}
	if (!p && strcmp(name, "rank") != 0)
		return mrpy_option_unknown(function, name);
	if (Py_IsNone(value))
		return 0; /* the default */
	return p ? set(o, p, value) : set_rank(&o->opt, value);
}

int mrpy_options_init(struct mrpy_options *o, PyObject **pipeline,
		      const char *function, PyObject *args, PyObject *kw,
		      bool json)
{
	Py_ssize_t given = PyTuple_Size(args), at = 0;
	PyObject *text = given == 1 ? PyTuple_GetItem(args, 0) : NULL;
	PyObject *key, *value;

	*o = (struct mrpy_options){ .keep = PyList_New(0) };
	mr_options_init(&o->opt);
	if (!o->keep)
		return -1;
	while (kw && PyDict_Next(kw, &at, &key, &value)) {
		const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

		if (!name)
			return -1;
		if (!strcmp(name, "pipeline") && !given)
			text = value;
		else if (set_by_name(o, function, name, value, json))
			return -1;
	}
	if (!text) {
		PyErr_Format(PyExc_TypeError,
			     "%s() takes one pipeline text; options go by "
			     "name",
			     function);
		return -1;
	}
	if (!PyUnicode_Check(text)) {
		PyErr_Format(PyExc_TypeError,
			     "%s(): the pipeline must be str, not %R", function,
			     (PyObject *)Py_TYPE(text));
		return -1;
	}
	*pipeline = bytes_of(text, "pipeline");
	return *pipeline ? 0 : -1;
}

void mrpy_options_fini(struct mrpy_options *o)
{
	Py_CLEAR(o->keep);
}
