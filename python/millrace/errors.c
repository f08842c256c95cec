/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions: one class per kind of trouble, all of them millrace.Error. */
#include "core.h"

#include <string.h>

static const struct {
	const char *name; /* with the module's, as PyErr_NewException wants */
	const char *base; /* a builtin that it is too, or NULL */
	const char *doc;
} classes[MRPY_EXCEPTIONS] = {
	[MRPY_ERROR] = { "millrace.Error", "RuntimeError",
			 "Base of Millrace's exceptions: .code is the C "
			 "library's number, .text its message." },
	[MRPY_PIPELINE] = { "millrace.PipelineError", "ValueError",
			    "The pipeline's text or a parameter is wrong." },
	[MRPY_DATA] = { "millrace.DataError", NULL,
			"The data is corrupt, truncated or empty." },
	[MRPY_STORAGE] = { "millrace.StorageError", "OSError",
			   "Reading or writing failed." },
	[MRPY_LIMIT] = { "millrace.LimitError", NULL,
			 "More than a limit allows, such as memory=." },
	[MRPY_STATE] = { "millrace.StateError", NULL,
			 "Not possible now: closed, forked, or failed "
			 "before." },
	[MRPY_UNSUPPORTED] = { "millrace.UnsupportedError", NULL,
			       "This build or machine lacks what is needed." },
};

static enum mrpy_exception class_of(int code)
{
	switch (code) {
	case MR_EINVAL:
	case MR_EPARSE:
	case MR_ETYPE:
		return MRPY_PIPELINE;
	case MR_EIO:
		return MRPY_STORAGE;
	case MR_EDATA:
		return MRPY_DATA;
	case MR_ELIMIT:
		return MRPY_LIMIT;
	case MR_ESTATE:
		return MRPY_STATE;
	case MR_EUNSUPPORTED:
		return MRPY_UNSUPPORTED;
	default:
		return MRPY_ERROR;
	}
}

/* A new tuple of the class's bases. */
static PyObject *bases_of(const struct mrpy *m, int i)
{
	PyObject *builtins, *base, *bases = NULL;

	if (!classes[i].base)
		return PyTuple_Pack(1, m->exception[MRPY_ERROR]);
	builtins = PyImport_ImportModule("builtins");
	if (!builtins)
		return NULL;
	base = PyObject_GetAttrString(builtins, classes[i].base);
	Py_DECREF(builtins);
	if (base && i == MRPY_ERROR)
		bases = PyTuple_Pack(1, base);
	else if (base)
		bases = PyTuple_Pack(2, m->exception[MRPY_ERROR], base);
	Py_XDECREF(base);
	return bases;
}

int mrpy_exceptions_add(PyObject *module, struct mrpy *m)
{
	/* Also present on an exception that a user makes. */
	PyObject *members = Py_BuildValue("{s:i,s:s}", "code", 0, "text", "");
	int rc = members ? 0 : -1;

	for (int i = 0; i < MRPY_EXCEPTIONS && !rc; i++) {
		PyObject *bases = bases_of(m, i);

		if (bases)
			m->exception[i] = PyErr_NewExceptionWithDoc(
				classes[i].name, classes[i].doc, bases,
				i == MRPY_ERROR ? members : NULL);
		Py_XDECREF(bases);
		if (!m->exception[i] ||
		    PyModule_AddObjectRef(module,
					  strchr(classes[i].name, '.') + 1,
					  m->exception[i]))
			rc = -1;
	}
	Py_XDECREF(members);
	return rc;
}

PyObject *mrpy_raise(struct mrpy *m, const struct mr_err *err)
{
	PyObject *cls = err->code == MR_ENOMEM ?
				PyExc_MemoryError :
				m->exception[class_of(err->code)];
	/* For people: bytes that are no text are shown, not smuggled. */
	PyObject *text = PyUnicode_DecodeUTF8(
		err->text, (Py_ssize_t)strlen(err->text), "backslashreplace");
	PyObject *code = PyLong_FromLong(err->code);
	PyObject *e = NULL;

	if (text && code)
		e = PyObject_CallFunctionObjArgs(cls, text, NULL);
	if (e && !PyObject_SetAttrString(e, "code", code) &&
	    !PyObject_SetAttrString(e, "text", text))
		PyErr_SetObject(cls, e);
	Py_XDECREF(e);
	Py_XDECREF(code);
	Py_XDECREF(text);
	return NULL;
}

PyObject *mrpy_raise_state(struct mrpy *m, const char *text)
{
	struct mr_err err = { .code = MR_ESTATE };

	strncpy(err.text, text, sizeof(err.text) - 1);
	return mrpy_raise(m, &err);
}

PyObject *mrpy_text(const char *s)
{
	return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s),
				    "surrogateescape");
}
