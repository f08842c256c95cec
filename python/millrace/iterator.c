/* SPDX-License-Identifier: Apache-2.0 */
/* The iterator over what is left of a loader's epoch. */
#include "loader.h"

enum { SLICE_MS = 100 }; /* how long Ctrl-C may have to wait */

struct iterator {
	PyObject ob_base;
	struct mrpy_loader *loader; /* NULL: the epoch is over */
};

/* As mr_loader_wait() without a limit; MR_AGAIN: there is an exception. */
static int take(struct mrpy_loader *lo, struct mr_batch **b, struct mr_err *err)
{
	struct mr_loader *l = mrpy_loader_own(lo);
	PyThreadState *gil;
	int rc;

	if (!l)
		return MR_AGAIN;
	/* Mostly one is ready, and the GIL need not change hands; but the
	 * first call starts the workers, which takes its time. */
	rc = lo->running ? mr_loader_wait(l, b, 0, err) : MR_AGAIN;
	while (rc == MR_AGAIN) {
		lo->busy = MRPY_WAITING;
		gil = PyEval_SaveThread();
		rc = mr_loader_wait(l, b, SLICE_MS, err);
		PyEval_RestoreThread(gil);
		lo->busy = MRPY_IDLE;
		if (rc != MR_AGAIN)
			break;
		if (PyErr_CheckSignals())
			break;
		l = mrpy_loader_own(lo); /* a handler may have closed it */
		if (!l)
			break;
	}
	return rc;
}

/* Was that the last batch of its epoch? */
static bool is_last(const struct mr_loader *l)
{
	struct mr_state st;

	mr_loader_state(l, &st);
	return st.batch == 0;
}

static PyObject *iterator_next(PyObject *self)
{
	struct iterator *it = (struct iterator *)self;
	struct mrpy_loader *lo = it->loader;
	PyObject *hold, *out = NULL;
	struct mr_batch *b;
	struct mr_err err;

	if (!lo)
		return NULL;
	/* A signal handler may end this iterator while we wait. */
	hold = Py_NewRef((PyObject *)lo);
	switch (take(lo, &b, &err)) {
	case MR_OK:
		lo->running = true;
		lo->ends = is_last(lo->l);
		out = mrpy_batch_new(lo->m, b);
		break;
	case MR_END:
		lo->ends = false;
		Py_CLEAR(it->loader);
		break;
	case MR_AGAIN:
		break;
	default:
		mrpy_raise(lo->m, &err);
	}
	Py_DECREF(hold);
	return out;
}

/* Who took all batches of an epoch, and asked for no more, did not see its
 * end, which is not the next loop's. */
static void pass_end(struct mrpy_loader *lo, struct mr_loader *l)
{
	struct mr_batch *b;
	struct mr_err err;

	if (lo->ends && mr_loader_wait(l, &b, 0, &err) == MR_OK)
		mr_batch_release(b); /* never: the end comes first */
	lo->ends = false;
}

PyObject *mrpy_iterator_new(PyObject *self)
{
	struct mrpy_loader *lo = (struct mrpy_loader *)self;
	struct mr_loader *l = mrpy_loader_get(lo);
	struct iterator *it;

	if (!l)
		return NULL;
	pass_end(lo, l);
	it = PyObject_GC_New(struct iterator, lo->m->iterator_type);
	if (!it)
		return NULL;
	it->loader = (struct mrpy_loader *)Py_NewRef(self);
	PyObject_GC_Track(it);
	return (PyObject *)it;
}

static int iterator_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(((struct iterator *)self)->loader);
	Py_VISIT(Py_TYPE(self));
	return 0;
}

static int iterator_clear(PyObject *self)
{
	Py_CLEAR(((struct iterator *)self)->loader);
	return 0;
}

static void iterator_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	iterator_clear(self);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

int mrpy_iterator_type(PyObject *module, struct mrpy *m)
{
	static PyType_Slot slots[] = {
		{ Py_tp_doc, "The batches of one epoch." },
		{ Py_tp_dealloc, MRPY_SLOT(iterator_dealloc) },
		{ Py_tp_traverse, MRPY_SLOT(iterator_traverse) },
		{ Py_tp_clear, MRPY_SLOT(iterator_clear) },
		{ Py_tp_iter, MRPY_SLOT(PyObject_SelfIter) },
		{ Py_tp_iternext, MRPY_SLOT(iterator_next) },
		{ 0 }
	};
	static PyType_Spec spec = {
		.name = "millrace._core.LoaderIterator",
		.basicsize = sizeof(struct iterator),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
			 Py_TPFLAGS_IMMUTABLETYPE |
			 Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	m->iterator_type =
		(PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
	return m->iterator_type ? 0 : -1;
}
