/* SPDX-License-Identifier: Apache-2.0 */
/* Sound of one channel into a file's bytes, in memory. */
#ifndef MR_CLI_SYNTH_ENCODE_H
#define MR_CLI_SYNTH_ENCODE_H

#include "core/err.h"

/* What has been written; the caller frees data, and may use it again. */
struct encoded {
	uint8_t *data;
	size_t size, cap;
	size_t at; /* of the next write, which FLAC moves */
};

int encode_flac(const int16_t *x, size_t n, int rate, struct encoded *out,
		struct mr_err *err);
int encode_wav(const int16_t *x, size_t n, int rate, struct encoded *out,
	       struct mr_err *err);
int encode_mp3(const int16_t *x, size_t n, int rate, struct encoded *out,
	       struct mr_err *err);

/* libmp3lame is loaded when it is needed: 0, or an error that says what to
 * install. */
int encode_mp3_available(struct mr_err *err);

#endif
