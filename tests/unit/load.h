/* SPDX-License-Identifier: Apache-2.0 */
/* For tests and fuzz targets: what a source's load() and unpack() are given,
 * with room from malloc(). */
#ifndef MR_TEST_LOAD_H
#define MR_TEST_LOAD_H

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/tensor.h"
#include "source/source.h"

struct loaded {
	struct mr_load ld; /* first */
	struct mr_arena scratch;
	struct mr_fields fields;
	struct mr_tensor f[MR_MAX_FIELDS];
	void *room[MR_MAX_FIELDS];
	int64_t rate[MR_MAX_FIELDS];
	struct mr_err err;
};

static inline void *loaded_room(const struct mr_load *ld, int field,
				size_t bytes)
{
	struct loaded *o = (struct loaded *)(uintptr_t)ld;

	if (field < 0 || field >= o->fields.n || o->room[field])
		abort(); /* once per field */
	if (bytes > ld->limit) {
		mr_err_set(ld->err, MR_ELIMIT, "over the limit");
		return NULL;
	}
	o->room[field] = malloc(bytes ? bytes : 1);
	return o->room[field];
}

static inline void loaded_init(struct loaded *o, const struct mr_source *src,
			       const void *self)
{
	memset(o, 0, sizeof(*o));
	mr_arena_init(&o->scratch, (size_t)64 << 20);
	src->fields(self, &o->fields);
	o->ld = (struct mr_load){ .self = self,
				  .scratch = &o->scratch,
				  .limit = (size_t)64 << 20,
				  .room = loaded_room,
				  .err = &o->err,
				  .rate = o->rate };
	if (src->local)
		o->ld.local = calloc(1, src->local);
}

/* Empty again, for sample `index`. */
static inline void loaded_begin(struct loaded *o, uint64_t index)
{
	for (int i = 0; i < o->fields.n; i++) {
		free(o->room[i]);
		o->room[i] = NULL;
		o->rate[i] = 0;
		o->f[i] = mr_tensor_of(&o->fields.item[i].spec);
	}
	mr_arena_reset(&o->scratch);
	o->ld.index = index;
	o->err.code = 0;
}

static inline void loaded_fini(struct loaded *o, const struct mr_source *src)
{
	loaded_begin(o, 0);
	mr_arena_fini(&o->scratch);
	if (o->ld.local && src->drop)
		src->drop(o->ld.local);
	free(o->ld.local);
}

#endif
