/* SPDX-License-Identifier: Apache-2.0 */
#include "source/paths.h"

#include <stdio.h>

#include "io/input.h"

/* ---- names ---- */

int mr_names_add(struct mr_names *t, const char *s, size_t n,
		 struct mr_err *err)
{
	int e = mr_grow(&t->pool, &t->pool_cap, t->used + n + 1, 1,
			SIZE_MAX / 4, err);

	if (!e)
		e = mr_grow(&t->at, &t->at_cap, t->n + 1, sizeof(*t->at),
			    SIZE_MAX / 4 / sizeof(*t->at), err);
	if (e)
		return e;
	memcpy(t->pool + t->used, s, n);
	t->pool[t->used + n] = 0;
	t->at[t->n++] = t->used;
	t->used += n + 1;
	return 0;
}

void mr_names_trim(struct mr_names *t)
{
	char *pool = realloc(t->pool, t->used ? t->used : 1);
	uint64_t *at = realloc(t->at, (t->n ? t->n : 1) * sizeof(*at));

	if (pool) {
		t->pool = pool;
		t->pool_cap = t->used;
	}
	if (at) {
		t->at = at;
		t->at_cap = t->n;
	}
}

void mr_names_fini(struct mr_names *t)
{
	free(t->pool);
	free(t->at);
	*t = (struct mr_names){ 0 };
}

/* ---- sorting ---- */

/* Eight bytes from `depth` on as a number that compares like them; past the
 * end of the text there are zeros. */
static uint64_t key_at(const char *base, const struct mr_text *t, size_t depth)
{
	size_t left = t->len > depth ? t->len - depth : 0;
	uint64_t v;

	if (!left)
		return 0;
	memcpy(&v, base + t->at + depth, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return left >= 8 ? v : v & ~(UINT64_MAX >> 8 * left);
}

/* How far all texts agree, at least `depth`, which the caller knows. */
static size_t common(const char *base, const struct mr_text *t, size_t n,
		     size_t depth)
{
	const char *a = base + t[0].at;
	size_t end = t[0].len;

	for (size_t i = 1; i < n && end > depth; i++) {
		const char *b = base + t[i].at;
		size_t k = depth;

		if (t[i].len < end)
			end = t[i].len;
		if (end > depth && !memcmp(a + depth, b + depth, end - depth))
			continue;
		while (k < end && a[k] == b[k])
			k++;
		end = k;
	}
	return end > depth ? end : depth;
}

static bool less(const char *base, const struct mr_text *a,
		 const struct mr_text *b, size_t depth)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int c = 0;

	if (a->key != b->key)
		return a->key < b->key;
	if (n > depth + 8)
		c = memcmp(base + a->at + depth + 8, base + b->at + depth + 8,
			   n - depth - 8);
	return c ? c < 0 : a->len < b->len;
}

static void sort_few(const char *base, struct mr_text *t, size_t n,
		     size_t depth)
{
	for (size_t i = 1; i < n; i++) {
		struct mr_text x = t[i];
		size_t k = i;

		for (; k && less(base, &x, &t[k - 1], depth); k--)
			t[k] = t[k - 1];
		t[k] = x;
	}
}

static void scatter(struct mr_text *to, const struct mr_text *from, size_t n,
		    uint32_t count[256], int shift)
{
	uint32_t sum = 0;

	for (int i = 0; i < 256; i++) {
		uint32_t here = count[i];

		count[i] = sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++)
		to[count[from[i].key >> shift & 255]++] = from[i];
}

/* By key, a byte at a time from the last; bytes that are all the same, as
 * most of a file name's are, cost nothing. */
static void sort_keys(struct mr_text_sort *s, struct mr_text *t, size_t n)
{
	struct mr_text *from = t, *to = s->tmp;

	memset(s->count, 0, sizeof(s->count));
	for (size_t i = 0; i < n; i++)
		for (int b = 0; b < 8; b++)
			s->count[b][t[i].key >> 8 * b & 255]++;
	for (int b = 0; b < 8; b++) {
		struct mr_text *swap = from;

		if (s->count[b][t[0].key >> 8 * b & 255] == n)
			continue;
		scatter(to, from, n, s->count[b], 8 * b);
		from = to;
		to = swap;
	}
	if (from != t)
		memcpy(t, from, n * sizeof(*t));
}

static void sort_from(struct mr_text_sort *s, const char *base,
		      struct mr_text *t, size_t n, size_t depth)
{
	enum { FEW = 32 };
	bool more = false;

	depth = common(base, t, n, depth);
	for (size_t i = 0; i < n; i++) {
		t[i].key = key_at(base, &t[i], depth);
		more |= t[i].len > depth;
	}
	if (!more)
		return;
	if (n <= FEW) {
		sort_few(base, t, n, depth);
		return;
	}
	sort_keys(s, t, n);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && t[end].key == t[i].key;)
			end++;
		if (end - i > 1)
			sort_from(s, base, t + i, end - i, depth + 8);
	}
}

int mr_text_sort(struct mr_text_sort *s, const char *base, struct mr_text *t,
		 size_t n, struct mr_err *err)
{
	enum { KEEP = 1 << 16 };
	int e;

	if (n < 2)
		return 0;
	e = mr_grow(&s->tmp, &s->cap, n, sizeof(*t), UINT32_MAX, err);
	if (e)
		return e;
	sort_from(s, base, t, n, 0);
	if (s->cap > KEEP)
		mr_text_sort_fini(s);
	return 0;
}

void mr_text_sort_fini(struct mr_text_sort *s)
{
	free(s->tmp);
	s->tmp = NULL;
	s->cap = 0;
}

/* ---- paths ---- */

char *mr_path_resolve(const char *cwd, const char *path, struct mr_err *err)
{
	bool join = cwd && *cwd && path[0] != '/';
	size_t n = strlen(path), cap = n + 1 + (join ? strlen(cwd) + 1 : 0);
	char *full;

	if (mr_input_is_url(path))
		return mr_strdup(path, err);
	full = mr_alloc(cap, 1, err);
	if (!full)
		return NULL;
	snprintf(full, cap, "%s%s%s", join ? cwd : "", join ? "/" : "", path);
	for (n = strlen(full); n > 1 && full[n - 1] == '/'; n--)
		full[n - 1] = 0;
	return full;
}

/* Appends, with a slash between; what does not fit is only counted. */
static size_t append(char *buf, size_t cap, size_t at, const char *s)
{
	size_t n = strlen(s);

	if (at && at < cap && buf[at - 1] != '/')
		buf[at++] = '/';
	if (at + n < cap)
		memcpy(buf + at, s, n + 1);
	return at + n;
}

int mr_path_join(char *buf, size_t cap, const char *a, const char *b,
		 const char *c, struct mr_err *err)
{
	size_t n = 0;

	if (*a && *c != '/')
		n = append(buf, cap, n, a);
	if (*b && *c != '/')
		n = append(buf, cap, n, b);
	n = append(buf, cap, n, c);
	if (n < cap)
		return 0;
	return mr_err_set(err, MR_ELIMIT,
			  "%s/.../%s: the path is longer than %zu bytes", a, c,
			  cap);
}

/* ---- samples that are one file each ---- */

void mr_path_fields(struct mr_fields *out)
{
	static const int64_t any = MR_ANY;

	out->n = 0;
	mr_fields_add(out, "data", MR_U8, 1, &any);
	mr_fields_add(out, "label", MR_I64, 0, NULL);
}

void mr_path_extent(struct mr_extent *e, const char *buf)
{
	*e = (struct mr_extent){ .path = buf, .fd = -1, .length = MR_TO_END };
}

int mr_path_unpack(const struct mr_load *ld, int64_t label, const void *bytes,
		   size_t length, struct mr_tensor *f)
{
	f[0].shape[0] = (int64_t)length;
	f[0].data = (void *)(uintptr_t)bytes;
	return mr_load_i64(ld, 1, label, f);
}
