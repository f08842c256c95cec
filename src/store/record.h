/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record: the fields of one sample as they lie in a shard (docs/format.md).
 *
 *	head    of each field whose shape or size is open, u64 each: its open
 *		dimensions, then its stored bytes when it may be packed
 *	fields  one after another, each aligned; stored bytes equal to the
 *		plain ones mean that it is not packed
 *	rates   of each field that is rated, i64
 *	zeros   to a multiple of MR_RECORD_ALIGN
 *
 * Where all shapes are fixed and nothing is packed there is no head, and
 * every field lies at a fixed place.
 */
#ifndef MR_STORE_RECORD_H
#define MR_STORE_RECORD_H

#include "core/arena.h"
#include "millrace/plugin.h"
#include "store/codec.h"

enum { MR_RECORD_ALIGN = 64 };

/* How the fields of a set are stored; the same for all its samples. */
struct mr_record_plan {
	struct mr_fields fields;
	const struct mr_codec *codec;
	int level;
	bool shuffle; /* bytes of wide types, before packing */

	/* made by mr_record_plan_init() */
	size_t head; /* bytes */
	struct {
		bool open, packed;   /* its shape; whether it may be packed */
		size_t align, bytes; /* bytes when the shape is fixed */
	} field[MR_MAX_FIELDS];
};

void mr_record_plan_init(struct mr_record_plan *p);

/* Bytes that a record of these fields may need; SIZE_MAX: too large. The
 * tensors are numbered by the fields' ids. */
size_t mr_record_bound(const struct mr_record_plan *p,
		       const struct mr_tensor *t);

/* Bytes of every record, where all have the same; else 0. */
size_t mr_record_fixed(const struct mr_record_plan *p);

/* Does each begin with its first field, as it is? That may be made there:
 * mr_record_pack() does not move what is in its place. */
bool mr_record_begins(const struct mr_record_plan *p);

/* Write the record; *size is its length. The rates are numbered as the
 * tensors. `state` is the codec's. */
int mr_record_pack(const struct mr_record_plan *p, const struct mr_tensor *t,
		   const int64_t *rate, void **state, struct mr_arena *scratch,
		   uint8_t *to, size_t cap, size_t *size, struct mr_err *err);

/*
 * Take a record apart: plain fields point into it, packed ones are unpacked
 * to ld->room(); rates go to ld->rate. Everything in it is checked against its
 * length.
 */
int mr_record_unpack(const struct mr_record_plan *p, const struct mr_load *ld,
		     void **state, const uint8_t *from, size_t size,
		     struct mr_tensor *f);

#endif
