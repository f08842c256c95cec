/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures with the statistics of photos: a world of leaves that hide one
 * another (the dead-leaves model: sizes by r^-3 give the edges and the 1/f
 * spectrum of photos), each with a colour, a shading and a piece of natural
 * texture; then come the lens (blur) and the sensor (noise).
 */
#ifndef MR_CLI_SYNTH_PICTURE_H
#define MR_CLI_SYNTH_PICTURE_H

#include "synth/synth.h"

#define PICTURE_SIDE_MAX 16384
#define PICTURE_LEAVES	 UINT16_MAX
#define PICTURE_COLOURS	 6
#define PICTURE_LEVEL	 16 /* steps of the planes per grey level */

/* What differs from picture to picture; see scene.c. */
struct scene {
	int width, height, class;
	float scale;  /* side, in units of the usual one */
	float large;  /* 0: shrunk for the web, 1: as from a camera, whose
		       * pixels are finer than what the lens shows */
	float detail; /* 0 on average: small things, texture */
	float rmin, rmax;
	float contrast, texture, noise, chroma, quads;
	float colour[PICTURE_COLOURS][2]; /* Cb, Cr */
	int ox, oy;	/* of the field that says what is where */
	int blur, soft; /* passes, and how much in each */
	int quality;
	bool full_chroma;
};

struct leaf {
	int16_t base[3], texture[3]; /* of Y, Cb, Cr */
	uint16_t ox, oy;	     /* where its texture begins */
	uint8_t field;
	float cx, cy, gx, gy; /* centre, and slope of the shading */
};

/* The caller's memory, to be used for one picture after another. */
struct canvas {
	uint16_t *id; /* the leaf at each pixel */
	int16_t *plane[3];
	int16_t *row; /* two rows of PICTURE_SIDE_MAX, for the blur */
	struct leaf *leaf;
};

/* scene.c: draw by lot what is on picture `index`; opt->size is set. */
void picture_draw(struct scene *sc, const struct synth_options *opt,
		  uint64_t index, struct synth_rng *rng);
/* Room for so many pixels, in the place of what there was. */
int picture_fit(struct canvas *c, size_t pixels, struct mr_err *err);
void picture_fini(struct canvas *c);

/* leaves.c: fill id and leaf. */
void picture_paint(const struct synth_field *field, const struct scene *sc,
		   struct canvas *c, struct synth_rng *rng);
/* light.c: make the planes from these. */
void picture_light(const struct synth_field *field, const struct scene *sc,
		   struct canvas *c);
/* One row of Y Cb Cr triples, with the sensor's noise. */
void picture_expose(const struct synth_field *field, const struct scene *sc,
		    const struct canvas *c, int y, uint8_t *out,
		    struct synth_rng *rng);

/* The same as 16-bit R G B, noise and all. */
void picture_expose16(const struct synth_field *field, const struct scene *sc,
		      const struct canvas *c, int y, uint16_t *out,
		      struct synth_rng *rng);

static inline float clampf(float v, float lo, float hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

#endif
