/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarhead.h"

enum {
	NAME = 100,
	SUM_AT = 148,
	SUM = 8,
	MAGIC_AT = 257,
	PREFIX_AT = 345,
	PREFIX = 155,
};

/* ---- numbers ---- */

static bool base256(const uint8_t *p, size_t n, uint64_t *v)
{
	uint64_t x = p[0] & 0x3f;

	if (p[0] & 0x40) /* negative */
		return false;
	for (size_t i = 1; i < n; i++) {
		if (x >> 55)
			return false;
		x = x << 8 | p[i];
	}
	*v = x;
	return true;
}

/* Blanks, digits, and then blanks or a zero; no digits are 0. */
bool mr_tar_number(const uint8_t *p, size_t n, uint64_t *v)
{
	uint64_t x = 0;
	size_t i = 0;

	if (p[0] & 0x80)
		return base256(p, n, v);
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		x = x << 3 | (uint64_t)(p[i] - '0'); /* 12 digits: 36 bits */
	while (i < n && p[i] == ' ')
		i++;
	if (i < n && p[i])
		return false;
	*v = x;
	return true;
}

/* ---- the header ---- */

bool mr_tar_checksum_ok(const uint8_t *p)
{
	unsigned sum = 0;
	int with_sign = 0;
	uint64_t want;

	if (!mr_tar_number(p + SUM_AT, SUM, &want))
		return false;
	for (int i = 0; i < MR_TAR_BLOCK; i++)
		sum += p[i];
	for (int i = SUM_AT; i < SUM_AT + SUM; i++)
		sum += ' ' - (unsigned)p[i];
	if (sum == want)
		return true;
	/* Some old ones added signed bytes. */
	for (int i = 0; i < MR_TAR_BLOCK; i++)
		with_sign +=
			i >= SUM_AT && i < SUM_AT + SUM ? ' ' : (int8_t)p[i];
	return with_sign >= 0 && (uint64_t)with_sign == want;
}

bool mr_tar_magic(const uint8_t *p)
{
	return !memcmp(p + MAGIC_AT, "ustar", 5);
}

bool mr_tar_zeros(const uint8_t *p)
{
	return !p[0] && !memcmp(p, p + 1, MR_TAR_BLOCK - 1);
}

void mr_tar_header_name(const uint8_t *p, struct mr_str *name)
{
	const char *s = (const char *)p, *prefix = s + PREFIX_AT;

	/* GNU's own format has other things in the prefix's place. */
	if (!memcmp(p + MAGIC_AT, "ustar", 6) && *prefix) {
		mr_str_addn(name, prefix, strnlen(prefix, PREFIX));
		mr_str_addn(name, "/", 1);
	}
	mr_str_addn(name, s, strnlen(s, NAME));
}

/* ---- what stands before it ---- */

void mr_tar_extra_reset(struct mr_tar_extra *x)
{
	struct mr_str name = x->name;

	name.len = 0;
	*x = (struct mr_tar_extra){ .name = name };
}

void mr_tar_extra_fini(struct mr_tar_extra *x)
{
	mr_str_fini(&x->name);
}

int mr_tar_extra_name(struct mr_tar_extra *x, const char *s, size_t n,
		      struct mr_err *err)
{
	x->name.len = 0;
	mr_str_addn(&x->name, s, strnlen(s, n));
	x->has_name = true;
	return x->name.failed ? mr_err_nomem(err, n) : 0;
}

static bool decimal(const char *s, size_t n, uint64_t *v)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || x > (INT64_MAX - 9) / 10)
			return false;
		x = x * 10 + (uint64_t)(s[i] - '0');
	}
	*v = x;
	return n > 0;
}

/* An empty value takes back what was said before. */
static int record(struct mr_tar_extra *x, const char *key, size_t klen,
		  const char *value, size_t n, bool *ok, struct mr_err *err)
{
	if (klen == 4 && !memcmp(key, "path", 4)) {
		int e = mr_tar_extra_name(x, value, n, err);

		x->has_name = n > 0;
		return e;
	}
	if (klen == 4 && !memcmp(key, "size", 4)) {
		*ok &= !n || decimal(value, n, &x->size);
		x->has_size = n > 0;
	}
	x->sparse |= klen > 11 && !memcmp(key, "GNU.sparse.", 11);
	return 0;
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
int mr_tar_extra_pax(struct mr_tar_extra *x, const char *s, size_t n, bool *ok,
		     struct mr_err *err)
{
	int e = 0;

	while (*ok && !e && n && *s) {
		const char *blank = memchr(s, ' ', n), *eq;
		uint64_t len;

		*ok = blank && decimal(s, (size_t)(blank - s), &len) &&
		      len <= n && (uint64_t)(blank - s) + 2 < len &&
		      s[len - 1] == '\n';
		if (!*ok)
			break;
		blank++;
		eq = memchr(blank, '=', len - (size_t)(blank - s));
		*ok = eq != NULL;
		if (eq)
			e = record(x, blank, (size_t)(eq - blank), eq + 1,
				   len - 1 - (size_t)(eq + 1 - s), ok, err);
		s += len;
		n -= len;
	}
	return e;
}
