/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples kept in memory, by MinIO's policy: filled until no more fits, and
 * nothing is ever evicted. Each epoch then has as many hits as samples are
 * held, exactly; what a cache evicts for the newest sample would be needed
 * in the next epoch as surely as that one.
 *
 * One mapping, in which samples lie end to end, and a word for each sample of
 * the data set that says where it is or how matters stand. No lock and no
 * allocation; any thread may call.
 *
 * A sample that is missing is made by one thread at a time: get() tells the
 * first MR_RAM_YOURS, who then calls put() or drop(), and the others meanwhile
 * MR_RAM_BUSY. So each sample is missed once, also where epochs overlap in a
 * loader.
 */
#ifndef MR_CACHE_RAM_H
#define MR_CACHE_RAM_H

#include <stdatomic.h>

#include "core/tensor.h"

/* About what a sample takes beside its fields: their shapes, alignment. */
enum { MR_RAM_HEAD = 192 };

struct mr_ram {
	struct mr_fields fields; /* of a sample, as far as they are kept */
	size_t head;		 /* bytes before the first field's */
	uint8_t *data;
	size_t size;
	_Atomic uint64_t *word; /* by sample */
	uint64_t samples;
	_Alignas(64) atomic_size_t used;
	_Atomic uint64_t held; /* samples */
	atomic_bool full;      /* one did not fit */
};

/*
 * For `samples` samples with these fields, in `size` bytes, which are taken
 * from the system as they fill. Tensors and rates below are numbered by the
 * fields' ids.
 */
int mr_ram_open(struct mr_ram *c, size_t size, uint64_t samples,
		const struct mr_fields *fields, struct mr_err *err);
/* Nobody may hold a view. Also for one that was only zeroed. */
void mr_ram_close(struct mr_ram *c);

/* Bytes that a sample with these fields takes; 0 when that differs from
 * sample to sample. */
size_t mr_ram_sample(const struct mr_fields *fields);

enum mr_ram_found {
	MR_RAM_HELD,	/* t and rate are set; the data is not to be written */
	MR_RAM_YOURS,	/* make it, then put() or drop() */
	MR_RAM_REFUSED, /* make it; it did not fit, and never will */
	MR_RAM_BUSY,	/* another thread makes it; ask again */
};

enum mr_ram_found mr_ram_get(struct mr_ram *c, uint64_t index,
			     struct mr_tensor *t, int64_t *rate);
/* Copies the sample, if it fits. Tensors have the types of the fields. */
bool mr_ram_put(struct mr_ram *c, uint64_t index, const struct mr_tensor *t,
		const int64_t *rate);
/* It could not be made: the next one may try. */
void mr_ram_drop(struct mr_ram *c, uint64_t index);

bool mr_ram_holds(const struct mr_ram *c, uint64_t index);

/* Who reads ahead asks what to do with a sample. */
enum mr_ram_ahead {
	MR_RAM_READ,  /* it is missing; noted as on its way */
	MR_RAM_SKIP,  /* it is held */
	MR_RAM_LATER, /* it is on its way, and may be held then: ask again */
};

enum mr_ram_ahead mr_ram_ask(struct mr_ram *c, uint64_t index);
/* It was not read after all. */
void mr_ram_unask(struct mr_ram *c, uint64_t index);
/* Nobody is at work: what was on its way is no longer. */
void mr_ram_settle(struct mr_ram *c);

#endif
