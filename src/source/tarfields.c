/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarfields.h"

#include <stdio.h>

/* ---- kinds of extensions ---- */

static bool is_one_of(const char *ext, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(ext, *list))
			return true;
	return false;
}

/* 0: jpg; 1: seg.jpg; 2: no image. */
static int rank(const char *ext)
{
	static const char *const images[] = { "jpg",  "jpeg", "png", "ppm",
					      "pgm",  "pbm",  "pnm", "webp",
					      "tiff", "tif",  "gif", "bmp",
					      NULL };
	const char *dot = strrchr(ext, '.');

	if (is_one_of(ext, images))
		return 0;
	return dot && is_one_of(dot + 1, images) ? 1 : 2;
}

/* What WebDataset makes integers of. */
static bool is_number(const char *ext)
{
	static const char *const numbers[] = { "cls", "cls2",  "class", "count",
					       "id",  "index", "inx",	NULL };
	const char *dot = strrchr(ext, '.');

	return is_one_of(dot ? dot + 1 : ext, numbers);
}

/* ---- all extensions, and how many samples have them ---- */

struct known {
	struct mr_names name;
	uint64_t *having;
	size_t cap;
};

static int count_ext(struct known *k, const char *ext, uint64_t n,
		     struct mr_err *err)
{
	size_t i = 0;
	int e;

	while (i < k->name.n && strcmp(mr_names_get(&k->name, i), ext))
		i++;
	if (i == k->name.n) {
		e = mr_grow(&k->having, &k->cap, i + 1, sizeof(*k->having),
			    SIZE_MAX / 8, err);
		if (!e)
			e = mr_names_add(&k->name, ext, strlen(ext), err);
		if (e)
			return e;
		k->having[i] = 0;
	}
	k->having[i] += n;
	return 0;
}

static int count_all(struct known *k, const struct mr_tar_index *x,
		     const struct mr_tar_index *end, struct mr_err *err)
{
	for (; x < end; x++) {
		for (size_t i = 0; i < x->ext.n; i++) {
			int e = count_ext(k, mr_names_get(&x->ext, i),
					  x->having[i], err);

			if (e)
				return e;
		}
	}
	return 0;
}

/* " jpg (10), cls (9)", or as many as fit. */
static void list_known(const struct known *k, char *buf, size_t cap)
{
	size_t at = 0;

	buf[0] = 0;
	for (size_t i = 0; i < k->name.n && at + 60 < cap; i++)
		at += (size_t)snprintf(buf + at, cap - at, "%s%.31s (%llu)",
				       i ? ", " : "", mr_names_get(&k->name, i),
				       (unsigned long long)k->having[i]);
}

/* ---- choosing ---- */

static int add_field(struct mr_tar_fields *f, const struct known *k,
		     const char *name, size_t n, struct mr_err *err)
{
	char have[400];

	if (f->n == MR_MAX_FIELDS) {
		list_known(k, have, sizeof(have));
		return mr_err_set(err, MR_ELIMIT,
				  "more than %d fields; choose with fields=jpg,"
				  "cls of: %s",
				  MR_MAX_FIELDS, have);
	}
	if (!n || n >= MR_NAME_MAX)
		return mr_err_set(
			err, MR_EINVAL,
			"the extension '%.*s' is no name for a field: "
			"want 1 to %d characters; choose others with "
			"fields=jpg,cls",
			(int)(n < 200 ? n : 200), name, MR_NAME_MAX - 1);
	memcpy(f->name[f->n], name, n);
	f->name[f->n][n] = 0;
	f->n++;
	return 0;
}

static int choose_most(struct mr_tar_fields *f, const struct known *k,
		       uint64_t samples, struct mr_err *err)
{
	for (int r = 0; r < 3; r++)
		for (size_t i = 0; i < k->name.n; i++) {
			const char *ext = mr_names_get(&k->name, i);
			int e;

			if (rank(ext) != r ||
			    k->having[i] < samples - samples / 2)
				continue;
			e = add_field(f, k, ext, strlen(ext), err);
			if (e)
				return e;
		}
	return 0;
}

static int choose_wanted(struct mr_tar_fields *f, const struct known *k,
			 const char *list, struct mr_err *err)
{
	for (;;) {
		int e = add_field(f, k, list, strcspn(list, ",;"), err);

		for (int i = 0; !e && i < f->n - 1; i++)
			if (!strcmp(f->name[i], f->name[f->n - 1]))
				e = mr_err_set(err, MR_EINVAL,
					       "fields: '%s' is named twice",
					       f->name[i]);
		list += strcspn(list, ",");
		if (e || !*list)
			return e;
		list++;
	}
}

/* ---- extensions to fields ---- */

/* The field of an extension by the user's list, or -1. */
static int8_t wanted_field(const char *list, const char *ext)
{
	size_t n = strlen(ext);
	int field = 0;

	for (;;) {
		size_t k = strcspn(list, ",;");

		if (k == n && !memcmp(list, ext, n))
			return (int8_t)field;
		if (!list[k])
			return -1;
		field += list[k] == ',';
		list += k + 1;
	}
}

static int8_t field_of(const struct mr_tar_fields *f, const char *wanted,
		       const char *ext)
{
	if (*wanted)
		return wanted_field(wanted, ext);
	for (int i = 0; i < f->n; i++)
		if (!strcmp(f->name[i], ext))
			return (int8_t)i;
	return -1;
}

static int map_tar(struct mr_tar_fields *f, const struct mr_tar_index *x,
		   const char *wanted, struct mr_err *err)
{
	int8_t *of = mr_alloc(x->ext.n, 1, err);

	if (!of)
		return MR_ENOMEM;
	f->of[f->tars++] = of;
	for (size_t i = 0; i < x->ext.n; i++) {
		of[i] = field_of(f, wanted, mr_names_get(&x->ext, i));
		if (of[i] >= 0)
			f->having[of[i]] += x->having[i];
	}
	return 0;
}

static int check_found(const struct mr_tar_fields *f, const struct known *k,
		       struct mr_err *err)
{
	char have[400];

	for (int i = 0; i < f->n; i++)
		if (!f->having[i]) {
			list_known(k, have, sizeof(have));
			return mr_err_set(err, MR_EINVAL,
					  "fields: no sample has '%s'; there "
					  "are: %s",
					  f->name[i], have);
		}
	return 0;
}

static int init(struct mr_tar_fields *f, struct known *k,
		const struct mr_tar_index *x, const struct mr_parts *ps,
		const char *wanted, struct mr_err *err)
{
	int e = count_all(k, x, x + ps->n, err);

	if (!e)
		e = *wanted ? choose_wanted(f, k, wanted, err) :
			      choose_most(f, k, ps->samples, err);
	if (e)
		return e;
	f->of = mr_alloc(ps->n, sizeof(*f->of), err);
	if (!f->of)
		return MR_ENOMEM;
	for (size_t t = 0; t < ps->n; t++) {
		e = map_tar(f, &x[t], wanted, err);
		if (e)
			return e;
	}
	return check_found(f, k, err);
}

int mr_tar_fields_init(struct mr_tar_fields *f, const struct mr_tar_index *x,
		       const struct mr_parts *ps, const char *wanted,
		       bool decode, struct mr_err *err)
{
	struct known k = { 0 };
	int e = init(f, &k, x, ps, wanted, err);

	for (int i = 0; !e && i < f->n; i++)
		f->number[i] = decode && is_number(f->name[i]);
	mr_names_fini(&k.name);
	free(k.having);
	return e;
}

void mr_tar_fields_fini(struct mr_tar_fields *f)
{
	for (size_t t = 0; t < f->tars; t++)
		free(f->of[t]);
	free(f->of);
	*f = (struct mr_tar_fields){ 0 };
}

/* ---- numbers ---- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool mr_tar_integer(const char *s, size_t n, int64_t *v)
{
	uint64_t x = 0, most = INT64_MAX;
	bool minus = false, digit = false;

	while (n && is_blank(s[n - 1]))
		n--;
	while (n && is_blank(*s))
		s++, n--;
	if (n && (*s == '-' || *s == '+')) {
		minus = *s == '-';
		most += minus;
		s++, n--;
	}
	for (size_t i = 0; i < n; i++) {
		unsigned d = (unsigned char)s[i] - (unsigned)'0';

		/* One _ between digits, as in Python. */
		if (s[i] == '_' && digit && i + 1 < n) {
			digit = false;
			continue;
		}
		if (d > 9 || x > (most - d) / 10)
			return false;
		x = x * 10 + d;
		digit = true;
	}
	if (!digit)
		return false;
	*v = minus ? (int64_t)(0 - x) : (int64_t)x;
	return true;
}
