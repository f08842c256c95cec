/* SPDX-License-Identifier: Apache-2.0 */
/* How a picture looks: light on the leaves, the lens, the sensor. */
#include <string.h>

#include "synth/picture.h"

static void shade(int16_t *out, const int16_t *texture, int n, int amp,
		  int base, int slope)
{
	for (int i = 0; i < n; i++)
		out[i] = (int16_t)((base + i * slope) >> 16) +
			 (int16_t)(texture[i] * amp >> 16);
}

static void tint(int16_t *out, const int16_t *texture, int n, int amp, int base)
{
	for (int i = 0; i < n; i++)
		out[i] = (int16_t)(base + (int16_t)(texture[i] * amp >> 16));
}

/* A piece of a row in which the leaf and its texture's row do not end. */
static void shade_piece(const struct synth_field *field, const struct leaf *l,
			int16_t *const out[3], int x, int y, int n)
{
	const int16_t *t = &field[l->field].v[(y + l->oy) & (SYNTH_FIELD - 1)]
					     [(x + l->ox) & (SYNTH_FIELD - 1)];
	float light = l->base[0] * 65536.0f + l->gx * ((float)x - l->cx) +
		      l->gy * ((float)y - l->cy);

	light = clampf(light, -2e8f, 6e8f);
	shade(out[0], t, n, l->texture[0], (int)light, (int)l->gx);
	tint(out[1], t, n, l->texture[1], l->base[1]);
	tint(out[2], t, n, l->texture[2], l->base[2]);
}

static void shade_all(const struct synth_field *field, const struct scene *sc,
		      struct canvas *c)
{
	for (int y = 0; y < sc->height; y++) {
		size_t at = (size_t)y * sc->width;
		const uint16_t *id = c->id + at;
		int x = 0;

		while (x < sc->width) {
			const struct leaf *l = &c->leaf[id[x]];
			int room =
				SYNTH_FIELD - ((x + l->ox) & (SYNTH_FIELD - 1));
			int end = x + 1;
			int16_t *const out[3] = { c->plane[0] + at + x,
						  c->plane[1] + at + x,
						  c->plane[2] + at + x };

			if (room > sc->width - x)
				room = sc->width - x;
			while (end < x + room && id[end] == id[x])
				end++;
			shade_piece(field, l, out, x, y, end - x);
			x = end;
		}
	}
}

/* k = 16 weighs 1 2 1; less of it blurs less. */
static void mean3(int16_t *out, const int16_t *a, const int16_t *b,
		  const int16_t *c, int n, int k)
{
	for (int i = 0; i < n; i++)
		out[i] = (int16_t)(b[i] + ((a[i] + c[i] - 2 * b[i]) * k >> 6));
}

/* In both directions; row holds two rows. */
static void blur(int16_t *p, int16_t *row, int w, int h, int k)
{
	int16_t *above = row, *here = row + w;

	for (int y = 0; y < h; y++) {
		int16_t *r = p + (size_t)y * w;

		memcpy(here, r, (size_t)w * sizeof(*r));
		mean3(r + 1, here, here + 1, here + 2, w - 2, k);
	}
	memcpy(above, p, (size_t)w * sizeof(*p));
	for (int y = 0; y < h - 1; y++) {
		int16_t *r = p + (size_t)y * w, *t = above;

		memcpy(here, r, (size_t)w * sizeof(*r));
		mean3(r, above, here, r + w, w, k);
		above = here;
		here = t;
	}
}

void picture_light(const struct synth_field *field, const struct scene *sc,
		   struct canvas *c)
{
	shade_all(field, sc, c);
	for (int p = 0; p < 3; p++)
		for (int n = 0; n < sc->blur; n++)
			blur(c->plane[p], c->row, sc->width, sc->height,
			     p > 0 ? 16 : sc->soft);
}

static uint8_t to_sample(int v)
{
	v = (v + PICTURE_LEVEL / 2) >> 4; /* by PICTURE_LEVEL */
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void picture_expose(const struct synth_field *field, const struct scene *sc,
		    const struct canvas *c, int y, uint8_t *out,
		    struct synth_rng *rng)
{
	const struct synth_field *white = &field[SYNTH_WHITE];
	float unit = PICTURE_LEVEL * 65536.0f / SYNTH_FIELD_SD;
	int amp = (int)(sc->noise * unit);
	size_t at = (size_t)y * sc->width;
	const int16_t *p[3] = { c->plane[0] + at, c->plane[1] + at,
				c->plane[2] + at };

	for (int x = 0; x < sc->width; x += SYNTH_FIELD) {
		uint64_t u = synth_u64(rng);
		const int16_t *ny = white->v[u & (SYNTH_FIELD - 1)];
		const int16_t *nc = white->v[u >> 16 & (SYNTH_FIELD - 1)];
		int n = sc->width - x < SYNTH_FIELD ? sc->width - x :
						      SYNTH_FIELD;

		for (int i = 0; i < n; i++, out += 3) {
			int d = nc[i] * amp >> 18;

			out[0] = to_sample(p[0][x + i] + (ny[i] * amp >> 16));
			out[1] = to_sample(p[1][x + i] + d);
			out[2] = to_sample(p[2][x + i] - d);
		}
	}
}

/* Of the 16 bits, a sensor gives 14. */
static uint16_t to_sample16(int v)
{
	return (uint16_t)(v < 0 ? 0 : v > UINT16_MAX ? UINT16_MAX : v) & 0xfffc;
}

void picture_expose16(const struct synth_field *field, const struct scene *sc,
		      const struct canvas *c, int y, uint16_t *out,
		      struct synth_rng *rng)
{
	const struct synth_field *white = &field[SYNTH_WHITE];
	int amp = (int)(sc->noise * 0.5f * 257 * 65536.0f / SYNTH_FIELD_SD);
	size_t at = (size_t)y * sc->width;

	for (int x = 0; x < sc->width; x += SYNTH_FIELD) {
		const int16_t *p[3] = { c->plane[0] + at + x,
					c->plane[1] + at + x,
					c->plane[2] + at + x };
		const int16_t *noise[3];
		int n = sc->width - x < SYNTH_FIELD ? sc->width - x :
						      SYNTH_FIELD;

		for (int k = 0; k < 3; k++)
			noise[k] = white->v[synth_u64(rng) & (SYNTH_FIELD - 1)];
		for (int i = 0; i < n; i++, out += 3) {
			int l = p[0][i] * 16, b = p[1][i] * 16 - 32768;
			int r = p[2][i] * 16 - 32768;

			out[0] = to_sample16(l + (r * 359 >> 8) +
					     (noise[0][i] * amp >> 16));
			out[1] = to_sample16(l - ((b * 88 + r * 183) >> 8) +
					     (noise[1][i] * amp >> 16));
			out[2] = to_sample16(l + (b * 454 >> 8) +
					     (noise[2][i] * amp >> 16));
		}
	}
}
