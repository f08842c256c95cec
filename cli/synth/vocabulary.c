/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vocabulary for the pages of `synth html`, so that their whole pipeline
 * runs without any download: byte-level BPE, learned from the words by the
 * usual algorithm (merge the most frequent pair, again and again), in GPT-2's
 * two files; and a table of embeddings.
 */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "synth/prose.h"

enum {
	WORDS = PROSE_WORDS + 90,
	LONGEST = PROSE_MAX + 1,
	MERGES = PROSE_TOKENS - 256 - 1, /* the last is <|endoftext|> */
};

struct word {
	int16_t token[LONGEST];
	int n;
	uint32_t weight;
};

struct learner {
	struct word word[WORDS];
	int words;
	uint32_t pair[PROSE_TOKENS][PROSE_TOKENS]; /* how often they meet */
	int16_t best[PROSE_TOKENS]; /* which meets each most often */
	bool changed[PROSE_TOKENS]; /* best is to be found again */
	char token[PROSE_TOKENS][LONGEST + 1];
	int tokens;
	int16_t merge[MERGES][2];
};

/* ---- learning ---- */

/* Its pairs begin to count, or cease to. */
static void count(struct learner *l, const struct word *w, bool begin)
{
	for (int i = 0; i + 1 < w->n; i++) {
		uint32_t *n = &l->pair[w->token[i]][w->token[i + 1]];

		*n = begin ? *n + w->weight : *n - w->weight;
		l->changed[w->token[i]] = true;
	}
}

static void take(struct learner *l, const char *word, uint32_t weight)
{
	struct word *w = &l->word[l->words++];

	w->weight = weight;
	w->token[w->n++] = ' ';
	for (; *word; word++)
		w->token[w->n++] = (uint8_t)*word;
	count(l, w, true);
}

static void take_words(struct learner *l, uint64_t seed)
{
	char buf[PROSE_MAX];
	const char *word;
	int weight;

	for (int i = 0; (word = prose_short(i, &weight)); i++)
		take(l, word, (uint32_t)weight * 5000);
	for (int r = 0; r < PROSE_WORDS; r++) {
		prose_word(seed, r, buf);
		take(l, buf, 800000 / ((uint32_t)r + 1));
	}
}

static void find_best(struct learner *l, int a)
{
	l->best[a] = 0;
	for (int b = 1; b < l->tokens; b++)
		if (l->pair[a][b] > l->pair[a][l->best[a]])
			l->best[a] = (int16_t)b;
	l->changed[a] = false;
}

static bool best_pair(struct learner *l, int *a, int *b)
{
	uint32_t most = 0;

	for (int i = 0; i < l->tokens; i++) {
		if (l->changed[i])
			find_best(l, i);
		if (l->pair[i][l->best[i]] <= most)
			continue;
		*a = i;
		*b = l->best[i];
		most = l->pair[*a][*b];
	}
	return most;
}

static bool has_pair(const struct word *w, int a, int b)
{
	for (int i = 0; i + 1 < w->n; i++)
		if (w->token[i] == a && w->token[i + 1] == b)
			return true;
	return false;
}

static void merge(struct learner *l, struct word *w, int a, int b, int made)
{
	int n = 0;

	if (!has_pair(w, a, b))
		return;
	count(l, w, false);
	for (int i = 0; i < w->n; i++) {
		bool here = i + 1 < w->n && w->token[i] == a &&
			    w->token[i + 1] == b;

		w->token[n++] = (int16_t)(here ? made : w->token[i]);
		i += here;
	}
	w->n = n;
	count(l, w, true);
}

static int find_token(const struct learner *l, const char *text)
{
	for (int i = 256; i < l->tokens; i++)
		if (!strcmp(l->token[i], text))
			return i;
	return -1;
}

/* Returns how many merges there are. */
static int learn(struct learner *l)
{
	int n = 0, a = 0, b = 0;

	while (n < MERGES && best_pair(l, &a, &b)) {
		char text[2 * LONGEST + 2];
		int made;

		snprintf(text, sizeof(text), "%s%s", l->token[a], l->token[b]);
		made = find_token(l, text);
		if (made < 0) {
			made = l->tokens++;
			memcpy(l->token[made], text, strlen(text) + 1);
		}
		l->merge[n][0] = (int16_t)a;
		l->merge[n++][1] = (int16_t)b;
		for (int i = 0; i < l->words; i++)
			merge(l, &l->word[i], a, b, made);
	}
	return n;
}

/* ---- GPT-2's files ---- */

/* GPT-2 writes bytes that cannot be printed as characters from U+0100 on. */
static void put_byte(struct mr_str *s, uint8_t c)
{
	int code = c, more = 0;

	for (int i = 0; i <= c; i++) {
		bool own = (i > 32 && i < 127) || (i > 160 && i != 173);

		if (i == c && !own)
			code = 256 + more;
		more += !own;
	}
	if (code < 128)
		mr_str_addf(s, "%c", code);
	else
		mr_str_addf(s, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
}

static void put_token(struct mr_str *s, const struct learner *l, int token,
		      bool json)
{
	const char *t = l->token[token];

	if (token < 256) {
		if (json && (token == '"' || token == '\\'))
			mr_str_add(s, "\\");
		put_byte(s, (uint8_t)token);
		return;
	}
	for (; *t; t++)
		put_byte(s, (uint8_t)*t);
}

static int put_file(struct synth *s, const char *name, struct mr_str *text,
		    struct mr_err *err)
{
	struct synth_file f = { .fd = -1 };
	int e = 0;

	if (text->failed)
		e = mr_err_set(err, MR_ENOMEM, "no memory for %s", name);
	if (!e)
		e = synth_file_open(&f, err, "%s/%s", s->dir, name);
	if (!e)
		e = synth_file_write(&f, text->text, text->len, 0, err);
	if (!e)
		e = synth_file_done(s, &f, text->len, err);
	synth_file_drop(&f);
	mr_str_fini(text);
	return e;
}

static int put_vocabulary(struct synth *s, const struct learner *l, int merges,
			  struct mr_err *err)
{
	struct mr_str json = { 0 }, lines = { 0 };
	int e;

	mr_str_add(&json, "{");
	for (int i = 0; i < l->tokens; i++) {
		mr_str_add(&json, "\"");
		put_token(&json, l, i, true);
		mr_str_addf(&json, "\": %d, ", i);
	}
	mr_str_addf(&json, "\"<|endoftext|>\": %d}", PROSE_TOKENS - 1);
	mr_str_add(&lines, "#version: 0.2\n");
	for (int i = 0; i < merges; i++) {
		put_token(&lines, l, l->merge[i][0], false);
		mr_str_add(&lines, " ");
		put_token(&lines, l, l->merge[i][1], false);
		mr_str_add(&lines, "\n");
	}
	e = put_file(s, "encoder.json", &json, err);
	if (e) {
		mr_str_fini(&lines);
		return e;
	}
	return put_file(s, "vocab.bpe", &lines, err);
}

/* ---- the table ---- */

static int put_table(struct synth *s, struct mr_err *err)
{
	struct synth_rng rng =
		synth_rng_for((uint64_t)s->opt->seed, 0x7461626c);
	struct mr_str npy = { 0 };
	char head[118];
	int used = snprintf(head, sizeof(head),
			    "{'descr': '<f4', 'fortran_order': False, "
			    "'shape': (%d, %d), }",
			    PROSE_TOKENS, PROSE_WIDTH);

	memset(head + used, ' ', sizeof(head) - (size_t)used);
	head[sizeof(head) - 1] = '\n';
	mr_str_addn(&npy, "\x93NUMPY\1\0\x76\0", 10);
	mr_str_addn(&npy, head, sizeof(head));
	for (int i = 0; i < PROSE_TOKENS * PROSE_WIDTH; i++) {
		float v = 0.02f * synth_normal(&rng);
		uint8_t le[4];
		uint32_t bits;

		memcpy(&bits, &v, 4);
		for (int k = 0; k < 4; k++)
			le[k] = (uint8_t)(bits >> 8 * k);
		mr_str_addn(&npy, (const char *)le, 4);
	}
	return put_file(s, "table.npy", &npy, err);
}

int prose_vocabulary(struct synth *s, struct mr_err *err)
{
	struct learner *l = mr_alloc(1, sizeof(*l), err);
	int e;

	if (!l)
		return MR_ENOMEM;
	for (l->tokens = 0; l->tokens < 256; l->tokens++)
		l->token[l->tokens][0] = (char)l->tokens;
	take_words(l, (uint64_t)s->opt->seed);
	e = put_vocabulary(s, l, learn(l), err);
	free(l);
	return e ? e : put_table(s, err);
}
