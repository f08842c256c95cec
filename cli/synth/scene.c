/* SPDX-License-Identifier: Apache-2.0 */
/* What is on a picture, drawn by lot, and the memory to make it in. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "synth/picture.h"

#define USUAL_PIXELS (500 * 375) /* what the constants were fitted at */

/* ImageNet: half are of the usual shape, a fifth 3:2, a quarter upright,
 * and a few much smaller or larger. */
static void draw_size(struct scene *sc, const struct synth_options *opt,
		      struct synth_rng *rng)
{
	float w = (float)opt->size.v[0], h = (float)opt->size.v[1];
	float kind = synth_real(rng, 0, 1), scale = 1;
	float upright = synth_real(rng, 0, 1);
	float aspect = synth_real(rng, 0.75f, 1.2f);
	float odd = synth_real(rng, 0, 1), grow = synth_real(rng, 0, 1);

	if (!opt->same_size) {
		if (kind > 0.75f)
			h /= aspect;
		else if (kind > 0.55f)
			h /= 1.125f; /* 4:3 becomes 3:2 */
		if (odd < 0.13f)
			scale = 0.3f + 0.6f * grow;
		else if (odd > 0.92f)
			scale = 1 + 1.4f * grow;
		if (upright < 0.24f) {
			float t = w;

			w = h;
			h = t;
		}
	}
	sc->width = (int)clampf(w * scale, 8, PICTURE_SIDE_MAX);
	sc->height = (int)clampf(h * scale, 8, PICTURE_SIDE_MAX);
}

/* Two in three as the sharing sites write them, the rest from all kinds of
 * programs. Large pictures come from cameras. */
static void draw_coding(struct scene *sc, const struct synth_options *opt,
			struct synth_rng *rng)
{
	float a = synth_real(rng, 0, 1), b = synth_real(rng, 0, 1);
	float chroma = synth_real(rng, 0, 1);

	if (opt->quality)
		sc->quality = (int)opt->quality;
	else
		sc->quality = (a < 0.72f ? 96 : (int)(72 + 22 * b)) -
			      (int)(12 * sc->large);
	sc->full_chroma = opt->subsampling == SYNTH_444 ||
			  (opt->subsampling == SYNTH_MIXED &&
			   sc->large < 0.5f && chroma < 0.79f);
}

void picture_draw(struct scene *sc, const struct synth_options *opt,
		  uint64_t index, struct synth_rng *rng)
{
	struct synth_rng look;
	float hue[2];

	memset(sc, 0, sizeof(*sc));
	draw_size(sc, opt, rng);
	sc->class = (int)(index % (uint64_t)opt->classes);
	sc->scale = sqrtf((float)sc->width * (float)sc->height / USUAL_PIXELS);
	sc->large = clampf(log2f(sc->scale) / 2.3f, 0, 1);
	draw_coding(sc, opt, rng);

	/* A class has its own look: something for a model to learn. */
	look = synth_rng_for((uint64_t)opt->seed, ~(uint64_t)sc->class >> 1);
	sc->quads = synth_real(&look, 0, 0.6f);
	hue[0] = -8 + 9 * synth_normal(&look);
	hue[1] = 2 - 0.6f * hue[0] + 4 * synth_normal(&look);

	sc->detail = synth_normal(rng);
	sc->contrast = 64 * exp2f(0.3f * synth_normal(rng));
	sc->texture = exp2f(0.7f * synth_normal(rng) + 0.8f * sc->detail -
			    0.8f * sc->large);
	sc->noise = 1.1f * exp2f(0.8f * synth_normal(rng) - sc->large);
	sc->chroma = exp2f(0.5f * synth_normal(rng));
	sc->rmin = clampf(2.2f * exp2f(-0.8f * sc->detail), 1, 20) *
		   (sc->scale > 1 ? sc->scale : 1);
	sc->rmax = 150 * sc->scale;
	if (sc->rmin > sc->rmax / 2)
		sc->rmin = sc->rmax / 2;
	sc->blur = 1 + (int)(2.5f * sc->large);
	sc->soft = 5 + (int)(11 * clampf(2 * sc->large, 0, 1));
	sc->ox = synth_below(rng, SYNTH_FIELD);
	sc->oy = synth_below(rng, SYNTH_FIELD);
	for (int i = 0; i < PICTURE_COLOURS; i++) {
		float warm = 12 * synth_normal(rng);

		sc->colour[i][0] = sc->chroma * (hue[0] - warm);
		sc->colour[i][1] = sc->chroma * (hue[1] + 0.7f * warm +
						 3 * synth_normal(rng));
	}
}

/* ---- memory ---- */

void picture_fini(struct canvas *c)
{
	free(c->id);
	for (int i = 0; i < 3; i++)
		free(c->plane[i]);
	free(c->row);
	free(c->leaf);
	memset(c, 0, sizeof(*c));
}

int picture_fit(struct canvas *c, size_t pixels, struct mr_err *err)
{
	bool ok = true;

	picture_fini(c);
	c->id = mr_alloc(pixels, sizeof(*c->id), err);
	for (int i = 0; i < 3; i++) {
		c->plane[i] = mr_alloc(pixels, sizeof(*c->plane[i]), err);
		ok = ok && c->plane[i];
	}
	c->row = mr_alloc(2 * PICTURE_SIDE_MAX, sizeof(*c->row), err);
	c->leaf = mr_alloc(PICTURE_LEAVES, sizeof(*c->leaf), err);
	return ok && c->id && c->row && c->leaf ? 0 : MR_ENOMEM;
}
