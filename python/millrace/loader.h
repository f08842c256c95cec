/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Loader object.
 *
 * A mr_loader takes one thread at a time. Calls that give up the GIL set
 * `busy` first; whoever finds it set gets an exception (but stats() may be
 * asked of a loader that waits). Signal handlers run between two waits, when
 * it is not set, so that they can save the state.
 */
#ifndef MRPY_LOADER_H
#define MRPY_LOADER_H

#include <sys/types.h>

#include "core.h"

struct mrpy_loader {
	PyObject ob_base;
	struct mrpy *m;
	struct mr_loader *l; /* NULL: closed */
	PyObject *pipeline;  /* bytes; NULL: never opened */
	pid_t pid;	     /* who opened it */
	enum { MRPY_IDLE, MRPY_WAITING, MRPY_SEEKING } busy;
	bool running; /* has given a batch since it was opened or moved */
	bool ends;    /* has given an epoch's last one, and not said so yet */
};

/* The C loader, or NULL and an exception when it is closed. */
struct mr_loader *mrpy_loader_get(struct mrpy_loader *lo);
/* The same, for calls that no other thread may be in: checks busy too. */
struct mr_loader *mrpy_loader_own(struct mrpy_loader *lo);

/* iterator.c */
int mrpy_iterator_type(PyObject *module, struct mrpy *m);
PyObject *mrpy_iterator_new(PyObject *loader);

/* state.c */
PyObject *mrpy_state_dict(PyObject *loader, PyObject *unused);
PyObject *mrpy_load_state_dict(PyObject *loader, PyObject *state);

#endif
