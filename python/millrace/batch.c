/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch: a mapping from field names to arrays. Nothing is made before it is
 * asked for: a loop that throws batches away pays for one small object.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

struct batch {
	PyObject ob_base;
	struct mr_batch *b;
};

typedef PyObject *(*convert)(struct mrpy *, struct mr_batch *,
			     const struct mrpy_view *);

PyObject *mrpy_batch_new(struct mrpy *m, struct mr_batch *b)
{
	struct batch *self = PyObject_New(struct batch, m->batch_type);

	if (!self) {
		mr_batch_release(b);
		return NULL;
	}
	self->b = b;
	return (PyObject *)self;
}

static void batch_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	mr_batch_release(((struct batch *)self)->b);
	PyObject_Free(self);
	Py_DECREF(type);
}

static struct mr_batch *batch_of(PyObject *self)
{
	return ((struct batch *)self)->b;
}

static struct mrpy *module_of(PyObject *self)
{
	return PyType_GetModuleState(Py_TYPE(self));
}

/* ---- fields as views ---- */

static struct mrpy_view whole(const struct mr_field *f)
{
	struct mrpy_view v = {
		.kind = (int)f->tensor.dtype,
		.ndim = f->tensor.ndim,
		.data = f->tensor.data,
	};

	for (int i = 0; i < v.ndim; i++)
		v.shape[i] = (Py_ssize_t)f->tensor.shape[i];
	mrpy_view_pack(&v);
	return v;
}

/* The part of a padded or dense field that is the i-th sample's own. */
static struct mrpy_view row(const struct mr_field *f, uint64_t i)
{
	struct mrpy_view all = whole(f), v = all;

	v.ndim--;
	v.data = (char *)all.data + (Py_ssize_t)i * all.strides[0];
	for (int k = 0; k < v.ndim; k++) {
		v.strides[k] = all.strides[k + 1];
		v.shape[k] = all.shape[k + 1];
		if (f->shapes && k < f->sample_ndim)
			v.shape[k] =
				(Py_ssize_t)f->shapes[i * f->sample_ndim + k];
	}
	return v;
}

static struct mrpy_view ragged(const struct mr_field *f, uint64_t i)
{
	struct mrpy_view v = { .kind = (int)f->tensor.dtype,
			       .ndim = f->shapes ? f->sample_ndim : 1 };

	v.data =
		(char *)f->tensor.data + f->offsets[i] * mrpy_kind_size(v.kind);
	v.shape[0] = (Py_ssize_t)(f->offsets[i + 1] - f->offsets[i]);
	for (int k = 0; f->shapes && k < v.ndim; k++)
		v.shape[k] = (Py_ssize_t)f->shapes[i * f->sample_ndim + k];
	mrpy_view_pack(&v);
	return v;
}

/* As many as the batch has samples, but of a step after `batch`. */
static uint64_t rows_of(const struct mr_batch *b, const struct mr_field *f)
{
	return f->offsets ? mr_batch_count(b) : (uint64_t)f->tensor.shape[0];
}

static struct mrpy_view sample(const struct mr_field *f, uint64_t i)
{
	return f->offsets ? ragged(f, i) : row(f, i);
}

static PyObject *names(struct mr_batch *b)
{
	size_t n = mr_batch_fields(b);
	PyObject *out = PyTuple_New((Py_ssize_t)n);

	for (size_t i = 0; out && i < n; i++) {
		PyObject *s = mrpy_text(mr_batch_field(b, i)->name);

		if (!s || PyTuple_SetItem(out, (Py_ssize_t)i, s))
			Py_CLEAR(out);
	}
	return out;
}

/* The field called key, or NULL without an exception. */
static const struct mr_field *peek(PyObject *self, PyObject *key)
{
	const char *name;

	if (!PyUnicode_Check(key))
		return NULL;
	name = PyUnicode_AsUTF8AndSize(key, NULL);
	if (!name) {
		PyErr_Clear(); /* lone surrogates: no field is called so */
		return NULL;
	}
	return mr_batch_find(batch_of(self), name);
}

static const struct mr_field *find(PyObject *self, PyObject *key)
{
	const struct mr_field *f = peek(self, key);
	PyObject *all;

	if (f)
		return f;
	all = names(batch_of(self));
	if (all)
		PyErr_Format(PyExc_KeyError,
			     "no field %R in this batch; it has %R", key, all);
	Py_XDECREF(all);
	return NULL;
}

static PyObject *as(PyObject *self, const struct mr_field *f, convert to)
{
	struct mrpy_view v;

	if (!f)
		return NULL;
	v = whole(f);
	return to(module_of(self), batch_of(self), &v);
}

/* All fields in a dict. */
static PyObject *dict_of(PyObject *self, convert to)
{
	struct mr_batch *b = batch_of(self);
	PyObject *out = PyDict_New();

	for (size_t i = 0; out && i < mr_batch_fields(b); i++) {
		const struct mr_field *f = mr_batch_field(b, i);
		PyObject *x = as(self, f, to);

		if (!x || PyDict_SetItemString(out, f->name, x))
			Py_CLEAR(out);
		Py_XDECREF(x);
	}
	return out;
}

/* ---- as a mapping ---- */

static PyObject *batch_subscript(PyObject *self, PyObject *key)
{
	return as(self, find(self, key), mrpy_numpy);
}

static Py_ssize_t batch_len(PyObject *self)
{
	return (Py_ssize_t)mr_batch_fields(batch_of(self));
}

static int batch_contains(PyObject *self, PyObject *key)
{
	return peek(self, key) != NULL;
}

static PyObject *batch_iter(PyObject *self)
{
	PyObject *all = names(batch_of(self)), *it;

	if (!all)
		return NULL;
	it = PyObject_GetIter(all);
	Py_DECREF(all);
	return it;
}

static PyObject *batch_get(PyObject *self, PyObject *args)
{
	PyObject *key, *other = Py_None;
	const struct mr_field *f;

	if (!PyArg_ParseTuple(args, "O|O:get", &key, &other))
		return NULL;
	f = peek(self, key);
	return f ? as(self, f, mrpy_numpy) : Py_NewRef(other);
}

static PyObject *batch_keys(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyObject_CallFunctionObjArgs(module_of(self)->keys_view, self,
					    NULL);
}

static PyObject *batch_values(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyObject_CallFunctionObjArgs(module_of(self)->values_view, self,
					    NULL);
}

static PyObject *batch_items(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyObject_CallFunctionObjArgs(module_of(self)->items_view, self,
					    NULL);
}

/* ---- whole batches ---- */

static PyObject *batch_numpy(PyObject *self, PyObject *unused)
{
	(void)unused;
	return dict_of(self, mrpy_numpy);
}

static PyObject *batch_torch(PyObject *self, PyObject *unused)
{
	(void)unused;
	return dict_of(self, mrpy_torch);
}

static PyObject *batch_tensor(PyObject *self, PyObject *key)
{
	return as(self, find(self, key), mrpy_tensor_new);
}

static PyObject *batch_samples(PyObject *self, PyObject *key)
{
	const struct mr_field *f = find(self, key);
	struct mr_batch *b = batch_of(self);
	uint64_t n = f ? rows_of(b, f) : 0;
	PyObject *out = f ? PyList_New((Py_ssize_t)n) : NULL;

	for (uint64_t i = 0; out && i < n; i++) {
		struct mrpy_view v = sample(f, i);
		PyObject *x = mrpy_numpy(module_of(self), b, &v);

		if (!x || PyList_SetItem(out, (Py_ssize_t)i, x))
			Py_CLEAR(out);
	}
	return out;
}

/* Numbers of the batch as a read-only array of one or two dimensions. */
static PyObject *numbers(PyObject *self, int kind, const void *data,
			 uint64_t rows, int columns)
{
	struct mrpy_view v = {
		.kind = kind,
		.readonly = true,
		.ndim = columns < 0 ? 1 : 2,
		.shape = { (Py_ssize_t)rows, columns },
		.data = (void *)data,
	};

	mrpy_view_pack(&v);
	return mrpy_numpy(module_of(self), batch_of(self), &v);
}

static PyObject *batch_offsets(PyObject *self, PyObject *key)
{
	const struct mr_field *f = find(self, key);

	if (!f)
		return NULL;
	if (!f->offsets)
		return Py_NewRef(Py_None);
	return numbers(self, MR_I64, f->offsets,
		       mr_batch_count(batch_of(self)) + 1, -1);
}

static PyObject *batch_shapes(PyObject *self, PyObject *key)
{
	const struct mr_field *f = find(self, key);

	if (!f)
		return NULL;
	if (!f->shapes)
		return Py_NewRef(Py_None);
	return numbers(self, MR_I64, f->shapes, mr_batch_count(batch_of(self)),
		       f->sample_ndim);
}

static PyObject *batch_indices(PyObject *self, void *unused)
{
	struct mr_batch *b = batch_of(self);

	(void)unused;
	return numbers(self, MRPY_U64, mr_batch_indices(b), mr_batch_count(b),
		       -1);
}

static PyObject *key_of(struct mr_batch *b, size_t i)
{
	char small[256], *buf = small;
	size_t n = mr_batch_key(b, i, small, sizeof(small));
	PyObject *key;

	if (n >= sizeof(small)) {
		buf = malloc(n + 1);
		if (!buf)
			return PyErr_NoMemory();
		mr_batch_key(b, i, buf, n + 1);
	}
	key = mrpy_text(buf);
	if (buf != small)
		free(buf);
	return key;
}

static PyObject *batch_sample_keys(PyObject *self, void *unused)
{
	struct mr_batch *b = batch_of(self);
	uint64_t n = mr_batch_count(b);
	PyObject *out = PyList_New((Py_ssize_t)n);

	(void)unused;
	for (uint64_t i = 0; out && i < n; i++) {
		PyObject *key = key_of(b, i);

		if (!key || PyList_SetItem(out, (Py_ssize_t)i, key))
			Py_CLEAR(out);
	}
	return out;
}

static PyObject *batch_count(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(mr_batch_count(batch_of(self)));
}

static PyObject *batch_epoch(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(mr_batch_epoch(batch_of(self)));
}

static PyObject *batch_number(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(mr_batch_number(batch_of(self)));
}

static PyObject *batch_repr(PyObject *self)
{
	struct mr_batch *b = batch_of(self);
	PyObject *fields = dict_of(self, mrpy_tensor_new), *out = NULL;

	if (fields)
		out = PyUnicode_FromFormat(
			"<millrace.Batch %llu of epoch %llu, %llu samples: %R>",
			(unsigned long long)mr_batch_number(b),
			(unsigned long long)mr_batch_epoch(b),
			(unsigned long long)mr_batch_count(b), fields);
	Py_XDECREF(fields);
	return out;
}

static PyMethodDef methods[] = {
	{ "keys", batch_keys, METH_NOARGS,
	  "keys(self)\n--\n\nThe fields' names." },
	{ "values", batch_values, METH_NOARGS,
	  "values(self)\n--\n\nThe fields as NumPy arrays." },
	{ "items", batch_items, METH_NOARGS,
	  "items(self)\n--\n\nPairs of name and NumPy array." },
	{ "get", batch_get, METH_VARARGS,
	  "get(self, name, default=None, /)\n--\n\n"
	  "The field as a NumPy array, or default." },
	{ "numpy", batch_numpy, METH_NOARGS,
	  "numpy(self)\n--\n\nA dict of NumPy arrays, without a copy." },
	{ "torch", batch_torch, METH_NOARGS,
	  "torch(self)\n--\n\nA dict of torch tensors, without a copy." },
	{ "tensor", batch_tensor, METH_O,
	  "tensor(self, name, /)\n--\n\n"
	  "The field as a Tensor (buffer protocol, DLPack)." },
	{ "samples", batch_samples, METH_O,
	  "samples(self, name, /)\n--\n\n"
	  "One NumPy view per sample, each of its own shape: what ragged "
	  "and\npadded fields are made of." },
	{ "offsets", batch_offsets, METH_O,
	  "offsets(self, name, /)\n--\n\n"
	  "Where each sample of a ragged field begins, and the end; None for "
	  "others." },
	{ "shapes", batch_shapes, METH_O,
	  "shapes(self, name, /)\n--\n\n"
	  "The samples' own shapes in a ragged or padded field; None for "
	  "others." },
	{ 0 }
};

static PyGetSetDef members[] = {
	{ "count", batch_count, NULL, "samples in the batch", NULL },
	{ "epoch", batch_epoch, NULL, "the epoch it belongs to, from 0", NULL },
	{ "number", batch_number, NULL, "its place in the epoch, from 0",
	  NULL },
	{ "indices", batch_indices, NULL,
	  "the samples' numbers in the data set (NumPy, uint64)", NULL },
	{ "sample_keys", batch_sample_keys, NULL,
	  "the samples' keys (paths, members), a list of str", NULL },
	{ 0 }
};

int mrpy_batch_type(PyObject *module, struct mrpy *m)
{
	static PyType_Slot slots[] = {
		{ Py_tp_doc,
		  "A batch: batch[name] is a NumPy view of the field's memory, "
		  "which\nlives as long as the batch or any view of it." },
		{ Py_tp_dealloc, MRPY_SLOT(batch_dealloc) },
		{ Py_tp_repr, MRPY_SLOT(batch_repr) },
		{ Py_tp_iter, MRPY_SLOT(batch_iter) },
		{ Py_mp_subscript, MRPY_SLOT(batch_subscript) },
		{ Py_mp_length, MRPY_SLOT(batch_len) },
		{ Py_sq_contains, MRPY_SLOT(batch_contains) },
		{ Py_tp_methods, methods },
		{ Py_tp_getset, members },
		{ 0 }
	};
	/* Not immutable: Mapping.register() must be able to mark it. */
	static PyType_Spec spec = {
		.name = "millrace.Batch",
		.basicsize = sizeof(struct batch),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	m->batch_type =
		(PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
	return m->batch_type ? PyModule_AddType(module, m->batch_type) : -1;
}
