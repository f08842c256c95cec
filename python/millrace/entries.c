/* SPDX-License-Identifier: Apache-2.0 */
/* millrace.list(): sources, steps and codecs with their parameters. */
#include "core.h"

static const char *const kind_names[] = {
	[MR_KIND_SOURCE] = "source",
	[MR_KIND_STEP] = "step",
	[MR_KIND_CODEC] = "codec",
};

static const char *const type_names[] = {
	[MR_P_END] = "",      [MR_P_INT] = "int",     [MR_P_REAL] = "real",
	[MR_P_BOOL] = "bool", [MR_P_SIZE] = "size",   [MR_P_TIME] = "time",
	[MR_P_TEXT] = "text", [MR_P_ENUM] = "enum",   [MR_P_DTYPE] = "dtype",
	[MR_P_INTS] = "ints", [MR_P_REALS] = "reals",
};

static PyObject *words_of(const struct mr_param *p)
{
	PyObject *out;

	if (p->type != MR_P_ENUM)
		return Py_NewRef(Py_None);
	out = PyList_New(0);
	for (int i = 0; out && p->words[i]; i++) {
		PyObject *w = PyUnicode_FromString(p->words[i]);

		if (!w || PyList_Append(out, w))
			Py_CLEAR(out);
		Py_XDECREF(w);
	}
	return out;
}

static PyObject *param_of(const struct mr_param *p)
{
	PyObject *words = words_of(p);

	if (!words)
		return NULL;
	return Py_BuildValue("{s:s,s:s,s:z,s:d,s:d,s:N,s:z}", "name", p->name,
			     "type", type_names[p->type], "default", p->def,
			     "min", p->min, "max", p->max, "words", words,
			     "help", p->help);
}

static PyObject *params_of(const struct mr_param *p)
{
	PyObject *out = PyList_New(0);

	for (; out && p && p->type != MR_P_END; p++) {
		PyObject *d = param_of(p);

		if (!d || PyList_Append(out, d))
			Py_CLEAR(out);
		Py_XDECREF(d);
	}
	return out;
}

static PyObject *entry_of(const struct mr_entry *e)
{
	PyObject *params = params_of(e->params);

	if (!params)
		return NULL;
	return Py_BuildValue("{s:s,s:s,s:z,s:z,s:N}", "kind",
			     kind_names[e->kind], "name", e->name, "help",
			     e->help, "missing", e->missing, "params", params);
}

PyObject *mrpy_list(PyObject *module, PyObject *unused)
{
	PyObject *out = PyList_New(0);
	struct mr_entry e;

	(void)module;
	(void)unused;
	for (size_t i = 0; out && mr_entry(i, &e); i++) {
		PyObject *d = entry_of(&e);

		if (!d || PyList_Append(out, d))
			Py_CLEAR(out);
		Py_XDECREF(d);
	}
	return out;
}
