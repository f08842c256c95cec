/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace._core: the Python module, on the limited API of Python 3.11.
 *
 * All of it runs with the GIL held except the calls that wait or work
 * (open, next, seek, close, explain). Batch and Tensor objects hold a C
 * reference to their mr_batch, never one to each other, so that a view
 * stands on its own and no cycles arise.
 */
#ifndef MRPY_CORE_H
#define MRPY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "millrace/plugin.h"

/* A method that takes keywords has another type than ml_meth. */
#define MRPY_KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))
/* Slots are data pointers, which ISO C keeps apart from functions'. */
#define MRPY_SLOT(f) (__extension__(void *)(f))

enum mrpy_exception {
	MRPY_ERROR,
	MRPY_PIPELINE,
	MRPY_DATA,
	MRPY_STORAGE,
	MRPY_LIMIT,
	MRPY_STATE,
	MRPY_UNSUPPORTED,
	MRPY_EXCEPTIONS
};

/* What the module owns: types, exceptions, and what it imports when asked. */
struct mrpy {
	PyTypeObject *loader_type, *iterator_type, *batch_type, *tensor_type;
	PyObject *exception[MRPY_EXCEPTIONS];
	PyObject *keys_view, *values_view, *items_view; /* collections.abc */
	PyObject *asarray;     /* numpy.asarray, or NULL so far */
	PyObject *from_dlpack; /* torch.from_dlpack, or NULL so far */
	PyObject *json_loads;  /* or NULL so far */
};

/* module.c: objects from elsewhere, imported at first use; borrowed. */
PyObject *mrpy_asarray(struct mrpy *m);
PyObject *mrpy_from_dlpack(struct mrpy *m);
/* json.loads(text); frees text, which may be NULL (no memory). */
PyObject *mrpy_json(struct mrpy *m, char *text);

/* errors.c */
int mrpy_exceptions_add(PyObject *module, struct mrpy *m);
/* Raises what stands for the code; returns NULL. */
PyObject *mrpy_raise(struct mrpy *m, const struct mr_err *err);
PyObject *mrpy_raise_state(struct mrpy *m, const char *text);
/* Names of files, which need not be UTF-8. */
PyObject *mrpy_text(const char *s);

/* options.c: keyword arguments by the table of mr_option_params(). */
struct mrpy_options {
	struct mr_options opt;
	PyObject *keep; /* what opt's texts point into */
	bool json;
};

/* Sets *o and *pipeline (new reference to bytes) from the arguments of
 * `function`; json says whether it has that argument too. fini() in any
 * case. */
int mrpy_options_init(struct mrpy_options *o, PyObject **pipeline,
		      const char *function, PyObject *args, PyObject *kw,
		      bool json);
void mrpy_options_fini(struct mrpy_options *o);
/* "name=default, ..." as in a signature, and a line of help per option. */
PyObject *mrpy_options_signature(void);
PyObject *mrpy_options_help(void);

/* entries.c: millrace.list() */
PyObject *mrpy_list(PyObject *module, PyObject *unused);

/* loader.c, batch.c, tensor.c: the types */
int mrpy_loader_types(PyObject *module, struct mrpy *m);
int mrpy_batch_type(PyObject *module, struct mrpy *m);
int mrpy_tensor_type(PyObject *module, struct mrpy *m);

/* Takes the reference to b over, also when it fails. */
PyObject *mrpy_batch_new(struct mrpy *m, struct mr_batch *b);

/* Types of elements: those of enum mr_dtype, and that of indices. */
enum { MRPY_U64 = MR_DTYPES, MRPY_KINDS };

/* A part of a batch's memory. */
struct mrpy_view {
	int kind; /* enum mr_dtype or MRPY_U64 */
	bool readonly;
	int ndim;
	Py_ssize_t shape[MR_MAX_DIMS];
	Py_ssize_t strides[MR_MAX_DIMS]; /* in bytes */
	void *data;
};

const char *mrpy_kind_name(int kind);
Py_ssize_t mrpy_kind_size(int kind);
/* Fills the strides of a row-major array. */
void mrpy_view_pack(struct mrpy_view *v);
/* A Tensor with its own reference to b. */
PyObject *mrpy_tensor_new(struct mrpy *m, struct mr_batch *b,
			  const struct mrpy_view *v);
/* The view as a NumPy array, or as a torch tensor. */
PyObject *mrpy_numpy(struct mrpy *m, struct mr_batch *b,
		     const struct mrpy_view *v);
PyObject *mrpy_torch(struct mrpy *m, struct mr_batch *b,
		     const struct mrpy_view *v);

#endif
