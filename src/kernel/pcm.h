/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sound samples of any width into i16 or f32, all channels or their mean.
 *
 * i16 takes the upper 16 bits (of fewer, the lower ones are 0), and of a mean
 * what is below it; f32 is x / 2^(bits - 1), in -1..1, rounded once.
 */
#ifndef MR_KERNEL_PCM_H
#define MR_KERNEL_PCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_PCM_CHANNELS = 8 };

/* What comes out. */
struct mr_pcm_as {
	bool f32;  /* else i16 */
	bool mono; /* the mean of the channels, else interleaved */
};

/* n samples of each of `channels` planes; sample i of a plane is at
 * i * stride. bits: 4 to 32. */
void mr_pcm_ints(const int32_t *const *plane, size_t stride, int channels,
		 int bits, size_t n, struct mr_pcm_as as, void *dst);
/* The same of reals in -1..1; i16 rounds to nearest, saturates, and takes 0
 * for NaN. */
void mr_pcm_reals(const double *src, int channels, size_t n,
		  struct mr_pcm_as as, void *dst);
/* The twin of mr_pcm_ints(), one number at a time. */
void mr_pcm_ints_plain(const int32_t *const *plane, size_t stride, int channels,
		       int bits, size_t n, struct mr_pcm_as as, void *dst);

/* n little-endian numbers as WAV stores them: 1 byte without a sign, or 2 to
 * 4 with one. */
void mr_pcm_unpack(const uint8_t *src, int bytes, size_t n, int32_t *dst);
/* Of 2 bytes, as they are. */
void mr_pcm_unpack_i16(const uint8_t *src, size_t n, int16_t *dst);
/* 4 or 8 bytes, IEEE 754. */
void mr_pcm_unpack_reals(const uint8_t *src, int bytes, size_t n, double *dst);

#endif
