/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MILLRACE_FAST_H
#define MILLRACE_FAST_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Slots are data pointers, which ISO C keeps apart from functions'. */
#define SLOT(f) (__extension__(void *)(f))

uint64_t now(void);

/* Frees what was made of the class, and its share of the class. */
void drop(PyObject *self);

/* Adds the class to the module, and keeps a reference if KEPT is given. */
bool add_type(PyObject *m, const char *name, PyType_Spec *spec,
	      PyTypeObject **kept);

/* ---- _group.c ---- */

extern PyType_Spec group_type;

/* Of a Group. */
void group_begin(PyObject *group);
void group_add(PyObject *group, int step, uint64_t start, uint64_t end);

#endif
