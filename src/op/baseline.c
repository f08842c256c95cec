/* SPDX-License-Identifier: Apache-2.0 */
#include "op/baseline.h"

#include "core/mem.h"
#include "kernel/cpu.h"
#include "kernel/jpeg.h"
#include "op/huffman.h"

enum {
	COMPONENTS = 3,
	STRIP = 16,
	PAD = 64,   /* around rows: kernels may look and write there */
	MARGIN = 2, /* pixels whose neighbours upsampling looks at */
};

/* The place of the k-th coefficient; the end of a block, and what lies behind
 * the last, go to a place of their own. */
/* clang-format off */
#define NOWHERE 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t natural[MR_HUFF_END + 64] = {
	 0,  1,  8, 16,  9,  2,  3, 10, 17, 24, 32, 25, 18, 11,  4,  5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,  6,  7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
	NOWHERE, NOWHERE, NOWHERE, NOWHERE,
	NOWHERE, NOWHERE, NOWHERE, NOWHERE,
};
/* clang-format on */

struct component {
	int h, v; /* blocks of it in an MCU */
	int size; /* samples of a block's side: 8, or fewer when reduced */
	const struct mr_huffman *dc, *ac;
	_Alignas(64) uint16_t quant[64]; /* in natural order */
	int before;			 /* DC of the block before */
	/* The part of the image that was decoded. */
	uint8_t *plane;
	size_t stride;
	int64_t width, height; /* of the whole component, in samples */
	int64_t x, y;	       /* of the plane's first sample in it */
};

struct mr_baseline {
	struct mr_huffman dc[4], ac[4];
	int components;
	struct component comp[COMPONENTS];
	struct mr_bits bits;
	const uint8_t *scan, *scan_end;	    /* what is still to be unstuffed */
	_Alignas(64) int16_t coef[64 + 32]; /* the last ones are rubbish */
	struct mr_rect want;
	int64_t row;
	int64_t height, width; /* of the image, reduced */
	bool up_h, up_v;       /* colours have half the width, height */
	int restart;	       /* MCUs between markers, 0: none */
	int left;	       /* until the next one */
	int restarts;
	bool more; /* the right marker follows the bits at hand */
	uint8_t *memory;
	size_t cap;
	/* in memory, beside the planes */
	uint8_t *strip, *line[2], *data;
	size_t strip_stride;
};

/* MCUs: how many there are, and which are needed. */
struct grid {
	int64_t across;		/* in all */
	int64_t x0, x1, y0, y1; /* needed: [x0, x1) x [y0, y1) */
};

int mr_baseline_new(struct mr_baseline **b, struct mr_err *err)
{
	*b = aligned_alloc(64, mr_round_up(sizeof(**b), 64));
	if (!*b)
		return mr_err_set(err, MR_ENOMEM, "out of memory");
	memset(*b, 0, sizeof(**b));
	return 0;
}

void mr_baseline_free(struct mr_baseline *b)
{
	if (b)
		free(b->memory);
	free(b);
}

/* ---- is it usual? ---- */

static bool usual_colours(const struct jpeg_decompress_struct *c)
{
	const jpeg_component_info *y = &c->comp_info[0];

	if (c->num_components == 1)
		return c->jpeg_color_space == JCS_GRAYSCALE;
	if (c->num_components != 3 || c->jpeg_color_space != JCS_YCbCr)
		return false;
	for (int i = 1; i < 3; i++)
		if (c->comp_info[i].h_samp_factor != 1 ||
		    c->comp_info[i].v_samp_factor != 1)
			return false;
	return (y->h_samp_factor == 1 && y->v_samp_factor == 1) ||
	       (y->h_samp_factor == 2 && y->v_samp_factor <= 2);
}

bool mr_baseline_fits(const struct jpeg_decompress_struct *c)
{
	return !c->progressive_mode && !c->arith_code &&
	       c->data_precision == 8 &&
	       c->comps_in_scan == c->num_components && c->Ss == 0 &&
	       c->Se == 63 && c->Ah == 0 && c->Al == 0 &&
	       c->image_width >= 16 && c->image_height >= 16 &&
	       usual_colours(c);
}

/* ---- preparing ---- */

static bool use_table(struct mr_huffman *made, JHUFF_TBL *const *tables, int no,
		      bool dc, const struct mr_huffman **out)
{
	if (no < 0 || no >= NUM_HUFF_TBLS || !tables[no] ||
	    !mr_huffman_make(&made[no], tables[no], dc))
		return false;
	*out = &made[no];
	return true;
}

static bool set_component(struct mr_baseline *b,
			  const struct jpeg_decompress_struct *c, int i)
{
	const jpeg_component_info *from = c->cur_comp_info[i];
	struct component *p = &b->comp[i];
	const JQUANT_TBL *q = NULL;

	if (from->quant_tbl_no >= 0 && from->quant_tbl_no < NUM_QUANT_TBLS)
		q = c->quant_tbl_ptrs[from->quant_tbl_no];
	/* In the scan's order they are Y, Cb, Cr as in the frame's. */
	if (!q || from != &c->comp_info[i])
		return false;
	p->h = b->components == 1 ? 1 : from->h_samp_factor;
	p->v = b->components == 1 ? 1 : from->v_samp_factor;
	p->before = 0;
	for (int k = 0; k < 64; k++) /* libjpeg keeps them in natural order */
		p->quant[k] = q->quantval[k];
	return use_table(b->dc, c->dc_huff_tbl_ptrs, from->dc_tbl_no, true,
			 &p->dc) &&
	       use_table(b->ac, c->ac_huff_tbl_ptrs, from->ac_tbl_no, false,
			 &p->ac);
}

/* Samples per block, so that the image is `by` times smaller. Colours of half
 * the size need not be enlarged then: they are reduced less. */
static void set_sizes(struct mr_baseline *b,
		      const struct jpeg_decompress_struct *c, int by)
{
	const struct component *luma = &b->comp[0];
	bool less = by > 1 && luma->v == 2;

	b->width = (c->image_width + (int64_t)by - 1) / by;
	b->height = (c->image_height + (int64_t)by - 1) / by;
	b->up_h = luma->h == 2 && !less;
	b->up_v = luma->v == 2 && !less;
	for (int i = 0; i < b->components; i++)
		b->comp[i].size = 8 / by * (i && less ? 2 : 1);
}

/* MCUs [*from, *to) cover [at, at + n) and what is looked at around it. */
static void cover(int64_t at, int64_t n, int64_t all, int64_t mcu,
		  int64_t *from, int64_t *to)
{
	int64_t lo = at > MARGIN ? at - MARGIN : 0;
	int64_t hi = at + n + MARGIN < all ? at + n + MARGIN : all;

	*from = lo / mcu;
	*to = (hi + mcu - 1) / mcu;
}

static void make_grid(const struct mr_baseline *b,
		      const struct jpeg_decompress_struct *c, struct grid *g)
{
	const struct component *luma = &b->comp[0];
	const struct mr_rect *r = &b->want;

	g->across = (c->image_width + 8 * luma->h - 1) / (8 * luma->h);
	cover(r->x, r->w, b->width, luma->size * luma->h, &g->x0, &g->x1);
	cover(r->y, r->h, b->height, luma->size * luma->v, &g->y0, &g->y1);
}

/* Half as much again where that may be, as there may be larger ones. */
static bool grow(struct mr_baseline *b, size_t bytes, size_t max)
{
	bytes = bytes < max - bytes / 2 ? bytes + bytes / 2 : bytes;
	bytes = mr_round_up(bytes, PAD);
	free(b->memory);
	b->cap = 0;
	b->memory = aligned_alloc(PAD, bytes);
	if (!b->memory)
		return false;
	memset(b->memory, 0, bytes);
	b->cap = bytes;
	return true;
}

/* Planes for the needed MCUs, lines for upsampled colours, a strip. */
static bool reserve(struct mr_baseline *b, const struct grid *g, size_t scan,
		    size_t max)
{
	size_t offset[COMPONENTS], bytes = PAD, line;

	for (int i = 0; i < b->components; i++) {
		struct component *p = &b->comp[i];
		int64_t rows = (g->y1 - g->y0) * p->v * p->size;

		p->x = g->x0 * p->h * p->size;
		p->y = g->y0 * p->v * p->size;
		p->width = i && b->up_h ? (b->width + 1) / 2 : b->width;
		p->height = i && b->up_v ? (b->height + 1) / 2 : b->height;
		p->stride =
			(size_t)((g->x1 - g->x0) * p->h * p->size) + 2 * PAD;
		p->stride = mr_round_up(p->stride, PAD);
		offset[i] = bytes;
		bytes += p->stride * (size_t)rows;
	}
	line = mr_round_up((size_t)b->want.w + 2 * PAD + 4, PAD);
	b->strip_stride = line * 4;
	scan = mr_round_up(scan + MR_BITS_SLACK, PAD);
	bytes += 2 * line + STRIP * b->strip_stride + scan + 2 * PAD;
	if (bytes > max)
		return false;
	if (bytes > b->cap && !grow(b, bytes, max))
		return false;
	for (int i = 0; i < b->components; i++)
		b->comp[i].plane = b->memory + offset[i] + PAD;
	b->strip = b->memory + bytes - STRIP * b->strip_stride - PAD;
	b->line[1] = b->strip - line;
	b->line[0] = b->line[1] - line;
	b->data = b->line[0] - scan;
	return true;
}

/* ---- blocks ---- */

/* Into both versions of decode_rows(), the hot loop. */
#define INLINE static inline __attribute__((always_inline))

/*
 * The bits up to the next marker, without the zeros that follow each ff
 * byte, so that reading them need not look at each. Returns the marker, or
 * -1 at the end of the file.
 */
static int unstuff(struct mr_baseline *b)
{
	const uint8_t *at = b->scan, *end = b->scan_end;
	uint8_t *to = b->data;
	int marker = -1;
	bool filled;

	while (at < end && marker < 0) {
		const uint8_t *ff = memchr(at, 0xff, (size_t)(end - at));
		size_t n = (size_t)((ff ? ff + 1 : end) - at);

		memcpy(to, at, n);
		to += n;
		at += n;
		if (!ff)
			break;
		/* Filler comes before markers only. Elsewhere, libjpeg-turbo
		 * leaves rubbish in the block at hand: let it. */
		filled = at < end && *at == 0xff;
		while (at < end && *at == 0xff)
			at++;
		if (at == end || *at || filled) {
			to--;
			marker = at < end ? *at : -1;
		}
		at += at < end;
	}
	memset(to, 0, MR_BITS_SLACK);
	mr_bits_start(&b->bits, b->data, (size_t)(to - b->data));
	b->scan = at;
	return marker;
}

INLINE bool read_dc(struct mr_bits *b, struct component *p)
{
	uint32_t e;

	mr_bits_fill(b);
	e = mr_huffman_next(p->dc, b);
	/* 16 bits, as libjpeg keeps it in the end */
	p->before = (int16_t)(p->before + mr_huff_value(e, b->bits));
	mr_bits_drop(b, mr_huff_drop(e));
	return e;
}

/* Has a block ended well where k stands? */
INLINE bool at_end(int k)
{
	return k == 64 || k > MR_HUFF_END;
}

/* Coefficients 1 to 63 into coef, which is 0; *none: all of them are 0. */
INLINE bool read_ac(struct mr_bits *bits, const struct mr_huffman *h,
		    int16_t *coef, bool *none)
{
	struct mr_bits b = *bits; /* in registers */
	int k = 1;

	while (k < 64) {
		uint32_t e;

		mr_bits_fill(&b); /* enough for two short codes */
		for (int i = 0; i < 2 && k < 64; i++) {
			e = mr_huffman_next(h, &b);
			if (!e)
				return false;
			k += mr_huff_go(e);
			coef[natural[k - 1]] =
				(int16_t)mr_huff_value(e, b.bits);
			mr_bits_drop(&b, mr_huff_drop(e));
		}
	}
	*bits = b;
	*none = k == 1 + MR_HUFF_END;
	return at_end(k);
}

/* The last symbols of a block one by one: of two, the second may be the next
 * block's. */
INLINE bool skip_end(struct mr_bits *b, const struct mr_huffman *h, int k)
{
	while (k < 64) {
		uint32_t e;

		mr_bits_fill(b);
		e = mr_huffman_next(h, b);
		if (!e)
			return false;
		k += mr_huff_go(e);
		mr_bits_drop(b, mr_huff_drop(e));
	}
	return at_end(k);
}

INLINE bool skip_ac(struct mr_bits *bits, const struct mr_huffman *h)
{
	struct mr_bits b = *bits;
	int k = 1, next;
	bool good = true;

	for (;;) {
		unsigned e;

		mr_bits_fill(&b); /* enough for two entries */
		e = h->skip[b.bits >> (64 - MR_HUFF_BITS)];
		next = k + (int)(e >> 8);
		if (!e || next >= 64)
			break;
		k = next;
		mr_bits_drop(&b, (int)(e & 255));
		e = h->skip[b.bits >> (64 - MR_HUFF_BITS)];
		next = k + (int)(e >> 8);
		if (!e || next >= 64)
			break;
		k = next;
		mr_bits_drop(&b, (int)(e & 255));
	}
	good = skip_end(&b, h, k);
	*bits = b;
	return good;
}

INLINE bool skip_mcu(struct mr_baseline *b)
{
	for (int i = 0; i < b->components; i++) {
		struct component *p = &b->comp[i];

		for (int n = p->h * p->v; n; n--)
			if (!read_dc(&b->bits, p) || !skip_ac(&b->bits, p->ac))
				return false;
	}
	return true;
}

/* memset() would become a slow string instruction. */
INLINE void clear(int16_t *coef)
{
	typedef int16_t part __attribute__((vector_size(32)));
	part *p = (part *)coef;

	for (int i = 0; i < 4; i++)
		p[i] = (part){ 0 };
}

INLINE bool block(struct mr_baseline *b, struct component *p, uint8_t *to)
{
	bool none;

	if (!read_dc(&b->bits, p))
		return false;
	if (p->size == 1) {
		*to = mr_jpeg_dc((int16_t)(p->before * p->quant[0]));
		return skip_ac(&b->bits, p->ac);
	}
	if (!read_ac(&b->bits, p->ac, b->coef, &none))
		return false;
	if (none && p->size == 8) {
		mr_jpeg_idct_dc((int16_t)(p->before * p->quant[0]), to,
				p->stride);
		return true;
	}
	b->coef[0] = (int16_t)p->before;
	if (p->size == 8)
		mr_jpeg_idct(b->coef, p->quant, to, p->stride);
	else if (p->size == 4)
		mr_jpeg_idct4(b->coef, p->quant, to, p->stride);
	else
		mr_jpeg_idct2(b->coef, p->quant, to, p->stride);
	clear(b->coef);
	return true;
}

/* x, y: of the MCU, among those needed. */
INLINE bool decode_mcu(struct mr_baseline *b, int64_t x, int64_t y)
{
	for (int i = 0; i < b->components; i++) {
		struct component *p = &b->comp[i];
		int size = p->size;
		uint8_t *at = p->plane + (size_t)(y * p->v * size) * p->stride +
			      x * p->h * size;

		for (int v = 0; v < p->v; v++)
			for (int h = 0; h < p->h; h++)
				if (!block(b, p,
					   at + (size_t)(v * size) * p->stride +
						   h * size))
					return false;
	}
	return true;
}

/* Up to the next restart marker, if that is what comes; they count to 8. */
static void next_bits(struct mr_baseline *b)
{
	b->more = unstuff(b) == 0xd0 + b->restarts++ % 8;
}

static bool pass_restart(struct mr_baseline *b)
{
	if (!b->restart)
		return true;
	if (b->left == 0) {
		if (mr_bits_over(&b->bits) || !b->more)
			return false;
		next_bits(b);
		b->left = b->restart;
		for (int i = 0; i < b->components; i++)
			b->comp[i].before = 0;
	}
	b->left--;
	return true;
}

INLINE bool decode_row(struct mr_baseline *b, const struct grid *g, int64_t y)
{
	bool last = y == g->y1 - 1;

	for (int64_t x = 0; x < (last ? g->x1 : g->across); x++) {
		bool needed = y >= g->y0 && x >= g->x0 && x < g->x1;

		if (!pass_restart(b))
			return false;
		if (!(needed ? decode_mcu(b, x - g->x0, y - g->y0) :
			       skip_mcu(b)))
			return false;
	}
	return !mr_bits_over(&b->bits);
}

INLINE bool decode_all(struct mr_baseline *b, const struct grid *g)
{
	for (int64_t y = 0; y < g->y1; y++)
		if (!decode_row(b, g, y))
			return false;
	return true;
}

#if defined(__x86_64__)

/* Shifts by a variable are its daily bread, and cheaper with BMI2. */
__attribute__((target("bmi2"))) static bool decode_bmi2(struct mr_baseline *b,
							const struct grid *g)
{
	return decode_all(b, g);
}

#endif

static bool decode_rows(struct mr_baseline *b, const struct grid *g)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2())
		return decode_bmi2(b, g);
#endif
	return decode_all(b, g);
}

/* Upsampling looks one sample over the edges of the image: as if the last
 * ones were there twice. */
static void repeat_edges(struct component *p, const struct grid *g)
{
	int64_t rows = (g->y1 - g->y0) * p->v * p->size;
	int64_t end = p->width - p->x;

	for (int64_t y = 0; y < rows; y++) {
		uint8_t *row = p->plane + (size_t)y * p->stride;

		if (p->x == 0)
			row[-1] = row[0];
		if (g->x1 == g->across)
			row[end] = row[end - 1];
	}
}

int mr_baseline_decode(struct mr_baseline *b,
		       const struct jpeg_decompress_struct *c, int by,
		       const struct mr_rect *r, const uint8_t *scan, size_t n,
		       size_t max)
{
	struct grid g;

	b->components = c->num_components;
	b->want = *r;
	b->row = 0;
	b->restart = b->left = (int)c->restart_interval;
	for (int i = 0; i < b->components; i++)
		if (!set_component(b, c, i))
			return MR_EDATA;
	set_sizes(b, c, by);
	make_grid(b, c, &g);
	if (!reserve(b, &g, n, max))
		return MR_ELIMIT;
	b->scan = scan;
	b->scan_end = scan + n;
	b->restarts = 0;
	next_bits(b);
	memset(b->coef, 0, sizeof(b->coef));
	if (!decode_rows(b, &g))
		return MR_EDATA;
	for (int i = 1; i < b->components; i++)
		if (b->up_h)
			repeat_edges(&b->comp[i], &g);
	return 0;
}

/* ---- pixels ---- */

static const uint8_t *sample_row(const struct component *p, int64_t x,
				 int64_t y)
{
	if (y < 0)
		y = 0;
	if (y >= p->height)
		y = p->height - 1;
	return p->plane + (size_t)(y - p->y) * p->stride + (x - p->x);
}

/* Row y of component i, from column x of the image on, at full width. */
static const uint8_t *full_row(struct mr_baseline *b, int i, int64_t y)
{
	const struct component *p = &b->comp[i];
	int64_t x = b->want.x, half = x >> 1;
	size_t n = (size_t)(((x + b->want.w - 1) >> 1) - half + 1);
	uint8_t *out;

	if (!b->up_h)
		return sample_row(p, x, y);
	out = b->line[i - 1];
	if (!b->up_v)
		mr_jpeg_h2v1(sample_row(p, half, y), n, out);
	else
		mr_jpeg_h2v2(sample_row(p, half, y >> 1),
			     sample_row(p, half, (y >> 1) + (y & 1 ? 1 : -1)),
			     n, out);
	return out + (x & 1);
}

void mr_baseline_rows(struct mr_baseline *b, struct mr_rows *out)
{
	int64_t left = b->want.h - b->row;
	size_t n = (size_t)b->want.w;

	*out = (struct mr_rows){ b->strip, b->strip_stride,
				 left < STRIP ? (int)left : STRIP };
	for (int i = 0; i < out->n; i++, b->row++) {
		int64_t y = b->want.y + b->row;
		const uint8_t *luma = sample_row(&b->comp[0], b->want.x, y);
		uint8_t *to = b->strip + (size_t)i * b->strip_stride;

		if (b->components == 1)
			mr_jpeg_grey(luma, n, to);
		else
			mr_jpeg_ycc(luma, full_row(b, 1, y), full_row(b, 2, y),
				    n, to);
	}
}
