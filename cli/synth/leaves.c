/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a picture: leaves of all sizes, and where they lie. */
#include <math.h>
#include <string.h>

#include "synth/picture.h"

static int16_t to_level(float v)
{
	return (int16_t)lrintf(clampf(v, -1000, 1000) * PICTURE_LEVEL);
}

/* The large-scale layout at a place, deviation 1. */
static float layout(const struct synth_field *field, const struct scene *sc,
		    float x, float y, int shift)
{
	float step =
		200 / (float)(sc->width > sc->height ? sc->width : sc->height);
	int fx = (int)(x * step) + sc->ox + shift;
	int fy = (int)(y * step) + sc->oy;
	const struct synth_field *f = &field[SYNTH_SMOOTH];

	return (float)f->v[fy & (SYNTH_FIELD - 1)][fx & (SYNTH_FIELD - 1)] /
	       SYNTH_FIELD_SD;
}

static float busy_at(const struct synth_field *field, const struct scene *sc,
		     float x, float y)
{
	return layout(field, sc, x, y, 0) + 0.5f * sc->detail;
}

static void draw_leaf(const struct synth_field *field, const struct scene *sc,
		      struct leaf *l, float x, float y, float r,
		      struct synth_rng *rng)
{
	/* Where the layout is low, things are plain: sky, walls, blur. */
	float busy = busy_at(field, sc, x, y);
	float light = layout(field, sc, x, y, 200);
	int tint = (int)((light + 3) * 0.7f * PICTURE_COLOURS / 4 +
			 synth_real(rng, 0, 2.5f));
	const float *colour = sc->colour[tint < 0 ? 0 : tint % PICTURE_COLOURS];
	float own = synth_normal(rng), rough = synth_real(rng, 0, 1);
	float amp = sc->texture * 12 * exp2f(1.8f * busy);
	float slope = 30 * synth_normal(rng) / (r + 10 * sc->scale), luma;
	uint64_t u = synth_u64(rng);

	l->cx = x;
	l->cy = y;
	l->gx = slope * PICTURE_LEVEL * 65536;
	l->gy = 0.5f * l->gx;
	/* Film's shoulder: few places are quite black or white. */
	luma = sc->contrast * (1.2f * light + 0.55f * own);
	l->base[0] = to_level(116 + luma / sqrtf(1 + luma * luma / 13000));
	l->base[1] = to_level(128 + colour[0] + 2 * own);
	l->base[2] = to_level(128 + colour[1] - 1.5f * own);
	l->field = rough < 0.5f ? SYNTH_ROUGH :
		   rough < 0.7f ? SYNTH_NATURAL :
				  SYNTH_SMOOTH;
	l->ox = u & (SYNTH_FIELD - 1);
	l->oy = u >> 16 & (SYNTH_FIELD - 1);
	amp = clampf(amp, 0, 60) * (PICTURE_LEVEL * 65536.0f / SYNTH_FIELD_SD);
	l->texture[0] = (int16_t)amp;
	l->texture[1] = (int16_t)(-0.13f * sc->chroma * amp);
	l->texture[2] = (int16_t)(0.11f * sc->chroma * amp);
}

static void fill(const struct scene *sc, uint16_t *id, uint16_t n, int y,
		 float from, float to)
{
	int a = from < 0 ? 0 : (int)from;
	int b = to > (float)sc->width ? sc->width : (int)to;

	id += (size_t)y * sc->width;
	for (int x = a; x < b; x++)
		id[x] = n;
}

/* A parallelogram (two strips) or an ellipse around (0, 0), row by row: in
 * row y a strip has its middle at y * lean. */
struct shape {
	bool quad;
	float height; /* above and below 0 */
	float lean[2], width[2];
};

static void draw_shape(struct shape *s, float r, float quads,
		       struct synth_rng *rng)
{
	float turn = synth_real(rng, 0.02f, 1.55f);
	float stretch = exp2f(0.5f * synth_normal(rng));
	float a = cosf(turn) * stretch, b = sinf(turn) * stretch;
	float c = -sinf(turn) / stretch, d = cosf(turn) / stretch;
	float p = a * a + c * c;

	/* All (x, y) with |ax + by| <= r and |cx + dy| <= r, or with the sum
	 * of their squares <= r * r; ad - bc is 1. */
	s->quad = synth_real(rng, 0, 1) < quads;
	if (s->quad) {
		s->height = r * (a - c);
		s->lean[0] = -b / a;
		s->lean[1] = -d / c;
		s->width[0] = r / a;
		s->width[1] = r / -c;
	} else {
		s->height = r * sqrtf(p);
		s->lean[0] = -(a * b + c * d) / p;
		s->width[0] = 1 / p;
	}
}

static void row_span(const struct shape *s, float y, float *lo, float *hi)
{
	float mid = y * s->lean[0], half = s->width[0];

	if (!s->quad)
		half *= sqrtf(fabsf(s->height * s->height - y * y));
	*lo = mid - half;
	*hi = mid + half;
	if (s->quad) {
		mid = y * s->lean[1];
		half = s->width[1];
		*lo = mid - half > *lo ? mid - half : *lo;
		*hi = mid + half < *hi ? mid + half : *hi;
	}
}

static void paint_leaf(const struct scene *sc, uint16_t *id, uint16_t n,
		       float x, float y, float r, struct synth_rng *rng)
{
	struct shape s;
	float lo, hi;
	int top, end;

	draw_shape(&s, r, sc->quads, rng);
	top = (int)clampf(y - s.height + 1, 0, (float)sc->height);
	end = (int)clampf(y + s.height + 1, 0, (float)sc->height);
	for (int row = top; row < end; row++) {
		row_span(&s, (float)row - y, &lo, &hi);
		fill(sc, id, n, row, x + lo + 1, x + hi + 1);
	}
}

/* The picture is covered about three times, later leaves over earlier ones. */
void picture_paint(const struct synth_field *field, const struct scene *sc,
		   struct canvas *c, struct synth_rng *rng)
{
	float area = (float)sc->width * (float)sc->height;
	float ratio = sc->rmin / sc->rmax;
	float each = -6.2832f * sc->rmin * sc->rmin * logf(ratio);
	int n = (int)clampf(3 * area / each, 8, PICTURE_LEAVES - 1);

	memset(c->id, 0, (size_t)sc->width * sc->height * sizeof(*c->id));
	draw_leaf(field, sc, &c->leaf[0], 0, 0, sc->rmax, rng);
	c->leaf[0].gx = c->leaf[0].gy = 0;
	for (int i = 1; i <= n; i++) {
		float u = synth_real(rng, 0, 1);
		float r = sc->rmin / sqrtf(1 - u * (1 - ratio * ratio));
		float x = synth_real(rng, 0, (float)sc->width);
		float y = synth_real(rng, 0, (float)sc->height);

		/* Small things keep together: elsewhere, instead of sixteen
		 * there is one that is four times as wide. */
		if (r < 0.1f * sc->rmax && busy_at(field, sc, x, y) < 0.3f) {
			if (synth_below(rng, 16))
				continue;
			r *= 4;
		}
		draw_leaf(field, sc, &c->leaf[i], x, y, r, rng);
		paint_leaf(sc, c->id, (uint16_t)i, x, y, r, rng);
	}
}
