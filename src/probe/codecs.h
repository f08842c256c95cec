/* SPDX-License-Identifier: Apache-2.0 */
/* How fast each codec is on this machine, on data that is made here. */
#ifndef MR_PROBE_CODECS_H
#define MR_PROBE_CODECS_H

#include "probe/watch.h"

enum { MR_CODEC_SPEEDS = 32 };

struct mr_codec_speed {
	const char *codec;
	const char *data; /* "image_u8" or "signal_f32" */
	double ratio;	  /* unpacked bytes per packed one; NaN: see reason */
	double pack, unpack; /* unpacked bytes per second, one thread */
	char reason[120];
};

struct mr_codec_speeds {
	struct mr_codec_speed speed[MR_CODEC_SPEEDS];
	int n;
};

/*
 * All codecs at their default level, packing and unpacking for `seconds` at
 * most each (but once at least), by the calling thread. Floats are shuffled
 * by bytes, as `prepare` does it, which is part of the time. MR_ESTATE when
 * stopped.
 */
int mr_codecs_measure(struct mr_codec_speeds *c, double seconds,
		      struct mr_watch *w, struct mr_err *err);

#endif
