/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of own.py in C: the same names, arguments and results. They need
 * nothing but CPython's limited API, from 3.8 on. (Group, of counters.py, is in
 * _group.c.)
 */
#include "_fast.h"

#include <structmember.h>
#include <time.h>

#define NO_SAMPLE ((1ull << 48) - 1)

enum {
	SPAN = 32,
	FIRST = 4096,
	CHUNK = 8 << 20,
	MANY = 64, /* as in sizes.py */
	SAMPLE = 2,
	STEP = 3,
	FAILED = 0x80,
	METHOD_DESCRIPTOR = 1 << 17, /* Py_TPFLAGS_: no bound method is made to
				      * be called at once */
};

uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- what own.py has from elsewhere ---- */

static struct {
	PyObject *own, *element_size, *nelement, *nbytes, *least, *group;
	PyObject *picture_size, *mode, *copy, *bind, *slow;
	PyObject *size, *known, *bands, *tensor, *array, *picture, *unknown;
} py;

/* ---- how many bytes ---- */

/* A call without arguments, as a number; -1 with an error. */
static long long asked(PyObject *x, PyObject *name)
{
	PyObject *r = PyObject_CallMethodObjArgs(x, name, NULL);
	long long n = r ? PyLong_AsLongLong(r) : -1;

	Py_XDECREF(r);
	return n;
}

static long long attribute(PyObject *x, PyObject *name)
{
	PyObject *r = PyObject_GetAttr(x, name);
	long long n = r ? PyLong_AsLongLong(r) : -1;

	Py_XDECREF(r);
	return n;
}

static long long tensor_size(PyObject *x)
{
	long long each = asked(x, py.element_size);
	long long n = each < 0 ? -1 : asked(x, py.nelement);

	return n < 0 ? -1 : each * n;
}

static long long any_size(PyObject *x)
{
	PyObject *r = PyObject_CallFunctionObjArgs(py.size, x, NULL);
	long long n = r ? PyLong_AsLongLong(r) : -1;

	Py_XDECREF(r);
	return n;
}

/* Pillow's, without its properties, which are Python code: its attribute is
 * private, so that whatever is new to us is sizes.py's to know. */
static long long picture_size(PyObject *x)
{
	PyObject *size = PyObject_GetAttr(x, py.picture_size);
	PyObject *mode = size ? PyObject_GetAttr(x, py.mode) : NULL;
	PyObject *bands = mode ? PyDict_GetItemWithError(py.bands, mode) : NULL;
	long long n = -1, w, h;

	if (bands && PyTuple_Check(size) &&
	    PyArg_ParseTuple(size, "LL", &w, &h))
		n = w * h * PyLong_AsLongLong(bands);
	Py_XDECREF(size);
	Py_XDECREF(mode);
	if (n >= 0)
		return n;
	PyErr_Clear();
	return any_size(x);
}

/* What sizes.py found out about the class, if it has met it. */
static long long one_size(PyObject *x)
{
	PyObject *how = PyDict_GetItem(py.known, (PyObject *)Py_TYPE(x));

	if (how == py.tensor)
		return tensor_size(x);
	if (how == py.array)
		return attribute(x, py.nbytes);
	if (how == py.picture)
		return picture_size(x);
	return how == py.unknown ? 0 : any_size(x);
}

static long long sum_sizes(PyObject *x)
{
	Py_ssize_t n = PySequence_Size(x);
	long long sum = 0;

	if (n > MANY)
		return any_size(x);
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(x, i);
		long long k = item ? one_size(item) : -1;

		Py_XDECREF(item);
		if (k < 0)
			return -1;
		sum += k;
	}
	return sum;
}

static uint64_t size_of(PyObject *x)
{
	bool several = PyTuple_CheckExact(x) || PyList_CheckExact(x);
	long long n = several ? sum_sizes(x) : one_size(x);

	if (n < 0)
		PyErr_Clear();
	return n < 0 ? 0 : (uint64_t)n;
}

/* ---- Own ---- */

static PyTypeObject *group_class;

struct own {
	PyObject_HEAD PyObject *flush, *role, *name, *counters, *counted, *slow;
	int number;
	unsigned batch;
	unsigned long long sample;
	char open, pinning;
	long long least; /* slow.least */
	uint8_t *spans;
	size_t used, cap;
};

static uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*p++ = (uint8_t)(value >> 8 * i);
	return p;
}

/* docs/trace-format.md. Without memory, it is lost. */
static void write_span(struct own *o, uint64_t start, uint64_t end,
		       uint64_t sample, int kind, int step, unsigned batch,
		       uint64_t bytes)
{
	uint8_t *p;

	if (o->used + SPAN > o->cap) {
		size_t cap = o->cap ? 2 * o->cap : FIRST;
		uint8_t *more = PyMem_Realloc(o->spans, cap);

		if (!more)
			return;
		o->spans = more;
		o->cap = cap;
	}
	p = o->spans + o->used;
	p = put(p, start, 8);
	p = put(p, end - start, 8);
	p = put(p, sample, 6);
	p = put(p, (uint64_t)kind, 1);
	p = put(p, (uint64_t)step, 1);
	p = put(p, batch, 4);
	put(p, bytes < UINT32_MAX ? bytes : UINT32_MAX, 4);
	o->used += SPAN;
}

/* Of the sample and batch at hand. False with an error. */
static bool add_span(struct own *o, uint64_t start, uint64_t end, int kind,
		     int step, uint64_t bytes)
{
	PyObject *r;

	write_span(o, start, end, o->sample, kind, step, o->batch, bytes);
	if (o->used < CHUNK)
		return true;
	r = PyObject_CallFunctionObjArgs(o->flush, NULL);
	Py_XDECREF(r);
	return r != NULL;
}

static PyObject *own_span(PyObject *self, PyObject *args)
{
	unsigned long long start, end, bytes = 0;
	int kind, step = 0;

	if (!PyArg_ParseTuple(args, "KKi|iK", &start, &end, &kind, &step,
			      &bytes) ||
	    !add_span((struct own *)self, start, end, kind, step, bytes))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *own_span_of(PyObject *self, PyObject *args)
{
	unsigned long long start, end, sample = NO_SAMPLE;
	unsigned batch;
	int kind;

	if (!PyArg_ParseTuple(args, "IKKi|K", &batch, &start, &end, &kind,
			      &sample))
		return NULL;
	write_span((struct own *)self, start, end, sample, kind, 0, batch, 0);
	Py_RETURN_NONE;
}

static PyObject *own_take(PyObject *self, PyObject *none)
{
	struct own *o = (struct own *)self;
	PyObject *r = PyBytes_FromStringAndSize((const char *)o->spans,
						(Py_ssize_t)o->used);

	(void)none;
	o->used = 0;
	return r;
}

/* An error that is on its way, kept while other Python code runs. */
struct pending {
	PyObject *type, *value, *trace;
};

/* What was left behind by our own calls gives way to it. */
static void restore(struct pending *p)
{
	if (p->type)
		PyErr_Restore(p->type, p->value, p->trace);
}

static bool is_set(PyObject *x)
{
	return x && x != Py_None;
}

static PyObject *run(struct own *o, PyObject *call, PyObject *args,
		     PyObject *kw, int step)
{
	PyObject *counted = is_set(o->counted) ? o->counted : NULL, *out;
	struct pending error = { 0 };
	uint64_t start, end;

	o->open = 0;
	Py_XINCREF(counted);
	if (counted)
		group_begin(counted);
	start = now();
	out = PyObject_Call(call, args, kw);
	end = now();
	if (!out)
		PyErr_Fetch(&error.type, &error.value, &error.trace);
	if (counted)
		group_add(counted, step, start, end);
	if (!add_span(o, start, end, out ? STEP : STEP | FAILED, step,
		      out ? size_of(out) : 0))
		PyErr_Clear();
	restore(&error);
	o->open = 1;
	Py_XDECREF(counted);
	return out;
}

static PyObject *own_run(PyObject *self, PyObject *args)
{
	PyObject *call, *with, *kw;
	int step;

	if (!PyArg_ParseTuple(args, "OO!O!i", &call, &PyTuple_Type, &with,
			      &PyDict_Type, &kw, &step))
		return NULL;
	return run((struct own *)self, call, with, kw, step);
}

/* slow.note(ns, number, *args), and what it wants to know from then on. */
static void note(struct own *o, uint64_t ns, unsigned long long number,
		 PyObject *args)
{
	PyObject *head = Py_BuildValue("(KK)", (unsigned long long)ns, number);
	PyObject *all = head ? PySequence_Concat(head, args) : NULL;
	PyObject *f = PyObject_GetAttrString(o->slow, "note");
	PyObject *r = all && f ? PyObject_CallObject(f, all) : NULL;

	if (r)
		o->least = attribute(o->slow, py.least);
	if (!r || PyErr_Occurred())
		PyErr_Clear();
	Py_XDECREF(r);
	Py_XDECREF(f);
	Py_XDECREF(all);
	Py_XDECREF(head);
}

static void sample_done(struct own *o, PyObject *x, uint64_t start,
			unsigned long long number, PyObject *args)
{
	uint64_t end = now();

	if (!add_span(o, start, end, SAMPLE, 0, size_of(x)))
		PyErr_Clear();
	if (number != NO_SAMPLE && (long long)(end - start) > o->least)
		note(o, end - start, number, args);
}

static PyObject *own_timed(PyObject *self, PyObject *a)
{
	struct own *o = (struct own *)self;
	struct pending error = { 0 };
	PyObject *get, *args, *counted, *group, *was, *x, *r;
	unsigned long long number, sample = o->sample;
	char open = o->open;
	uint64_t start;

	if (!PyArg_ParseTuple(a, "OO!KO", &get, &PyTuple_Type, &args, &number,
			      &counted))
		return NULL;
	was = o->counted;
	group = is_set(counted) ? PyObject_GetAttr(counted, py.group) : NULL;
	if (group && Py_TYPE(group) != group_class) {
		PyErr_SetString(PyExc_TypeError, "not a Group of this module");
		Py_DECREF(group);
		return NULL;
	}
	if (is_set(counted) && !group)
		return NULL;
	o->counted = group;
	o->sample = number;
	o->open = 1;
	start = now();
	x = PyObject_Call(get, args, NULL);
	if (x) {
		sample_done(o, x, start, number, args);
	} else {
		bool ends = PyErr_ExceptionMatches(PyExc_StopIteration);

		PyErr_Fetch(&error.type, &error.value, &error.trace);
		if (!ends && !add_span(o, start, now(), SAMPLE | FAILED, 0, 0))
			PyErr_Clear();
	}
	o->sample = sample;
	o->open = open;
	o->counted = was;
	Py_XDECREF(group);
	if (group) {
		r = PyObject_CallMethod(counted, "end", "K",
					(unsigned long long)(now() - start));
		if (!r)
			PyErr_Clear();
		Py_XDECREF(r);
	}
	restore(&error);
	return x;
}

static PyObject *own_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct own *o;
	PyObject *flush;

	(void)kw;
	if (!PyArg_ParseTuple(args, "O", &flush))
		return NULL;
	o = (struct own *)PyType_GenericAlloc(type, 0);
	if (!o)
		return NULL;
	o->batch = UINT32_MAX;
	o->sample = NO_SAMPLE;
	o->least = -1;
	Py_INCREF(flush);
	o->flush = flush;
	o->slow = PyObject_CallFunctionObjArgs(py.slow, NULL);
	if (!o->slow) {
		Py_DECREF((PyObject *)o);
		return NULL;
	}
	return (PyObject *)o;
}

void drop(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static void own_drop(PyObject *self)
{
	struct own *o = (struct own *)self;

	PyMem_Free(o->spans);
	Py_XDECREF(o->flush);
	Py_XDECREF(o->role);
	Py_XDECREF(o->name);
	Py_XDECREF(o->counters);
	Py_XDECREF(o->counted);
	Py_XDECREF(o->slow);
	drop(self);
}

static PyMethodDef own_methods[] = {
	{ "span", own_span, METH_VARARGS, NULL },
	{ "span_of", own_span_of, METH_VARARGS, NULL },
	{ "take", own_take, METH_NOARGS, NULL },
	{ "run", own_run, METH_VARARGS, NULL },
	{ "timed", own_timed, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

#define MEMBER(name, type)                                       \
	{                                                        \
#name, type, offsetof(struct own, name), 0, NULL \
	}

static PyMemberDef own_members[] = {
	MEMBER(flush, T_OBJECT),     MEMBER(role, T_OBJECT),
	MEMBER(name, T_OBJECT),	     MEMBER(counters, T_OBJECT),
	MEMBER(counted, T_OBJECT),   MEMBER(slow, T_OBJECT),
	MEMBER(number, T_INT),	     MEMBER(batch, T_UINT),
	MEMBER(sample, T_ULONGLONG), MEMBER(open, T_BOOL),
	MEMBER(pinning, T_BOOL),     { NULL, 0, 0, 0, NULL },
};

static PyType_Slot own_slots[] = {
	{ Py_tp_new, SLOT(own_new) },
	{ Py_tp_dealloc, SLOT(own_drop) },
	{ Py_tp_methods, own_methods },
	{ Py_tp_members, own_members },
	{ 0, NULL },
};

static PyType_Spec own_type = {
	"millrace_hooks._fast.Own", sizeof(struct own), 0,
	Py_TPFLAGS_DEFAULT,	    own_slots,
};

/* The one of this thread. It is held while it is used: a child that a step
 * forks gets another one. */
static PyTypeObject *own_class;

static struct own *own_of(PyObject *local)
{
	PyObject *o = PyObject_GetAttr(local, py.own);

	if (!o || Py_TYPE(o) == own_class)
		return (struct own *)o;
	Py_DECREF(o);
	PyErr_SetString(PyExc_TypeError, "not an Own of this module");
	return NULL;
}

/* ---- Function ---- */

struct function {
	PyObject_HEAD PyObject *call, *local;
	int step;
};

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	PyObject *call, *local;
	struct function *f;
	int step;

	(void)kw;
	if (!PyArg_ParseTuple(args, "OiO", &call, &step, &local))
		return NULL;
	f = (struct function *)PyType_GenericAlloc(type, 0);
	if (!f)
		return NULL;
	Py_INCREF(call);
	Py_INCREF(local);
	f->call = call;
	f->local = local;
	f->step = step;
	return (PyObject *)f;
}

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *kw)
{
	struct function *f = (struct function *)self;
	struct own *o = own_of(f->local);
	PyObject *r;

	if (!o)
		return NULL;
	r = o->open ? run(o, f->call, args, kw, f->step) :
		      PyObject_Call(f->call, args, kw);
	Py_DECREF((PyObject *)o);
	return r;
}

static PyObject *function_attribute(PyObject *self, PyObject *name)
{
	PyObject *x = PyObject_GenericGetAttr(self, name);

	if (x || !PyErr_ExceptionMatches(PyExc_AttributeError))
		return x;
	PyErr_Clear();
	return PyObject_GetAttr(((struct function *)self)->call, name);
}

static PyObject *function_repr(PyObject *self)
{
	return PyObject_Repr(((struct function *)self)->call);
}

/* Arrives as the function itself, also where nothing is traced. */
static PyObject *function_reduce(PyObject *self, PyObject *none)
{
	(void)none;
	return Py_BuildValue("O(O)", py.copy, ((struct function *)self)->call);
}

/* In a list of a data set's, of which the function may be a method. */
static int function_visit(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(((struct function *)self)->call);
	Py_VISIT(((struct function *)self)->local);
	return 0;
}

static int function_clear(PyObject *self)
{
	Py_CLEAR(((struct function *)self)->call);
	Py_CLEAR(((struct function *)self)->local);
	return 0;
}

static void function_drop(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	function_clear(self);
	PyObject_GC_Del(self);
	Py_DECREF((PyObject *)type);
}

static PyMethodDef function_methods[] = {
	{ "__reduce__", function_reduce, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyMemberDef function_members[] = {
	{ "__wrapped__", T_OBJECT, offsetof(struct function, call), READONLY,
	  NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot function_slots[] = {
	{ Py_tp_new, SLOT(function_new) },
	{ Py_tp_dealloc, SLOT(function_drop) },
	{ Py_tp_traverse, SLOT(function_visit) },
	{ Py_tp_clear, SLOT(function_clear) },
	{ Py_tp_call, SLOT(function_call) },
	{ Py_tp_getattro, SLOT(function_attribute) },
	{ Py_tp_repr, SLOT(function_repr) },
	{ Py_tp_methods, function_methods },
	{ Py_tp_members, function_members },
	{ 0, NULL },
};

static PyType_Spec function_type = {
	"millrace_hooks._fast.Function",	 sizeof(struct function), 0,
	Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, function_slots,
};

/* ---- Method ---- */

struct method {
	PyObject_HEAD PyObject *call, *numbers, *through, *local, *unknown;
};

static PyObject *method_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	PyObject *call, *numbers, *through, *local, *unknown;
	struct method *m;

	(void)kw;
	if (!PyArg_ParseTuple(args, "OO!O!OO", &call, &PyDict_Type, &numbers,
			      &PySet_Type, &through, &local, &unknown))
		return NULL;
	m = (struct method *)PyType_GenericAlloc(type, 0);
	if (!m)
		return NULL;
	m->call = call;
	m->numbers = numbers;
	m->through = through;
	m->local = local;
	m->unknown = unknown;
	Py_INCREF(call);
	Py_INCREF(numbers);
	Py_INCREF(through);
	Py_INCREF(local);
	Py_INCREF(unknown);
	return (PyObject *)m;
}

enum { ERROR = -2, AS_EVER = -1 };

/* A step's number, or one of the above. */
static int step_of(const struct method *m, PyObject *obj)
{
	PyObject *key = PyLong_FromVoidPtr(obj), *known, *told = NULL;
	int through = key ? PySet_Contains(m->through, key) : -1;
	long step = AS_EVER;

	if (through == 0) {
		known = PyDict_GetItemWithError(m->numbers, key);
		if (!known && !PyErr_Occurred())
			known = told = PyObject_CallFunctionObjArgs(m->unknown,
								    obj, NULL);
		if (known && known != Py_None)
			step = PyLong_AsLong(known);
	}
	Py_XDECREF(told);
	Py_XDECREF(key);
	return through < 0 || PyErr_Occurred() ? ERROR : (int)step;
}

static PyObject *method_call(PyObject *self, PyObject *args, PyObject *kw)
{
	struct method *m = (struct method *)self;
	struct own *o = own_of(m->local);
	PyObject *r = NULL;
	int step = AS_EVER;

	if (!o)
		return NULL;
	if (o->open && PyTuple_Size(args) > 0)
		step = step_of(m, PyTuple_GetItem(args, 0));
	if (step != ERROR)
		r = step == AS_EVER ? PyObject_Call(m->call, args, kw) :
				      run(o, m->call, args, kw, step);
	Py_DECREF((PyObject *)o);
	return r;
}

static PyObject *method_get(PyObject *self, PyObject *obj, PyObject *type)
{
	(void)type;
	if (is_set(obj))
		return PyObject_CallFunctionObjArgs(py.bind, self, obj, NULL);
	Py_INCREF(self);
	return self;
}

static PyObject *method_attribute(PyObject *self, PyObject *name)
{
	PyObject *x = PyObject_GenericGetAttr(self, name);

	if (x || !PyErr_ExceptionMatches(PyExc_AttributeError))
		return x;
	PyErr_Clear();
	return PyObject_GetAttr(((struct method *)self)->call, name);
}

static void method_drop(PyObject *self)
{
	struct method *m = (struct method *)self;

	Py_XDECREF(m->call);
	Py_XDECREF(m->numbers);
	Py_XDECREF(m->through);
	Py_XDECREF(m->local);
	Py_XDECREF(m->unknown);
	drop(self);
}

static PyMemberDef method_members[] = {
	{ "__wrapped__", T_OBJECT, offsetof(struct method, call), READONLY,
	  NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot method_slots[] = {
	{ Py_tp_new, SLOT(method_new) },
	{ Py_tp_dealloc, SLOT(method_drop) },
	{ Py_tp_call, SLOT(method_call) },
	{ Py_tp_descr_get, SLOT(method_get) },
	{ Py_tp_getattro, SLOT(method_attribute) },
	{ Py_tp_members, method_members },
	{ 0, NULL },
};

static PyType_Spec method_type = {
	"millrace_hooks._fast.Method",		sizeof(struct method), 0,
	Py_TPFLAGS_DEFAULT | METHOD_DESCRIPTOR, method_slots,
};

/* ---- the module ---- */

/* module.name, or NULL with an error. */
static PyObject *from(const char *module, const char *name)
{
	PyObject *m = PyImport_ImportModule(module);
	PyObject *x = m ? PyObject_GetAttrString(m, name) : NULL;

	Py_XDECREF(m);
	return x;
}

static bool find_all(void)
{
	const struct {
		PyObject **to;
		const char *module, *name;
	} all[] = {
		{ &py.own, NULL, "own" },
		{ &py.element_size, NULL, "element_size" },
		{ &py.nelement, NULL, "nelement" },
		{ &py.nbytes, NULL, "nbytes" },
		{ &py.least, NULL, "least" },
		{ &py.group, NULL, "group" },
		{ &py.picture_size, NULL, "_size" },
		{ &py.mode, NULL, "mode" },
		{ &py.copy, "copy", "copy" },
		{ &py.bind, "types", "MethodType" },
		{ &py.slow, "millrace_hooks.names", "Slow" },
		{ &py.size, "millrace_hooks.sizes", "size" },
		{ &py.known, "millrace_hooks.sizes", "_known" },
		{ &py.bands, "millrace_hooks.sizes", "_bands" },
		{ &py.tensor, "millrace_hooks.sizes", "_tensor" },
		{ &py.array, "millrace_hooks.sizes", "_array" },
		{ &py.picture, "millrace_hooks.sizes", "_picture" },
		{ &py.unknown, "millrace_hooks.sizes", "_unknown" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		*all[i].to = all[i].module ?
				     from(all[i].module, all[i].name) :
				     PyUnicode_InternFromString(all[i].name);
		if (!*all[i].to)
			return false;
	}
	return PyDict_Check(py.known) && PyDict_Check(py.bands);
}

bool add_type(PyObject *m, const char *name, PyType_Spec *spec,
	      PyTypeObject **kept)
{
	PyObject *type = PyType_FromSpec(spec);

	if (!type)
		return false;
	if (kept) {
		Py_INCREF(type);
		*kept = (PyTypeObject *)type;
	}
	if (!PyModule_AddObject(m, name, type))
		return true;
	Py_DECREF(type);
	return false;
}

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_fast",
	.m_size = -1,
};

PyMODINIT_FUNC PyInit__fast(void);

PyMODINIT_FUNC PyInit__fast(void)
{
	PyObject *m = PyModule_Create(&module);

	if (m && find_all() && add_type(m, "Own", &own_type, &own_class) &&
	    add_type(m, "Group", &group_type, &group_class) &&
	    add_type(m, "Function", &function_type, NULL) &&
	    add_type(m, "Method", &method_type, NULL))
		return m;
	Py_XDECREF(m);
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_ImportError, "not as it was built for");
	return NULL;
}
