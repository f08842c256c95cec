/* SPDX-License-Identifier: Apache-2.0 */
/* Loader: opening, closing, and what is known of it. */
#include "loader.h"

#include <stdlib.h>
#include <unistd.h>

/* The module's state, from a type that may be a subclass. */
static struct mrpy *module_of(PyTypeObject *type)
{
	while (type) {
		struct mrpy *m = PyType_GetModuleState(type);

		if (m)
			return m;
		PyErr_Clear();
		type = PyType_GetSlot(type, Py_tp_base);
	}
	PyErr_SetString(PyExc_SystemError, "millrace: type without module");
	return NULL;
}

static struct mrpy_loader *loader_of(PyObject *self)
{
	return (struct mrpy_loader *)self;
}

struct mr_loader *mrpy_loader_get(struct mrpy_loader *lo)
{
	if (lo->l)
		return lo->l;
	if (!lo->m)
		PyErr_SetString(PyExc_RuntimeError,
				"Loader.__init__() has not been called");
	else
		mrpy_raise_state(lo->m, "the loader is closed");
	return NULL;
}

struct mr_loader *mrpy_loader_own(struct mrpy_loader *lo)
{
	struct mr_loader *l = mrpy_loader_get(lo);

	if (!l || !lo->busy)
		return l;
	if (lo->pid != getpid())
		mrpy_raise_state(lo->m, "a loader does not live on in a forked "
					"process: open one there");
	else
		PyErr_SetString(PyExc_RuntimeError,
				"the loader is already in use by another "
				"thread");
	return NULL;
}

/* ---- making and ending ---- */

static int loader_init(PyObject *self, PyObject *args, PyObject *kw)
{
	struct mrpy_loader *lo = loader_of(self);
	struct mrpy_options o;
	struct mr_loader *l;
	struct mr_err err;
	PyObject *pipeline = NULL;
	PyThreadState *gil;
	const char *text;
	int rc;

	if (lo->pipeline) {
		PyErr_SetString(PyExc_RuntimeError,
				"Loader.__init__() was called before");
		return -1;
	}
	lo->m = module_of(Py_TYPE(self));
	if (!lo->m)
		return -1;
	if (mrpy_options_init(&o, &pipeline, "Loader", args, kw, false)) {
		mrpy_options_fini(&o);
		return -1;
	}
	lo->pipeline = pipeline;
	text = PyBytes_AsString(pipeline);
	gil = PyEval_SaveThread();
	rc = mr_loader_open_with(&l, text, &o.opt, &err);
	PyEval_RestoreThread(gil);
	mrpy_options_fini(&o);
	if (rc) {
		mrpy_raise(lo->m, &err);
		return -1;
	}
	lo->l = l;
	lo->pid = getpid();
	return 0;
}

static void shut(struct mrpy_loader *lo)
{
	struct mr_loader *l = lo->l;
	PyThreadState *gil;

	if (!l)
		return;
	lo->l = NULL;
	gil = PyEval_SaveThread();
	mr_loader_close(l);
	PyEval_RestoreThread(gil);
}

static void loader_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release =
		__extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
	PyObject *type_, *value, *trace;

	PyErr_Fetch(&type_, &value, &trace);
	shut(loader_of(self));
	PyErr_Restore(type_, value, trace);
	Py_CLEAR(loader_of(self)->pipeline);
	release(self);
	Py_DECREF(type);
}

static PyObject *loader_close(PyObject *self, PyObject *unused)
{
	struct mrpy_loader *lo = loader_of(self);

	(void)unused;
	if (lo->l && !mrpy_loader_own(lo))
		return NULL;
	shut(lo);
	Py_RETURN_NONE;
}

static PyObject *loader_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	return mrpy_loader_get(loader_of(self)) ? Py_NewRef(self) : NULL;
}

static PyObject *loader_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return loader_close(self, NULL);
}

/* ---- what is known of it ---- */

static Py_ssize_t loader_len(PyObject *self)
{
	struct mr_loader *l = mrpy_loader_get(loader_of(self));

	return l ? (Py_ssize_t)mr_loader_epoch_batches(l) : -1;
}

static PyObject *loader_epoch_samples(PyObject *self, void *unused)
{
	struct mr_loader *l = mrpy_loader_get(loader_of(self));

	(void)unused;
	return l ? PyLong_FromUnsignedLongLong(mr_loader_epoch_samples(l)) :
		   NULL;
}

static PyObject *loader_dataset_samples(PyObject *self, void *unused)
{
	struct mr_loader *l = mrpy_loader_get(loader_of(self));

	(void)unused;
	return l ? PyLong_FromUnsignedLongLong(mr_loader_dataset_samples(l)) :
		   NULL;
}

static PyObject *loader_classes(PyObject *self, void *unused)
{
	struct mr_loader *l = mrpy_loader_get(loader_of(self));
	PyObject *out = l ? PyList_New(0) : NULL;
	const char *name;

	(void)unused;
	for (uint64_t i = 0; out && (name = mr_loader_class(l, i)); i++) {
		PyObject *s = mrpy_text(name);

		if (!s || PyList_Append(out, s))
			Py_CLEAR(out);
		Py_XDECREF(s);
	}
	return out;
}

static PyObject *loader_class_to_idx(PyObject *self, void *unused)
{
	PyObject *classes = loader_classes(self, unused);
	PyObject *out = classes ? PyDict_New() : NULL;

	for (Py_ssize_t i = 0; out && i < PyList_Size(classes); i++) {
		PyObject *n = PyLong_FromSsize_t(i);

		if (!n || PyDict_SetItem(out, PyList_GetItem(classes, i), n))
			Py_CLEAR(out);
		Py_XDECREF(n);
	}
	Py_XDECREF(classes);
	return out;
}

static PyObject *loader_pipeline(PyObject *self, void *unused)
{
	PyObject *p = loader_of(self)->pipeline;

	(void)unused;
	return p ? mrpy_text(PyBytes_AsString(p)) : Py_NewRef(Py_None);
}

static PyObject *loader_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!loader_of(self)->l);
}

/* May be called while another thread waits for a batch. */
static PyObject *loader_stats(PyObject *self, PyObject *unused)
{
	struct mrpy_loader *lo = loader_of(self);
	struct mr_loader *l = lo->busy == MRPY_WAITING ? mrpy_loader_get(lo) :
							 mrpy_loader_own(lo);
	struct mr_stats st;

	(void)unused;
	if (!l)
		return NULL;
	mr_loader_stats(l, &st);
	return mrpy_json(lo->m, mr_stats_json(&st));
}

static PyObject *bad_of(const struct mr_bad *bad)
{
	PyObject *key = mrpy_text(bad->key);
	PyObject *reason = key ? mrpy_text(bad->reason) : NULL;

	if (!reason) {
		Py_XDECREF(key);
		return NULL;
	}
	return Py_BuildValue("{s:K,s:K,s:N,s:K,s:s,s:N}", "index",
			     (unsigned long long)bad->index, "epoch",
			     (unsigned long long)bad->epoch, "key", key,
			     "offset", (unsigned long long)bad->offset, "step",
			     bad->step, "reason", reason);
}

static PyObject *loader_bad_samples(PyObject *self, PyObject *unused)
{
	struct mr_loader *l = mrpy_loader_own(loader_of(self));
	PyObject *out = l ? PyList_New(0) : NULL;
	struct mr_bad bad;

	(void)unused;
	for (size_t i = 0; out && mr_loader_bad(l, i, &bad); i++) {
		PyObject *d = bad_of(&bad);

		if (!d || PyList_Append(out, d))
			Py_CLEAR(out);
		Py_XDECREF(d);
	}
	return out;
}

static PyObject *loader_repr(PyObject *self)
{
	struct mrpy_loader *lo = loader_of(self);
	PyObject *text = loader_pipeline(self, NULL), *out;

	if (!text)
		return NULL;
	if (lo->l)
		out = PyUnicode_FromFormat(
			"<millrace.Loader %R: %llu samples in %llu batches>",
			text,
			(unsigned long long)mr_loader_epoch_samples(lo->l),
			(unsigned long long)mr_loader_epoch_batches(lo->l));
	else
		out = PyUnicode_FromFormat("<millrace.Loader %R: closed>",
					   text);
	Py_DECREF(text);
	return out;
}

/* ---- types ---- */

static PyMethodDef methods[] = {
	{ "state_dict", mrpy_state_dict, METH_NOARGS,
	  "state_dict(self)\n--\n\n"
	  "Where the loader stands, after the last batch that was given out: "
	  "a dict\nof integers, which load_state_dict() takes, and JSON too." },
	{ "load_state_dict", mrpy_load_state_dict, METH_O,
	  "load_state_dict(self, state, /)\n--\n\n"
	  "Continue from there, with the seed of the state. Refused when it is "
	  "of "
	  "another\npipeline, rank or data set." },
	{ "stats", loader_stats, METH_NOARGS,
	  "stats(self)\n--\n\n"
	  "Counters so far, as `millrace run --json` prints them: a dict. Any "
	  "thread\nmay ask, also while another waits for a batch." },
	{ "bad_samples", loader_bad_samples, METH_NOARGS,
	  "bad_samples(self)\n--\n\n"
	  "The samples that could not be used: a list of dicts (index, epoch, "
	  "key,\noffset, step, reason)." },
	{ "close", loader_close, METH_NOARGS,
	  "close(self)\n--\n\n"
	  "Stop the workers. Batches and views stay valid." },
	{ "__enter__", loader_enter, METH_NOARGS, NULL },
	{ "__exit__", loader_exit, METH_VARARGS, NULL },
	{ 0 }
};

static PyGetSetDef members[] = {
	{ "epoch_samples", loader_epoch_samples, NULL,
	  "samples of one epoch on this rank", NULL },
	{ "dataset_samples", loader_dataset_samples, NULL,
	  "samples of the whole data set", NULL },
	{ "classes", loader_classes, NULL,
	  "names of the classes by number; [] when the source has none", NULL },
	{ "class_to_idx", loader_class_to_idx, NULL,
	  "numbers of the classes by name", NULL },
	{ "pipeline", loader_pipeline, NULL, "the pipeline's text", NULL },
	{ "closed", loader_closed, NULL, "whether close() was called", NULL },
	{ 0 }
};

/* The signature and the options' help, from the table. */
static PyObject *make_doc(void)
{
	PyObject *signature = mrpy_options_signature();
	PyObject *help = mrpy_options_help(), *out = NULL;

	if (signature && help)
		out = PyUnicode_FromFormat(
			"Loader(pipeline, *, %U)\n--\n\n"
			"Run a pipeline: iterate for the batches of one "
			"epoch; the next loop gives\nthe next epoch, or what "
			"is left of one that a loop broke out of.\n\n"
			"Options; None is the default.\n%U",
			signature, help);
	Py_XDECREF(signature);
	Py_XDECREF(help);
	return out;
}

static int add_loader(PyObject *module, struct mrpy *m, const char *doc)
{
	PyType_Slot slots[] = { { Py_tp_doc, (void *)doc },
				{ Py_tp_init, MRPY_SLOT(loader_init) },
				{ Py_tp_dealloc, MRPY_SLOT(loader_dealloc) },
				{ Py_tp_repr, MRPY_SLOT(loader_repr) },
				{ Py_tp_iter, MRPY_SLOT(mrpy_iterator_new) },
				{ Py_sq_length, MRPY_SLOT(loader_len) },
				{ Py_tp_methods, methods },
				{ Py_tp_getset, members },
				{ 0 } };
	PyType_Spec spec = {
		.name = "millrace.Loader",
		.basicsize = sizeof(struct mrpy_loader),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = slots,
	};

	m->loader_type =
		(PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
	return m->loader_type ? PyModule_AddType(module, m->loader_type) : -1;
}

int mrpy_loader_types(PyObject *module, struct mrpy *m)
{
	PyObject *doc = make_doc();
	const char *text = doc ? PyUnicode_AsUTF8AndSize(doc, NULL) : NULL;
	int rc = text ? add_loader(module, m, text) : -1;

	Py_XDECREF(doc);
	return rc ? rc : mrpy_iterator_type(module, m);
}
