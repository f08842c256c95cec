/* SPDX-License-Identifier: Apache-2.0 */
#include "core/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct mr_str *s, size_t more)
{
	size_t cap = s->cap ? s->cap : 64;
	char *p;

	if (s->failed)
		return false;
	while (cap < s->len + more + 1)
		cap *= 2;
	if (cap == s->cap)
		return true;
	p = realloc(s->text, cap);
	if (!p) {
		s->failed = true;
		return false;
	}
	s->text = p;
	s->cap = cap;
	return true;
}

void mr_str_addn(struct mr_str *s, const char *text, size_t n)
{
	if (!reserve(s, n))
		return;
	if (n)
		memcpy(s->text + s->len, text, n);
	s->len += n;
	s->text[s->len] = 0;
}

void mr_str_add(struct mr_str *s, const char *text)
{
	mr_str_addn(s, text, strlen(text));
}

void mr_str_addf(struct mr_str *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !reserve(s, (size_t)n))
		return;
	va_start(ap, fmt);
	vsnprintf(s->text + s->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->len += (size_t)n;
}

void mr_str_add_quoted(struct mr_str *s, const char *word, bool always)
{
	if (always && !*word)
		mr_str_add(s, "''");
	while (*word) {
		size_t n = strcspn(word, "'");

		if (!always && !strpbrk(word, " \t\r|#\n\"'")) {
			mr_str_add(s, word);
			break;
		}
		if (n)
			mr_str_addf(s, "'%.*s'", (int)n, word);
		word += n;
		n = strspn(word, "'");
		if (n)
			mr_str_addf(s, "\"%.*s\"", (int)n, word);
		word += n;
	}
}

void mr_str_add_shell(struct mr_str *s, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:@_";

	if (*word && !word[strspn(word, plain)]) {
		mr_str_add(s, word);
		return;
	}
	mr_str_add(s, "'");
	for (; *word; word++) {
		if (*word == '\'')
			mr_str_add(s, "'\\''");
		else
			mr_str_addn(s, word, 1);
	}
	mr_str_add(s, "'");
}

char *mr_str_take(struct mr_str *s)
{
	char *text;

	mr_str_addn(s, "", 0);
	if (s->failed) {
		mr_str_fini(s);
		return NULL;
	}
	text = s->text;
	*s = (struct mr_str){ 0 };
	return text;
}

void mr_str_fini(struct mr_str *s)
{
	free(s->text);
	*s = (struct mr_str){ 0 };
}

void mr_str_fini_into(struct mr_str *s, struct mr_str *whole)
{
	whole->failed |= s->failed;
	mr_str_fini(s);
}

int mr_str_distance(const char *a, const char *b)
{
	enum { MAX = 40 };
	int d[MAX + 1][MAX + 1];
	int na = (int)strnlen(a, MAX), nb = (int)strnlen(b, MAX);

	for (int i = 0; i <= na; i++)
		d[i][0] = i;
	for (int j = 0; j <= nb; j++)
		d[0][j] = j;
	for (int i = 1; i <= na; i++) {
		for (int j = 1; j <= nb; j++) {
			int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[na][nb];
}

char *mr_str_count(char *buf, unsigned long long n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", n);
	char *p = buf;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = 0;
	return buf;
}

char *mr_str_size(char *buf, double bytes)
{
	static const char *const unit[] = { "B", "KB", "MB", "GB", "TB", "PB" };
	int u = 0;

	while (bytes >= 1024 && u < 5) {
		bytes /= 1024;
		u++;
	}
	snprintf(buf, 32, u && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes,
		 unit[u]);
	return buf;
}
