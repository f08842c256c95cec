/* SPDX-License-Identifier: Apache-2.0 */
/* What a codec does to samples: tried on the largest field of each. */
#ifndef MR_DIAGNOSE_CODECS_H
#define MR_DIAGNOSE_CODECS_H

#include "millrace/millrace.h"
#include "store/codec.h"

struct mr_codec_trial {
	const struct mr_codec *c;
	int level;	      /* 0: its usual one */
	bool shuffle;	      /* bytes of wide types, before packing */
	double plain, packed; /* bytes */
	double pack, unpack;  /* seconds of one thread */

	/* its own */
	void *pack_state, *unpack_state;
	void *room[3];
	size_t cap[3];
};

/*
 * The samples of a batch, one by one, until the time is up; some take longer,
 * so that there are a few; one at least.
 * False: it cannot, or there is nothing to shuffle.
 */
bool mr_codec_try(struct mr_codec_trial *t, const struct mr_batch *b,
		  double seconds);

#endif
