/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class Group of counters.py in C: it is read before and after each step,
 * and what is done in between is not to push the data out of the CPU's caches.
 */
#include "_fast.h"

#include <structmember.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	TIMES = 2,    /* ns enabled and running, before perf's values */
	OF_USAGE = 7, /* of getrusage(): the same, and counters.py's _USAGE */
	MOST = 64,    /* values of a group */
	STEPS = 255,  /* the next one stands for what is in none */
	ODD = 4,      /* as in counters.py */
};

struct tally {
	uint64_t calls, wall, sums[MOST];
	double squares[MOST];
};

struct group {
	PyObject_HEAD PyObject *at, *own;
	int lead, events, values;
	char usage, open, begun;
	long long cost, spent;
	uint64_t began, first[MOST], last[MOST], before[MOST];
	double each[MOST]; /* own */
	struct tally *step[STEPS];
};

static struct group *of(PyObject *self)
{
	return (struct group *)self;
}

static uint64_t *read_usage(uint64_t *v)
{
	struct timespec t;
	struct rusage u;
	uint64_t ns, minor, major;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) ||
	    getrusage(RUSAGE_THREAD, &u))
		return NULL;
	ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	minor = (uint64_t)u.ru_minflt;
	major = (uint64_t)u.ru_majflt;
	*v++ = ns;
	*v++ = ns;
	*v++ = ns;
	*v++ = minor + major;
	*v++ = minor;
	*v++ = major;
	*v++ = (uint64_t)u.ru_nvcsw + (uint64_t)u.ru_nivcsw;
	return v;
}

/* False when that failed, and after close(). */
static bool read_values(const struct group *g, uint64_t *v)
{
	uint64_t told[1 + MOST]; /* how many, and they */
	size_t size = (size_t)(1 + TIMES + g->events) * sizeof(*told);

	if (!g->open)
		return false;
	if (g->events) {
		if (read(g->lead, told, size) != (ssize_t)size)
			return false;
		for (int i = 0; i < TIMES + g->events; i++)
			*v++ = told[1 + i];
	}
	return !g->usage || read_usage(v);
}

static struct tally *tally_of(struct group *g, int step)
{
	if (step < 0 || step >= STEPS)
		return NULL; /* one of more than there are numbers for */
	if (!g->step[step])
		g->step[step] = PyMem_Calloc(1, sizeof(struct tally));
	return g->step[step];
}

static void sum_up(struct group *g, struct tally *t, const uint64_t *after)
{
	for (int i = 0; i < g->values; i++) {
		uint64_t more = after[i] - g->before[i];
		double beyond = (double)more - g->each[i];

		t->sums[i] += more;
		if (g->own)
			t->squares[i] += beyond * beyond;
	}
}

void group_begin(PyObject *group)
{
	struct group *g = of(group);

	g->began = now();
	g->begun = read_values(g, g->before);
}

void group_add(PyObject *group, int step, uint64_t start, uint64_t end)
{
	struct group *g = of(group);
	uint64_t after[MOST];
	struct tally *t;
	long long spent;

	if (!g->begun || !read_values(g, after))
		return;
	g->begun = 0;
	t = tally_of(g, step);
	if (t) {
		t->calls++;
		t->wall += end - start;
		sum_up(g, t, after);
	}
	memcpy(g->last, after, (size_t)g->values * sizeof(*after));
	spent = (long long)(now() - end + start - g->began);
	g->spent += spent < ODD * g->cost ? spent : ODD * g->cost;
}

/* ---- for counters.py ---- */

/* X - Y, or X alone. */
static PyObject *tuple_of(const struct group *g, const uint64_t *x,
			  const uint64_t *y)
{
	PyObject *r = PyTuple_New(g->values);

	for (int i = 0; r && i < g->values; i++) {
		PyObject *n =
			PyLong_FromUnsignedLongLong(x[i] - (y ? y[i] : 0));

		if (!n || PyTuple_SetItem(r, i, n)) {
			Py_DECREF(r);
			return NULL;
		}
	}
	return r;
}

static PyObject *doubles_of(const struct group *g, const double *x)
{
	PyObject *r = PyTuple_New(g->values);

	for (int i = 0; r && i < g->values; i++) {
		PyObject *n = PyFloat_FromDouble(x[i]);

		if (!n || PyTuple_SetItem(r, i, n)) {
			Py_DECREF(r);
			return NULL;
		}
	}
	return r;
}

static PyObject *py_begin(PyObject *self, PyObject *none)
{
	(void)none;
	group_begin(self);
	Py_RETURN_NONE;
}

static PyObject *py_add(PyObject *self, PyObject *args)
{
	unsigned long long start, end;
	int step;

	if (!PyArg_ParseTuple(args, "iKK", &step, &start, &end))
		return NULL;
	group_add(self, step, start, end);
	Py_RETURN_NONE;
}

static PyObject *py_look(PyObject *self, PyObject *none)
{
	uint64_t v[MOST];

	(void)none;
	if (read_values(of(self), v))
		memcpy(of(self)->last, v,
		       (size_t)of(self)->values * sizeof(*v));
	Py_RETURN_NONE;
}

static PyObject *py_total(PyObject *self, PyObject *none)
{
	(void)none;
	return tuple_of(of(self), of(self)->last, of(self)->first);
}

static PyObject *py_steps(PyObject *self, PyObject *none)
{
	PyObject *list = PyList_New(0);

	(void)none;
	for (int i = 0; list && i < STEPS; i++) {
		const struct tally *t = of(self)->step[i];
		PyObject *sums, *squares, *one;
		int failed;

		if (!t || !t->calls)
			continue;
		sums = tuple_of(of(self), t->sums, NULL);
		squares = doubles_of(of(self), t->squares);
		one = sums && squares ? Py_BuildValue("(iKKOO)", i, t->calls,
						      t->wall, sums, squares) :
					NULL;
		Py_XDECREF(sums);
		Py_XDECREF(squares);
		failed = !one || PyList_Append(list, one);
		Py_XDECREF(one);
		if (failed) {
			Py_DECREF(list);
			return NULL;
		}
	}
	return list;
}

static void forget(struct group *g)
{
	for (int i = 0; i < STEPS; i++) {
		PyMem_Free(g->step[i]);
		g->step[i] = NULL;
	}
}

static PyObject *py_forget(PyObject *self, PyObject *none)
{
	(void)none;
	forget(of(self));
	Py_RETURN_NONE;
}

static PyObject *py_learned(PyObject *self, PyObject *args)
{
	struct group *g = of(self);
	PyObject *own;
	long long cost;

	if (!PyArg_ParseTuple(args, "LO!", &cost, &PyTuple_Type, &own))
		return NULL;
	for (int i = 0; i < g->values && i < PyTuple_Size(own); i++)
		g->each[i] = PyFloat_AsDouble(PyTuple_GetItem(own, i));
	if (PyErr_Occurred())
		return NULL;
	Py_INCREF(own);
	Py_XDECREF(g->own);
	g->own = own;
	g->cost = cost;
	g->spent = 0;
	memcpy(g->first, g->last, sizeof(g->first));
	Py_RETURN_NONE;
}

static PyObject *py_close(PyObject *self, PyObject *none)
{
	(void)none;
	of(self)->open = 0;
	Py_RETURN_NONE;
}

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	int lead, events, usage;
	struct group *g;
	PyObject *at;

	(void)kw;
	if (!PyArg_ParseTuple(args, "iipO", &lead, &events, &usage, &at))
		return NULL;
	if (events < 0 || events > MOST - TIMES - OF_USAGE) {
		PyErr_SetString(PyExc_ValueError, "too many events at once");
		return NULL;
	}
	g = (struct group *)PyType_GenericAlloc(type, 0);
	if (!g)
		return NULL;
	g->lead = lead;
	g->events = events;
	g->usage = (char)usage;
	g->values = (events ? TIMES + events : 0) + (usage ? OF_USAGE : 0);
	g->open = 1;
	g->cost = LLONG_MAX / ODD;
	Py_INCREF(at);
	g->at = at;
	return (PyObject *)g;
}

static void group_drop(PyObject *self)
{
	forget(of(self));
	Py_XDECREF(of(self)->at);
	Py_XDECREF(of(self)->own);
	drop(self);
}

static PyMethodDef methods[] = {
	{ "begin", py_begin, METH_NOARGS, NULL },
	{ "add", py_add, METH_VARARGS, NULL },
	{ "look", py_look, METH_NOARGS, NULL },
	{ "total", py_total, METH_NOARGS, NULL },
	{ "steps", py_steps, METH_NOARGS, NULL },
	{ "forget", py_forget, METH_NOARGS, NULL },
	{ "learned", py_learned, METH_VARARGS, NULL },
	{ "close", py_close, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

#define MEMBER(name, type)                                                \
	{                                                                 \
#name, type, offsetof(struct group, name), READONLY, NULL \
	}

static PyMemberDef members[] = {
	MEMBER(at, T_OBJECT),	   MEMBER(own, T_OBJECT),   MEMBER(lead, T_INT),
	MEMBER(spent, T_LONGLONG), { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, SLOT(group_new) },
	{ Py_tp_dealloc, SLOT(group_drop) },
	{ Py_tp_methods, methods },
	{ Py_tp_members, members },
	{ 0, NULL },
};

PyType_Spec group_type = {
	"millrace_hooks._fast.Group",
	sizeof(struct group),
	0,
	Py_TPFLAGS_DEFAULT,
	slots,
};
