/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of FLAC as libFLAC's encoder makes them, decoded by ours. */
#include "scratch.h"

#include <FLAC/stream_encoder.h>
#include <math.h>

#include "core/mem.h"
#include "op/flacframe.h"

enum { SAMPLES = 3000, FRAMES = 256, BYTES = 1 << 20 };

/* What an encoder wrote. */
struct stream {
	uint8_t bytes[BYTES];
	size_t used;
	size_t begin[FRAMES + 1];
	int frames;
};

static struct stream made;
static struct mr_flac_crc crc;
static int32_t sound[SAMPLES * MR_FLAC_CHANNELS];
static int32_t got[MR_FLAC_CHANNELS][SAMPLES];
static int32_t *plane[MR_FLAC_CHANNELS];

static FLAC__StreamEncoderWriteStatus on_write(const FLAC__StreamEncoder *e,
					       const FLAC__byte *b, size_t n,
					       uint32_t samples, uint32_t frame,
					       void *data)
{
	struct stream *s = data;

	(void)e;
	(void)frame;
	if (!samples) /* the file's head */
		return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
	assert_true(s->used + n <= BYTES && s->frames < FRAMES);
	memcpy(s->bytes + s->used, b, n);
	s->begin[s->frames++] = s->used;
	s->used += n;
	s->begin[s->frames] = s->used;
	return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static double uniform(uint64_t *seed)
{
	return (double)(draw(seed) >> 11) * 0x1p-53;
}

static int32_t clip(double x, int bits)
{
	double most = ldexp(1, bits - 1);

	return (int32_t)(x < -most ? -most : x > most - 1 ? most - 1 : x);
}

/* Tones, noise, silence, one value, coarse steps; one of them a channel. */
static void make_sound(uint64_t *seed, int channels, int bits)
{
	for (int c = 0; c < channels; c++) {
		int kind = (int)(draw(seed) % 6);
		double most = ldexp(1, bits - 1), f = uniform(seed) * 0.5;
		double loud = uniform(seed) * (kind == 1 ? 1 : 0.01);

		for (int i = 0; i < SAMPLES; i++) {
			double noise = 2 * uniform(seed) - 1;
			double x = kind == 3 ? 0 :
				   kind == 4 ? 0.3 :
					       0.7 * sin(f * i);
			int32_t v = clip(most * (x + loud * noise), bits);

			if (kind == 3 || kind == 4)
				v = clip(most * x, bits);
			if (kind == 5)
				v = (int32_t)((uint32_t)v >> 4 << 4);
			/* channels that are alike become a side */
			if (c == 1 && kind == 2)
				v = sound[i * channels] / 2 + (v & 3);
			sound[i * channels + c] = v;
		}
	}
}

static void encode(uint64_t *seed, const struct mr_flac_form *form)
{
	FLAC__StreamEncoder *e = FLAC__stream_encoder_new();
	uint32_t block = 64 + (uint32_t)(draw(seed) % 4000);

	assert_non_null(e);
	FLAC__stream_encoder_set_streamable_subset(e, false);
	FLAC__stream_encoder_set_channels(e, (uint32_t)form->channels);
	FLAC__stream_encoder_set_bits_per_sample(e, (uint32_t)form->bits);
	FLAC__stream_encoder_set_sample_rate(e, (uint32_t)form->rate);
	FLAC__stream_encoder_set_compression_level(e,
						   (uint32_t)(draw(seed) % 9));
	FLAC__stream_encoder_set_blocksize(e, block);
	if (draw(seed) % 3 == 0) {
		FLAC__stream_encoder_set_max_lpc_order(
			e, (uint32_t)(draw(seed) % 33));
		FLAC__stream_encoder_set_do_exhaustive_model_search(e, true);
	}
	made.used = 0;
	made.frames = 0;
	assert_int_equal(FLAC__stream_encoder_init_stream(e, on_write, NULL,
							  NULL, NULL, &made),
			 0);
	assert_true(
		FLAC__stream_encoder_process_interleaved(e, sound, SAMPLES));
	assert_true(FLAC__stream_encoder_finish(e));
	FLAC__stream_encoder_delete(e);
}

static struct mr_flac_form make(uint64_t *seed)
{
	static const int bits[] = { 8, 12, 16, 16, 16, 20, 24 };
	static const int rates[] = { 8000, 16000, 44100, 48000, 12345, 1000 };
	struct mr_flac_form form = {
		.channels = draw(seed) & 1 ? 2 : 1 + (int)(draw(seed) % 8),
		.bits = bits[draw(seed) % MR_COUNT(bits)],
		.rate = rates[draw(seed) % MR_COUNT(rates)],
	};

	make_sound(seed, form.channels, form.bits);
	encode(seed, &form);
	return form;
}

/* From memory of just its size, so that whoever looks beyond is seen. */
static bool decode(const uint8_t *b, size_t n, const struct mr_flac_form *form,
		   struct mr_flac_frame *x)
{
	uint8_t *copy = malloc(n ? n : 1);
	bool ok;

	assert_non_null(copy);
	memcpy(copy, b, n);
	ok = mr_flac_frame(copy, n, form, &crc, plane, SAMPLES, x);
	free(copy);
	return ok;
}

static void test_frames_are_what_was_encoded(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 400; round++) {
		struct mr_flac_form form = make(&seed);
		size_t at = 0;

		for (int k = 0; k < made.frames; k++) {
			size_t begin = made.begin[k];
			struct mr_flac_frame x;

			assert_true(decode(made.bytes + begin,
					   made.used - begin, &form, &x));
			assert_int_equal(x.bytes, made.begin[k + 1] - begin);
			assert_int_equal(x.number, k);
			assert_false(x.varies);
			for (size_t i = 0; i < x.samples; i++)
				for (int c = 0; c < form.channels; c++)
					assert_int_equal(
						got[c][i],
						sound[(at + i) *
							      (size_t)form
								      .channels +
						      (size_t)c]);
			at += x.samples;
		}
		assert_int_equal(at, SAMPLES);
	}
}

static void test_a_frame_with_a_flipped_bit_is_none(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct mr_flac_form form = make(&seed);
		size_t n = made.begin[1];

		for (int k = 0; k < 40; k++) {
			size_t at = draw(&seed) % n;
			uint8_t bit = (uint8_t)(1 << draw(&seed) % 8);
			struct mr_flac_frame x;

			made.bytes[at] ^= bit;
			assert_false(decode(made.bytes, n, &form, &x));
			made.bytes[at] ^= bit;
		}
	}
}

static void test_a_frame_that_is_cut_off_is_none(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct mr_flac_form form = make(&seed);
		struct mr_flac_frame x;

		for (int k = 0; k < 20; k++)
			assert_false(decode(made.bytes,
					    draw(&seed) % made.begin[1], &form,
					    &x));
		assert_false(decode(made.bytes, made.begin[1] - 1, &form, &x));
		assert_true(decode(made.bytes, made.begin[1], &form, &x));
	}
}

static void test_a_frame_of_another_form_is_none(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (int round = 0; round < 100; round++) {
		struct mr_flac_form form = make(&seed), other[3];
		struct mr_flac_frame x;

		for (int k = 0; k < 3; k++)
			other[k] = form;
		other[0].bits = form.bits == 16 ? 24 : 16;
		other[1].channels = form.channels == 1 ? 2 : 1;
		other[2].rate++;
		for (int k = 0; k < 3; k++)
			assert_false(
				decode(made.bytes, made.used, &other[k], &x));
	}
}

/* Bytes of no sense whose checksums are right get far. */
static void test_noise_with_right_checksums_ends(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct mr_flac_form form = { 1 + (int)(draw(&seed) % 2), 16,
					     16000 };
		uint8_t b[300] = { 0xff, 0xf8, 0xc5, 0x08, 0 };
		struct mr_flac_frame x;
		size_t n = 6 + draw(&seed) % (sizeof(b) - 6);

		b[2] = (uint8_t)((1 + draw(&seed) % 15) << 4 | 5);
		b[3] = (uint8_t)((form.channels - 1) << 4 | 8);
		b[5] = mr_flac_crc8(b, 5);
		for (size_t i = 6; i < n; i++)
			b[i] = (uint8_t)draw(&seed);
		b[6] &= 0x7f;
		if (decode(b, n, &form, &x))
			assert_true(x.samples && x.bytes <= n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_are_what_was_encoded),
		cmocka_unit_test(test_a_frame_with_a_flipped_bit_is_none),
		cmocka_unit_test(test_a_frame_that_is_cut_off_is_none),
		cmocka_unit_test(test_a_frame_of_another_form_is_none),
		cmocka_unit_test(test_noise_with_right_checksums_ends),
	};

	mr_flac_crc_init(&crc);
	for (int c = 0; c < MR_FLAC_CHANNELS; c++)
		plane[c] = got[c];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
