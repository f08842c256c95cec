/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor: a part of a batch's memory, for NumPy through the buffer protocol
 * and for others through DLPack. It holds the batch by a C reference.
 */
#include "core.h"

#include <stdlib.h>

#include "dlpack.h"

struct tensor {
	PyObject ob_base;
	struct mr_batch *batch;
	struct mrpy_view v;
};

/* NumPy's own int64 is C's long where that has 64 bits: 'q' would give it
 * arrays of another type that merely compares equal. */
#define FORMAT_I64 (sizeof(long) == 8 ? "l" : "q")
#define FORMAT_U64 (sizeof(long) == 8 ? "L" : "Q")

static const struct kind {
	const char *name, *format;
	uint8_t code, bits; /* of DLPack */
} kinds[MRPY_KINDS] = {
	[MR_U8] = { "u8", "B", DL_UINT, 8 },
	[MR_I16] = { "i16", "h", DL_INT, 16 },
	[MR_I32] = { "i32", "i", DL_INT, 32 },
	[MR_I64] = { "i64", FORMAT_I64, DL_INT, 64 },
	[MR_F16] = { "f16", "e", DL_FLOAT, 16 },
	[MR_F32] = { "f32", "f", DL_FLOAT, 32 },
	[MR_F64] = { "f64", "d", DL_FLOAT, 64 },
	[MRPY_U64] = { "u64", FORMAT_U64, DL_UINT, 64 },
};

const char *mrpy_kind_name(int kind)
{
	return kinds[kind].name;
}

Py_ssize_t mrpy_kind_size(int kind)
{
	return kinds[kind].bits / 8;
}

void mrpy_view_pack(struct mrpy_view *v)
{
	Py_ssize_t stride = mrpy_kind_size(v->kind);

	for (int i = v->ndim - 1; i >= 0; i--) {
		v->strides[i] = stride;
		stride *= v->shape[i];
	}
}

static Py_ssize_t view_bytes(const struct mrpy_view *v)
{
	Py_ssize_t n = mrpy_kind_size(v->kind);

	for (int i = 0; i < v->ndim; i++)
		n *= v->shape[i];
	return n;
}

PyObject *mrpy_tensor_new(struct mrpy *m, struct mr_batch *b,
			  const struct mrpy_view *v)
{
	static char nothing[8]; /* an address for arrays without elements */
	struct tensor *t = PyObject_New(struct tensor, m->tensor_type);

	if (!t)
		return NULL;
	mr_batch_ref(b);
	t->batch = b;
	t->v = *v;
	if (!t->v.data)
		t->v.data = nothing;
	return (PyObject *)t;
}

static void tensor_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	mr_batch_release(((struct tensor *)self)->batch);
	PyObject_Free(self);
	Py_DECREF(type);
}

static struct mrpy_view *view_of(PyObject *self)
{
	return &((struct tensor *)self)->v;
}

/* f(tensor of v), as a new reference */
static PyObject *hand_over(struct mrpy *m, struct mr_batch *b,
			   const struct mrpy_view *v, PyObject *f)
{
	PyObject *t, *out;

	if (!f)
		return NULL;
	t = mrpy_tensor_new(m, b, v);
	if (!t)
		return NULL;
	out = PyObject_CallFunctionObjArgs(f, t, NULL);
	Py_DECREF(t);
	return out;
}

PyObject *mrpy_numpy(struct mrpy *m, struct mr_batch *b,
		     const struct mrpy_view *v)
{
	return hand_over(m, b, v, mrpy_asarray(m));
}

PyObject *mrpy_torch(struct mrpy *m, struct mr_batch *b,
		     const struct mrpy_view *v)
{
	return hand_over(m, b, v, mrpy_from_dlpack(m));
}

/* ---- buffer protocol ---- */

static int tensor_getbuffer(PyObject *self, Py_buffer *buf, int flags)
{
	struct mrpy_view *v = view_of(self);
	bool want_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
		      (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
	bool want_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
	bool want_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;

	*buf = (Py_buffer){
		.buf = v->data,
		.len = view_bytes(v),
		.itemsize = mrpy_kind_size(v->kind),
		.readonly = v->readonly,
		.ndim = v->ndim,
		.format = (char *)kinds[v->kind].format,
		.shape = v->shape,
		.strides = v->strides,
	};
	if ((flags & PyBUF_WRITABLE) && v->readonly) {
		PyErr_SetString(PyExc_BufferError, "this view is read-only");
		return -1;
	}
	if ((want_c && !PyBuffer_IsContiguous(buf, 'C')) ||
	    (want_f && !PyBuffer_IsContiguous(buf, 'F')) ||
	    (want_any && !PyBuffer_IsContiguous(buf, 'A'))) {
		PyErr_SetString(PyExc_BufferError,
				"this view is not contiguous");
		return -1;
	}
	if (!(flags & PyBUF_FORMAT))
		buf->format = NULL;
	if (!(flags & PyBUF_ND))
		buf->shape = NULL;
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
		buf->strides = NULL;
	buf->obj = Py_NewRef(self);
	return 0;
}

/* ---- DLPack ---- */

struct lent {
	struct dl_managed managed;
	int64_t shape[MR_MAX_DIMS], strides[MR_MAX_DIMS];
};

/* No Python here: consumers call this from any thread, GIL or not. */
static void lent_delete(struct dl_managed *self)
{
	mr_batch_release(self->context);
	free(self);
}

/* A capsule that nobody took still owns its tensor; one that was taken has
 * been renamed. */
static void capsule_free(PyObject *capsule)
{
	struct dl_managed *d;

	if (!PyCapsule_IsValid(capsule, "dltensor"))
		return;
	d = PyCapsule_GetPointer(capsule, "dltensor");
	d->deleter(d);
}

static PyObject *lend(struct tensor *t)
{
	const struct mrpy_view *v = &t->v;
	struct lent *d = calloc(1, sizeof(*d));
	PyObject *capsule;

	if (!d)
		return PyErr_NoMemory();
	for (int i = 0; i < v->ndim; i++) {
		d->shape[i] = v->shape[i];
		d->strides[i] = v->strides[i] / mrpy_kind_size(v->kind);
	}
	d->managed = (struct dl_managed){
		.tensor = {
			.data = v->data,
			.device = { DL_CPU, 0 },
			.ndim = v->ndim,
			.dtype = { kinds[v->kind].code, kinds[v->kind].bits, 1 },
			.shape = d->shape,
			.strides = d->strides,
		},
		.context = t->batch,
		.deleter = lent_delete,
	};
	mr_batch_ref(t->batch);
	capsule = PyCapsule_New(&d->managed, "dltensor", capsule_free);
	if (!capsule)
		lent_delete(&d->managed);
	return capsule;
}

/* None or (1, 0): the only place we have data in. */
static int check_device(PyObject *device)
{
	int type, id;

	if (!device || Py_IsNone(device))
		return 0;
	if (!PyArg_ParseTuple(device, "ii", &type, &id))
		return -1;
	if (type == DL_CPU && id == 0)
		return 0;
	PyErr_SetString(PyExc_BufferError,
			"batches are in main memory: dl_device=(1, 0)");
	return -1;
}

PyDoc_STRVAR(dlpack_doc, "__dlpack__(self, *, stream=None, max_version=None, "
			 "dl_device=None, copy=None)\n--\n\n"
			 "A DLPack capsule: the memory itself, not a copy.");

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kw)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy",
				 NULL };
	PyObject *stream = NULL, *version = NULL, *device = NULL;
	PyObject *copy = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", names,
					 &stream, &version, &device, &copy) ||
	    check_device(device))
		return NULL;
	if (stream && !Py_IsNone(stream)) {
		PyErr_SetString(PyExc_BufferError,
				"memory of the CPU has no stream");
		return NULL;
	}
	if (copy && Py_IsTrue(copy)) {
		PyErr_SetString(PyExc_BufferError,
				"__dlpack__ gives no copies; copy the array");
		return NULL;
	}
	if (view_of(self)->readonly) {
		/* An unversioned capsule cannot say so. */
		PyErr_SetString(PyExc_BufferError,
				"read-only data cannot be exported by DLPack");
		return NULL;
	}
	return lend((struct tensor *)self);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- the rest ---- */

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
	struct mrpy *m = PyType_GetModuleState(Py_TYPE(self));
	PyObject *f = mrpy_asarray(m);

	(void)unused;
	return f ? PyObject_CallFunctionObjArgs(f, self, NULL) : NULL;
}

static PyObject *tensor_torch(PyObject *self, PyObject *unused)
{
	struct mrpy *m = PyType_GetModuleState(Py_TYPE(self));
	PyObject *f = mrpy_from_dlpack(m);

	(void)unused;
	return f ? PyObject_CallFunctionObjArgs(f, self, NULL) : NULL;
}

static PyObject *tensor_shape(PyObject *self, void *unused)
{
	const struct mrpy_view *v = view_of(self);
	PyObject *shape = PyTuple_New(v->ndim);

	(void)unused;
	for (int i = 0; shape && i < v->ndim; i++) {
		PyObject *n = PyLong_FromSsize_t(v->shape[i]);

		if (!n || PyTuple_SetItem(shape, i, n))
			Py_CLEAR(shape);
	}
	return shape;
}

static PyObject *tensor_dtype(PyObject *self, void *unused)
{
	(void)unused;
	return PyUnicode_FromString(mrpy_kind_name(view_of(self)->kind));
}

static PyObject *tensor_nbytes(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromSsize_t(view_bytes(view_of(self)));
}

static PyObject *tensor_repr(PyObject *self)
{
	PyObject *shape = tensor_shape(self, NULL), *repr = NULL;

	if (shape)
		repr = PyUnicode_FromFormat("<millrace.Tensor %s %R>",
					    mrpy_kind_name(view_of(self)->kind),
					    shape);
	Py_XDECREF(shape);
	return repr;
}

static PyMethodDef methods[] = {
	{ "__dlpack__", MRPY_KEYWORDS(tensor_dlpack),
	  METH_VARARGS | METH_KEYWORDS, dlpack_doc },
	{ "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
	  "__dlpack_device__(self)\n--\n\n(1, 0): the CPU." },
	{ "numpy", tensor_numpy, METH_NOARGS,
	  "numpy(self)\n--\n\nThe same memory as a NumPy array." },
	{ "torch", tensor_torch, METH_NOARGS,
	  "torch(self)\n--\n\nThe same memory as a torch tensor." },
	{ 0 }
};

static PyGetSetDef members[] = {
	{ "shape", tensor_shape, NULL, "sizes of the dimensions", NULL },
	{ "dtype", tensor_dtype, NULL, "u8 i16 i32 i64 u64 f16 f32 or f64",
	  NULL },
	{ "nbytes", tensor_nbytes, NULL, "bytes of all elements", NULL },
	{ 0 }
};

int mrpy_tensor_type(PyObject *module, struct mrpy *m)
{
	static PyType_Slot slots[] = {
		{ Py_tp_doc, "A part of a batch's memory, without a copy: "
			     "numpy.asarray(t), memoryview(t), "
			     "torch.from_dlpack(t)." },
		{ Py_tp_dealloc, MRPY_SLOT(tensor_dealloc) },
		{ Py_tp_repr, MRPY_SLOT(tensor_repr) },
		{ Py_tp_methods, methods },
		{ Py_tp_getset, members },
		{ Py_bf_getbuffer, MRPY_SLOT(tensor_getbuffer) },
		{ 0 }
	};
	static PyType_Spec spec = {
		.name = "millrace.Tensor",
		.basicsize = sizeof(struct tensor),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
			 Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	m->tensor_type =
		(PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
	return m->tensor_type ? PyModule_AddType(module, m->tensor_type) : -1;
}
