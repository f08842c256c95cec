/* SPDX-License-Identifier: Apache-2.0 */
/* tiktoken's vocabularies: a token in base64 and its rank in each line. */
#include "core/file.h"
#include "core/mem.h"
#include "op/bpefile.h"

enum { MAX_PAIRS = 1 << 24 };

/* ---- lines ---- */

static int digit64(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Its bytes; 0 when it is no base64, or more than MR_BPE_TOKEN. */
static size_t from_base64(const char *s, size_t n, uint8_t *to)
{
	size_t out = 0;
	uint32_t bits = 0;

	if (!n || n % 4 || n / 4 * 3 > MR_BPE_TOKEN)
		return 0;
	for (int pad = 0; pad < 2 && s[n - 1] == '='; pad++)
		n--;
	for (size_t i = 0; i < n; i++) {
		int d = digit64(s[i]);

		if (d < 0)
			return 0;
		bits = bits << 6 | (uint32_t)d;
		if (i % 4)
			to[out++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	return out;
}

static bool number(const char *s, size_t n, int64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || *v >= MR_BPE_IDS)
			return false;
		*v = *v * 10 + s[i] - '0';
	}
	return n && *v < MR_BPE_IDS;
}

static int add_rank(struct mr_words *w, uint8_t *taken,
		    const struct mr_lines *l, const char *line, size_t n,
		    struct mr_err *err)
{
	const char *space = memchr(line, ' ', n);
	size_t first = space ? (size_t)(space - line) : 0;
	uint8_t bytes[MR_BPE_TOKEN];
	int64_t id = 0;
	size_t length = from_base64(line, first, bytes);

	if (!length)
		return mr_lines_bad(
			l, err,
			"want a token of 1 to %d bytes in base64, a "
			"space and its rank, found '%.*s'",
			MR_BPE_TOKEN, n < 80 ? (int)n : 80, line);
	if (!number(space + 1, n - first - 1, &id))
		return mr_lines_bad(
			l, err, "want a rank from 0 to %d, found '%.*s'",
			MR_BPE_IDS - 1,
			n - first - 1 < 40 ? (int)(n - first - 1) : 40,
			space + 1);
	if (!mr_bpe_take(taken, id))
		return mr_lines_bad(l, err, "the rank %d was there before",
				    (int)id);
	if (!mr_words_add(w, bytes, length, (int32_t)id))
		return mr_lines_bad(l, err, "the token '%.*s' was there before",
				    first < 80 ? (int)first : 80, line);
	return 0;
}

static int read_ranks(struct mr_words *w, const char *path, struct mr_err *err)
{
	struct mr_lines l;
	uint8_t *taken = NULL;
	char *text, *line;
	size_t n, max;
	int e = mr_file_read(path, MR_BPE_FILE, &text, &n, err);

	if (e)
		return e;
	e = mr_lines_init(&l, path, text, n, &max, err);
	/* A rank that lost its last digits is a rank too. */
	if (!e && n && text[n - 1] != '\n')
		e = mr_err_set(err, MR_EDATA,
			       "%s: cut off: its last line, %zu, has no end",
			       path, max);
	if (!e)
		e = mr_words_init(w, max, n, err);
	taken = e ? NULL : mr_alloc(MR_BPE_IDS / 8, 1, err);
	if (!e && !taken)
		e = MR_ENOMEM;
	while (!e && (line = mr_lines_next(&l, &n)))
		if (n)
			e = add_rank(w, taken, &l, line, n, err);
	free(taken);
	free(text);
	return e;
}

/* The pairs that make a word: each way to cut it into two. */
static size_t cut(struct mr_bpe *b, const struct mr_word *x, bool add)
{
	const uint8_t *p = b->words.bytes + x->at;
	size_t pairs = 0;

	for (size_t i = 1; i < x->length; i++) {
		int32_t left = mr_words_find(&b->words, p, i), right;

		if (left < 0)
			continue;
		right = mr_words_find(&b->words, p + i, x->length - i);
		if (right < 0)
			continue;
		pairs++;
		if (add)
			mr_bpe_add(b, left, right, (uint32_t)x->id, x->id);
	}
	return pairs;
}

static int make_pairs(struct mr_bpe *b, const char *path, struct mr_err *err)
{
	size_t pairs = 0;
	int e;

	for (size_t i = 0; i < b->words.count && pairs <= MAX_PAIRS; i++)
		pairs += cut(b, &b->words.word[i], false);
	if (pairs > MAX_PAIRS)
		return mr_err_set(err, MR_ELIMIT,
				  "%s: more than %d pairs of tokens make a "
				  "token",
				  path, MAX_PAIRS);
	e = mr_bpe_room(b, pairs, err);
	for (size_t i = 0; !e && i < b->words.count; i++)
		cut(b, &b->words.word[i], true);
	return e;
}

int mr_bpe_open_ranks(struct mr_bpe *b, const char *path, struct mr_err *err)
{
	int e;

	*b = (struct mr_bpe){ .one_by_one = true };
	e = read_ranks(&b->words, path, err);
	if (!e)
		e = mr_bpe_bytes(b, &b->words, path, err);
	if (!e)
		e = make_pairs(b, path, err);
	if (!e)
		e = mr_bpe_index(b, err);
	if (e)
		mr_bpe_close(b);
	return e;
}
