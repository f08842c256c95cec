/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sound with the statistics of read speech: syllables of a voice (pulses
 * through three formants, with breath) or of hiss, words, pauses, and the
 * noise of a room.
 */
#ifndef MR_CLI_SYNTH_SPEECH_H
#define MR_CLI_SYNTH_SPEECH_H

#include "synth/synth.h"

/* n samples at `rate` Hz. */
void speech_make(int16_t *out, size_t n, int rate, struct synth_rng *rng);

#endif
