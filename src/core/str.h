/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, and small helpers on names. */
#ifndef MR_CORE_STR_H
#define MR_CORE_STR_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A text that grows. Start from { 0 }. When memory runs out it remembers
 * (`failed`) and ignores what follows, so that callers check once, in
 * mr_str_take().
 */
struct mr_str {
	char *text;
	size_t len, cap;
	bool failed;
};

void mr_str_add(struct mr_str *s, const char *text);
void mr_str_addn(struct mr_str *s, const char *text, size_t n);
void mr_str_addf(struct mr_str *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A word or value as a pipeline's text has it: in quotes where it needs them,
 * or always. */
void mr_str_add_quoted(struct mr_str *s, const char *word, bool always);
/* As one word of a shell's. */
void mr_str_add_shell(struct mr_str *s, const char *word);
/* The text, now the caller's to free(); NULL when memory ran out. */
char *mr_str_take(struct mr_str *s);
void mr_str_fini(struct mr_str *s);
/* The same for a part that was added to `whole`: if it failed, so did that. */
void mr_str_fini_into(struct mr_str *s, struct mr_str *whole);

/* Edits (insert, delete, change, swap) that turn a into b. */
int mr_str_distance(const char *a, const char *b);

/* 1234567 -> "1,234,567"; buf holds at least 32 bytes. Returns buf. */
char *mr_str_count(char *buf, unsigned long long n);
/* 1536 -> "1.5 KB" (binary); buf holds at least 32 bytes. Returns buf. */
char *mr_str_size(char *buf, double bytes);

#endif
