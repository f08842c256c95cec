/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps. How one is declared is in plugin.h; here is what all of them may
 * use, and how the pipe finds them. A step includes this file only.
 */
#ifndef MR_OP_H
#define MR_OP_H

#include "core/err.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "millrace/plugin.h"

/* All steps built in, ends with NULL; made by tools/registry.py. */
extern const struct mr_op *const mr_ops[];

/*
 * `batch` collates samples. It does so inside the loader, whose threads
 * write each sample straight into its place, so that the step itself is
 * only its parameters.
 */
struct mr_batch_params {
	int64_t count;
	bool drop_last;
	const char *pad; /* "": ragged fields come with offsets */
};

extern const struct mr_op mr_op_batch;

/* `cache` keeps samples; inside the loader as well. */
struct mr_cache_params {
	uint64_t ram;
};

extern const struct mr_op mr_op_cache;

/* `stored` takes samples from a prepared set; inside the loader as well. */
struct mr_stored_params {
	const char *dir;
	int64_t first;
	bool check;
};

extern const struct mr_op mr_op_stored;

/* "NAME: cannot take SPEC: why", MR_ETYPE. */
int mr_op_refuse(const char *name, const struct mr_spec *in, const char *why,
		 struct mr_err *err);

/* Can a value be filled in? Integers must be whole and within range. */
bool mr_op_holds(enum mr_dtype t, double value);

#endif
