/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs: how a field of a stored sample is compressed. One file each in
 * codec/, whose last lines are its declaration. All work on whole buffers
 * whose unpacked size is known, so that nothing grows without bound.
 */
#ifndef MR_STORE_CODEC_H
#define MR_STORE_CODEC_H

#include "core/err.h"

struct mr_codec {
	const char *name, *help;
	int min, max, def; /* levels; all 0 when it has none */
	/* Bytes that packing n bytes may need; SIZE_MAX: n is too large. */
	size_t (*bound)(size_t n);
	/*
	 * Pack n bytes into at most cap, which is enough when it is bound(n),
	 * and may be less: MR_ELIMIT when it does not fit; *packed is how
	 * many. *state, NULL at first, is the calling thread's to keep for the
	 * next call with the same level, and is given to drop_pack() at the
	 * end. level 0 is the default one.
	 */
	int (*pack)(void **state, int level, const void *from, size_t n,
		    void *to, size_t cap, size_t *packed, struct mr_err *err);
	/* Unpack into exactly `size` bytes: MR_EDATA, with the reason, when the
	 * data is damaged, gives another number or goes on after its end.
	 * *state as above, but its own: drop_unpack(). */
	int (*unpack)(void **state, const void *from, size_t n, void *to,
		      size_t size, struct mr_err *err);
	void (*drop_pack)(void *state); /* NULL when there is no state; takes
					 * NULL */
	void (*drop_unpack)(void *state);
};

/* All codecs, ends with NULL; made by tools/registry.py. */
extern const struct mr_codec *const mr_codecs[];

/* By its name, or NULL. */
const struct mr_codec *mr_codec_find(const char *name);

#endif
