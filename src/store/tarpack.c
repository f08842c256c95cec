/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample as members of a tar, as WebDataset names them: KEY.EXT. A file
 * keeps its extension; other bytes get that of the format that they begin as,
 * or their field's name. Whole numbers become text (label is .cls), all else
 * is a NumPy array.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "store/npyhead.h"
#include "store/packer.h"

enum {
	BLOCK = 512,
	NAME = 100,
	PREFIX = 155,
	KEY_MAX = 4096,
	EXT_MAX = 2 * MR_NAME_MAX,
	PATH_MAX_BYTES = KEY_MAX + EXT_MAX,
	/* header, long name with its own header, number or array header */
	MEMBER_MAX = 3 * BLOCK + 2 * PATH_MAX_BYTES + MR_NPY_HEAD,
};

static size_t blocks(size_t n)
{
	return mr_round_up(n, BLOCK);
}

static size_t bound(const struct mr_opctx *cx, const struct mr_fields *fs,
		    const struct mr_tensor *f)
{
	size_t n = 0;

	(void)cx;
	for (int i = 0; i < fs->n; i++) {
		size_t bytes = mr_tensor_bytes(&f[fs->item[i].id]);

		if (bytes > SIZE_MAX / 2 - n)
			return SIZE_MAX;
		n += bytes + MEMBER_MAX + BLOCK;
	}
	return n;
}

/* ---- keys ---- */

/* "/data/part-7.tfrecord[3]": a place in a container, which is no name. Which
 * container, and the sample's number in the whole set: there may be others of
 * that name in other folders. */
static bool place_key(char *key, uint64_t index)
{
	char *open = strrchr(key, '['), *base = strrchr(key, '/');
	char name[MR_NAME_MAX * 4];
	size_t digits = open ? strspn(open + 1, "0123456789") : 0;

	if (!digits || strcmp(open + 1 + digits, "]") != 0)
		return false;
	*open = 0;
	base = base && base < open ? base + 1 : key;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(base, "."), base);
	snprintf(key, KEY_MAX, "%s%s%llu", name, *name ? "-" : "",
		 (unsigned long long)index);
	return true;
}

/* WebDataset takes everything up to the first dot of the last part for the
 * key, so that no other dot may be there. */
static void plain_key(const struct mr_packer *p, uint64_t index, char *key,
		      char *ext)
{
	size_t n = p->key(p->source, index, key, KEY_MAX);
	char *base, *dot;

	*ext = 0;
	if (place_key(key, index))
		return;
	if (n >= KEY_MAX)
		n = KEY_MAX - 1;
	while (key[0] == '/' || key[0] == '.')
		memmove(key, key + 1, n--);
	base = strrchr(key, '/');
	base = base ? base + 1 : key;
	dot = strrchr(base, '.');
	if (dot && dot > base && strlen(dot) < MR_NAME_MAX) {
		snprintf(ext, MR_NAME_MAX, "%s", dot + 1);
		*dot = 0;
	}
	for (char *c = ext; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
	for (char *c = base; *c; c++)
		*c = *c == '.' ? '_' : *c;
	if (!*key)
		snprintf(key, KEY_MAX, "%llu", (unsigned long long)index);
}

/* And members of one key that follow one another for one sample: x.jpg and
 * x.png, or a file that is listed twice, must have different ones. */
static void make_key(const struct mr_packer *p, uint64_t index, char *key,
		     char *ext)
{
	char before[KEY_MAX], ignored[MR_NAME_MAX], number[24];
	size_t n;

	plain_key(p, index, key, ext);
	if (!index)
		return;
	plain_key(p, index - 1, before, ignored);
	if (strcmp(before, key))
		return;
	n = (size_t)snprintf(number, sizeof(number), "-%llu",
			     (unsigned long long)index);
	if (strlen(key) + n >= KEY_MAX)
		key[KEY_MAX - n - 1] = 0;
	strcat(key, number);
}

/* ---- extensions ---- */

/* Bytes of a frame of MPEG layer III, or 0. */
static size_t mp3_frame(const uint8_t *b)
{
	static const unsigned rates[] = { 44100, 48000, 32000 };
	static const unsigned kbits[2][16] = {
		{ 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144,
		  160 },
		{ 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256,
		  320 },
	};
	unsigned version = b[1] >> 3 & 3, one = version == 3;
	unsigned rate = b[2] >> 2 & 3, kbit = kbits[one][b[2] >> 4];

	if (b[0] != 0xff || (b[1] & 0xe6) != 0xe2 || version == 1 ||
	    rate == 3 || !kbit)
		return 0;
	rate = rates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
	return (one ? 144000 : 72000) * kbit / rate + (b[2] >> 1 & 1);
}

/* Two frames, one behind the other: a few bytes could be anything. */
static bool is_mp3(const uint8_t *b, size_t n)
{
	size_t frame;

	if (n >= 10 && !memcmp(b, "ID3", 3) && b[3] < 10)
		return true;
	frame = n >= 4 ? mp3_frame(b) : 0;
	return frame && n >= frame + 4 && mp3_frame(b + frame);
}

/* What the bytes begin as, or NULL. */
static const char *format_of(const uint8_t *b, size_t n)
{
	if (n >= 3 && !memcmp(b, "\xff\xd8\xff", 3))
		return "jpg";
	if (n >= 8 && !memcmp(b, "\x89PNG\r\n\x1a\n", 8))
		return "png";
	if (n >= 4 && !memcmp(b, "fLaC", 4))
		return "flac";
	if (n >= 12 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WAVE", 4))
		return "wav";
	return is_mp3(b, n) ? "mp3" : NULL;
}

static bool is_bytes(const struct mr_spec *s)
{
	return s->dtype == MR_U8 && s->ndim == 1 && s->shape[0] == MR_ANY;
}

static bool is_number(const struct mr_spec *s)
{
	return s->ndim == 0 && s->dtype < MR_F16;
}

/* A field that is called jpg, or seg.jpg. */
static bool called_so(const char *name, const char *ext)
{
	const char *dot = strrchr(name, '.');

	return !strcasecmp(dot ? dot + 1 : name, ext);
}

/* What comes after the key. */
static void extension(const struct mr_packer *p, const struct mr_field_spec *f,
		      const struct mr_tensor *t, const char *had, char *to)
{
	const char *format = NULL;

	if (is_bytes(&f->spec) && !p->named)
		format = format_of(t->data, mr_tensor_bytes(t));
	if (format && called_so(f->name, format))
		format = NULL;
	if (is_number(&f->spec))
		snprintf(to, EXT_MAX, "%s",
			 strcmp(f->name, "label") || !strcmp(had, "cls") ?
				 f->name :
				 "cls");
	else if (!is_bytes(&f->spec))
		snprintf(to, EXT_MAX, "%s.npy", f->name);
	else
		snprintf(to, EXT_MAX, "%s",
			 f->id == p->file && *had ? had :
			 format			  ? format :
						    f->name);
	/* Or it would be a folder, and the key another. */
	for (char *c = to; *c; c++)
		*c = *c == '/' ? '_' : *c;
}

/* A second picture is NAME.jpg. */
static void set_apart(char ext[][EXT_MAX], int i, const char *name)
{
	char was[EXT_MAX];

	for (int k = 0; k < i; k++) {
		if (strcasecmp(ext[k], ext[i]))
			continue;
		memcpy(was, ext[i], sizeof(was));
		snprintf(ext[i], EXT_MAX, "%.*s.%.*s", MR_NAME_MAX, name,
			 MR_NAME_MAX - 2, was);
		for (char *c = ext[i]; *c; c++)
			*c = *c == '/' ? '_' : *c;
		return;
	}
}

/* ---- members ---- */

static void octal(uint8_t *to, size_t width, uint64_t v)
{
	for (size_t i = width - 1; i-- > 0; v >>= 3)
		to[i] = (uint8_t)('0' + (v & 7));
	to[width - 1] = 0;
}

/* Sizes that eleven octal digits do not hold are in base 256. */
static void put_size(uint8_t *to, uint64_t v)
{
	if (v < (uint64_t)1 << 33) {
		octal(to, 12, v);
		return;
	}
	memset(to, 0, 12);
	to[0] = 0x80;
	for (int i = 11; i > 3; i--, v >>= 8)
		to[i] = (uint8_t)v;
}

static void put_header(uint8_t *h, const char *name, uint64_t size, char type)
{
	size_t n = strlen(name), cut = 0;
	unsigned sum = 0;

	memset(h, 0, BLOCK);
	if (n > NAME) {
		for (size_t i = 0; i < n && i <= PREFIX; i++)
			if (name[i] == '/' && n - i - 1 <= NAME)
				cut = i;
		memcpy(h + 345, name, cut);
		name += cut ? cut + 1 : n - NAME;
		n = strlen(name);
	}
	memcpy(h, name, n < NAME ? n : NAME);
	octal(h + 100, 8, 0644);
	octal(h + 108, 8, 0);
	octal(h + 116, 8, 0);
	put_size(h + 124, size);
	octal(h + 136, 12, 0); /* no time: the same bytes each time */
	memset(h + 148, ' ', 8);
	h[156] = (uint8_t)type;
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	for (int i = 0; i < BLOCK; i++)
		sum += h[i];
	octal(h + 148, 7, sum);
	h[155] = ' ';
}

static bool fits_ustar(const char *name)
{
	size_t n = strlen(name);

	if (n <= NAME)
		return true;
	for (size_t i = 0; i < n && i <= PREFIX; i++)
		if (name[i] == '/' && n - i - 1 <= NAME && i)
			return true;
	return false;
}

/* A header for a member; a pax record before it where the name is too long.
 * Returns its bytes. */
static size_t begin_member(uint8_t *to, const char *name, uint64_t size)
{
	size_t at = 0;

	if (!fits_ustar(name)) {
		size_t body = strlen(name) + 7, n = body + 1;
		char digits[24];

		/* "LEN path=NAME\n", where LEN counts itself */
		while ((size_t)snprintf(digits, sizeof(digits), "%zu", n) +
			       body !=
		       n)
			n++;
		put_header(to, "././@PaxHeader", n, 'x');
		memset(to + BLOCK, 0, blocks(n));
		at = BLOCK + blocks(n);
		memcpy(to + BLOCK, digits, strlen(digits));
		snprintf((char *)to + BLOCK + strlen(digits), n, " path=%s",
			 name);
		to[BLOCK + n - 1] = '\n';
	}
	put_header(to + at, name, size, '0');
	return at + BLOCK;
}

/* The member's content before the tensor's own bytes. */
static size_t lead(const struct mr_field_spec *f, const struct mr_tensor *t,
		   uint8_t *to)
{
	if (is_number(&f->spec))
		return (size_t)sprintf((char *)to, "%lld",
				       (long long)mr_tensor_integer(t, 0));
	return is_bytes(&f->spec) ? 0 : mr_npy_head(t, to);
}

static int pack(const struct mr_opctx *cx, const struct mr_fields *fs,
		const struct mr_tensor *f, struct mr_tensor *out)
{
	const struct mr_packer *p = cx->self;
	char key[KEY_MAX], had[MR_NAME_MAX], ext[MR_MAX_FIELDS][EXT_MAX];
	char name[PATH_MAX_BYTES];
	uint8_t head[MR_NPY_HEAD], *to = out->data;

	make_key(p, cx->index, key, had);
	if (p->file < 0)
		*had = 0;
	for (int i = 0; i < fs->n; i++) {
		const struct mr_tensor *t = &f[fs->item[i].id];
		size_t n = lead(&fs->item[i], t, head);
		size_t body =
			is_number(&fs->item[i].spec) ? 0 : mr_tensor_bytes(t);

		extension(p, &fs->item[i], t, had, ext[i]);
		set_apart(ext, i, fs->item[i].name);
		snprintf(name, sizeof(name), "%s.%s", key, ext[i]);
		to += begin_member(to, name, n + body);
		memcpy(to, head, n);
		if (body)
			memcpy(to + n, t->data, body);
		memset(to + n + body, 0, blocks(n + body) - n - body);
		to += blocks(n + body);
	}
	out->shape[0] = to - (uint8_t *)out->data;
	return 0;
}

const struct mr_op mr_pack_tar = {
	.name = "tar",
	.help = "make members of a tar of a sample",
	.bound = bound,
	.pack = pack,
};
