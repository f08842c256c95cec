/* SPDX-License-Identifier: Apache-2.0 */
/* Where a loader stands, as a dict of integers. */
#include "loader.h"

#include <stddef.h>

/* The members of struct mr_state, in the order in which they are shown. */
static const struct {
	const char *name;
	size_t offset;
	bool is_signed;
} state_members[] = {
	{ "epoch", offsetof(struct mr_state, epoch), false },
	{ "batch", offsetof(struct mr_state, batch), false },
	{ "seed", offsetof(struct mr_state, seed), false },
	{ "samples", offsetof(struct mr_state, samples), false },
	{ "pipeline", offsetof(struct mr_state, pipeline), false },
	{ "rank", offsetof(struct mr_state, rank), true },
	{ "ranks", offsetof(struct mr_state, ranks), true },
};

enum { STATE_MEMBERS = sizeof(state_members) / sizeof(state_members[0]) };

PyObject *mrpy_state_dict(PyObject *self, PyObject *unused)
{
	struct mr_loader *l = mrpy_loader_own((struct mrpy_loader *)self);
	struct mr_state st;
	PyObject *out;

	(void)unused;
	if (!l)
		return NULL;
	mr_loader_state(l, &st);
	out = PyDict_New();
	for (int i = 0; out && i < STATE_MEMBERS; i++) {
		const void *p = (const char *)&st + state_members[i].offset;
		PyObject *n = state_members[i].is_signed ?
				      PyLong_FromLongLong(*(const int64_t *)p) :
				      PyLong_FromUnsignedLongLong(
					      *(const uint64_t *)p);

		if (!n || PyDict_SetItemString(out, state_members[i].name, n))
			Py_CLEAR(out);
		Py_XDECREF(n);
	}
	return out;
}

static int state_member(PyObject *state, int i, struct mr_state *st)
{
	const char *name = state_members[i].name;
	void *to = (char *)st + state_members[i].offset;
	PyObject *n = PyMapping_GetItemString(state, name);

	if (!n) {
		if (PyErr_ExceptionMatches(PyExc_KeyError))
			PyErr_Format(PyExc_ValueError,
				     "not a state of a loader: it has no '%s'",
				     name);
		return -1;
	}
	if (!PyLong_Check(n))
		PyErr_Format(PyExc_ValueError,
			     "state: '%s' must be a whole number, not %R", name,
			     n);
	else if (state_members[i].is_signed)
		*(int64_t *)to = PyLong_AsLongLong(n);
	else
		*(uint64_t *)to = PyLong_AsUnsignedLongLong(n);
	if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_ValueError,
			     "state: '%s' is out of range: %R", name, n);
	Py_DECREF(n);
	return PyErr_Occurred() ? -1 : 0;
}

PyObject *mrpy_load_state_dict(PyObject *self, PyObject *state)
{
	struct mrpy_loader *lo = (struct mrpy_loader *)self;
	PyThreadState *gil;
	struct mr_loader *l;
	struct mr_state st;
	struct mr_err err;
	int rc;

	if (!PyMapping_Check(state) || PyUnicode_Check(state)) {
		PyErr_Format(PyExc_TypeError,
			     "load_state_dict() takes what state_dict() gave, "
			     "not %R",
			     (PyObject *)Py_TYPE(state));
		return NULL;
	}
	for (int i = 0; i < STATE_MEMBERS; i++)
		if (state_member(state, i, &st))
			return NULL;
	l = mrpy_loader_own(lo);
	if (!l)
		return NULL;
	lo->busy = MRPY_SEEKING;
	gil = PyEval_SaveThread();
	rc = mr_loader_seek(l, &st, &err);
	PyEval_RestoreThread(gil);
	lo->busy = MRPY_IDLE;
	lo->running = lo->ends = false;
	if (rc)
		return mrpy_raise(lo->m, &err);
	Py_RETURN_NONE;
}
