/* SPDX-License-Identifier: Apache-2.0 */
/* Reading vocabularies. The files may be anything: sizes are bounded, and
 * what does not fit together is an error that names the line. */
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "op/bpe.h"
#include "op/unicode.h"

enum { MAX_FILE = 32 << 20, MAX_PAIRS = 1 << 24 };

/* ---- GPT-2 writes a token's bytes as characters that can be printed ---- */

static bool printed_as_itself(int byte)
{
	return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
}

/* The byte of each character below 256 + 68, or -1. */
static void make_alphabet(int16_t byte_of[324])
{
	int more = 256;

	for (int i = 0; i < 324; i++)
		byte_of[i] = -1;
	for (int i = 0; i < 256; i++)
		byte_of[printed_as_itself(i) ? i : more++] = (int16_t)i;
}

/* The bytes that n bytes of text stand for; 0 when they do not, or are more
 * than MR_BPE_TOKEN. */
static size_t to_bytes(const int16_t *byte_of, const char *s, size_t n,
		       uint8_t *to)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t out = 0;

	while (n) {
		uint32_t code = 0;
		size_t used = mr_utf8_read(p, n, &code);

		if (!used || code >= 324 || byte_of[code] < 0 ||
		    out == MR_BPE_TOKEN)
			return 0;
		to[out++] = (uint8_t)byte_of[code];
		p += used;
		n -= used;
	}
	return out;
}

/* ---- what both kinds share ---- */

/* A bit for each id that is taken. */
struct taken {
	uint8_t *bit;
};

static bool take(struct taken *t, int64_t id)
{
	uint8_t *at = t->bit + id / 8, bit = (uint8_t)(1 << id % 8);

	if (*at & bit)
		return false;
	*at |= bit;
	return true;
}

static int find_bytes(struct mr_bpe *b, const struct mr_words *w,
		      const char *path, struct mr_err *err)
{
	for (int i = 0; i < 256; i++) {
		uint8_t byte = (uint8_t)i;

		b->byte[i] = mr_words_find(w, &byte, 1);
		if (b->byte[i] < 0)
			return mr_err_set(err, MR_EDATA,
					  "%s: no token for the byte 0x%02x; "
					  "a byte-level vocabulary has one "
					  "for each of 256",
					  path, i);
	}
	return 0;
}

/* The next line of a text that ends with a zero: NULL at the end. */
struct lines {
	const char *path;
	char *at, *end;
	size_t number;
};

static char *next_line(struct lines *l, size_t *length)
{
	char *line = l->at, *stop;

	if (line == l->end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(l->end - line));
	l->at = stop ? stop + 1 : l->end;
	l->number++;
	*length = (size_t)((stop ? stop : l->end) - line);
	if (*length && line[*length - 1] == '\r')
		--*length;
	return line;
}

static size_t count_lines(const char *text, size_t n)
{
	size_t lines = 1;

	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

__attribute__((format(printf, 3, 4))) static int
bad_line(const struct lines *l, struct mr_err *err, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return mr_err_set(err, MR_EDATA, "%s: line %zu: %s", l->path, l->number,
			  text);
}

/* ---- encoder.json ---- */

static int parse_json(const char *path, const char *text, size_t n,
		      struct json_object **root, struct mr_err *err)
{
	struct json_tokener *t = json_tokener_new();
	int e = 0;

	if (!t)
		return mr_err_nomem(err, 0);
	*root = json_tokener_parse_ex(t, text, (int)n + 1);
	if (json_tokener_get_error(t) != json_tokener_success)
		e = mr_err_set(
			err, MR_EDATA, "%s: no JSON: %s at byte %zu", path,
			json_tokener_error_desc(json_tokener_get_error(t)),
			json_tokener_get_parse_end(t));
	else if (!json_object_is_type(*root, json_type_object))
		e = mr_err_set(err, MR_EDATA,
			       "%s: want a JSON object of tokens and their "
			       "ids, as GPT-2's encoder.json",
			       path);
	json_tokener_free(t);
	return e;
}

static int add_token(struct mr_words *w, struct taken *taken, const char *path,
		     const int16_t *byte_of, const char *name,
		     struct json_object *value, struct mr_err *err)
{
	int64_t id = json_object_is_type(value, json_type_int) ?
			     json_object_get_int64(value) :
			     -1;
	uint8_t bytes[MR_BPE_TOKEN];
	size_t n;

	if (id < 0 || id >= MR_BPE_IDS)
		return mr_err_set(err, MR_EDATA,
				  "%s: the token '%.80s' has no id from 0 to "
				  "%d",
				  path, name, MR_BPE_IDS - 1);
	if (!take(taken, id))
		return mr_err_set(err, MR_EDATA,
				  "%s: the token '%.80s' has the id %lld, "
				  "which another one has too",
				  path, name, (long long)id);
	/* What is written otherwise is a special token: no bytes make it. */
	n = to_bytes(byte_of, name, strlen(name), bytes);
	if (n)
		mr_words_add(w, bytes, n, (int32_t)id);
	return 0;
}

static int add_tokens(struct mr_words *w, const char *path,
		      const int16_t *byte_of, struct json_object *root,
		      struct mr_err *err)
{
	struct json_object_iterator i = json_object_iter_begin(root),
				    end = json_object_iter_end(root);
	struct taken taken = { mr_alloc(MR_BPE_IDS / 8, 1, err) };
	int e = taken.bit ? 0 : MR_ENOMEM;

	while (!e && !json_object_iter_equal(&i, &end)) {
		e = add_token(w, &taken, path, byte_of,
			      json_object_iter_peek_name(&i),
			      json_object_iter_peek_value(&i), err);
		json_object_iter_next(&i);
	}
	free(taken.bit);
	return e;
}

static int read_encoder(struct mr_words *w, const char *path,
			const int16_t *byte_of, struct mr_err *err)
{
	struct json_object *root = NULL;
	char *text;
	size_t n;
	int e = mr_file_read(path, MAX_FILE, &text, &n, err);

	if (e)
		return e;
	e = parse_json(path, text, n, &root, err);
	free(text);
	if (!e)
		e = mr_words_init(w, (size_t)json_object_object_length(root), n,
				  err);
	if (!e)
		e = add_tokens(w, path, byte_of, root, err);
	json_object_put(root);
	return e;
}

/* ---- vocab.bpe ---- */

static int add_merge(struct mr_bpe *b, const struct mr_words *w,
		     const struct lines *l, const int16_t *byte_of,
		     const char *line, size_t n, struct mr_err *err)
{
	const char *space = memchr(line, ' ', n);
	uint8_t bytes[2 * MR_BPE_TOKEN];
	size_t first = space ? (size_t)(space - line) : 0, left, right;
	int32_t a, c, id;

	left = first ? to_bytes(byte_of, line, first, bytes) : 0;
	right = left ? to_bytes(byte_of, space + 1, n - first - 1,
				bytes + left) :
		       0;
	if (!right)
		return bad_line(l, err,
				"want two tokens and a space between them, "
				"found '%.*s'",
				n < 80 ? (int)n : 80, line);
	a = mr_words_find(w, bytes, left);
	c = mr_words_find(w, bytes + left, right);
	id = mr_words_find(w, bytes, left + right);
	if (a < 0 || c < 0 || id < 0)
		return bad_line(l, err, "'%.*s': %s is not in the vocabulary",
				n < 80 ? (int)n : 80, line,
				a < 0 ? "the first token" :
				c < 0 ? "the second token" :
					"what they make");
	if (!mr_bpe_add(b, a, c, (uint32_t)l->number, id))
		return bad_line(l, err, "'%.*s' was there before",
				n < 80 ? (int)n : 80, line);
	return 0;
}

static int read_merges(struct mr_bpe *b, const struct mr_words *w,
		       const char *path, const int16_t *byte_of,
		       struct mr_err *err)
{
	char *text, *line;
	struct lines l = { .path = path };
	size_t n;
	int e = mr_file_read(path, MAX_FILE, &text, &n, err);

	if (e)
		return e;
	l.at = text;
	l.end = text + n;
	e = mr_bpe_room(b, count_lines(text, n), err);
	while (!e && (line = next_line(&l, &n))) {
		bool version =
			l.number == 1 && n > 7 && !memcmp(line, "#version", 8);

		if (n && !version)
			e = add_merge(b, w, &l, byte_of, line, n, err);
	}
	free(text);
	return e;
}

int mr_bpe_open(struct mr_bpe *b, const char *vocab, const char *merges,
		struct mr_err *err)
{
	struct mr_words w = { 0 };
	int16_t byte_of[324];
	int e;

	*b = (struct mr_bpe){ 0 };
	make_alphabet(byte_of);
	e = read_encoder(&w, vocab, byte_of, err);
	if (!e)
		e = find_bytes(b, &w, vocab, err);
	if (!e)
		e = read_merges(b, &w, merges, byte_of, err);
	mr_words_fini(&w);
	if (e)
		mr_bpe_close(b);
	return e;
}

/* ---- tiktoken's ---- */

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

static int add_rank(struct mr_words *w, struct taken *taken,
		    const struct lines *l, const char *line, size_t n,
		    struct mr_err *err)
{
	const char *space = memchr(line, ' ', n);
	size_t first = space ? (size_t)(space - line) : 0;
	uint8_t bytes[MR_BPE_TOKEN];
	int64_t id = 0;
	size_t length = from_base64(line, first, bytes);

	if (!length)
		return bad_line(l, err,
				"want a token of 1 to %d bytes in base64, a "
				"space and its rank, found '%.*s'",
				MR_BPE_TOKEN, n < 80 ? (int)n : 80, line);
	if (!number(space + 1, n - first - 1, &id))
		return bad_line(l, err,
				"want a rank from 0 to %d, found '%.*s'",
				MR_BPE_IDS - 1,
				n - first - 1 < 40 ? (int)(n - first - 1) : 40,
				space + 1);
	if (!take(taken, id))
		return bad_line(l, err, "the rank %d was there before",
				(int)id);
	if (!mr_words_add(w, bytes, length, (int32_t)id))
		return bad_line(l, err, "the token '%.*s' was there before",
				first < 80 ? (int)first : 80, line);
	return 0;
}

static int read_ranks(struct mr_words *w, const char *path, struct mr_err *err)
{
	struct lines l = { .path = path };
	struct taken taken = { NULL };
	char *text, *line;
	size_t n;
	int e = mr_file_read(path, MAX_FILE, &text, &n, err);

	if (e)
		return e;
	l.at = text;
	l.end = text + n;
	e = mr_words_init(w, count_lines(text, n), n, err);
	taken.bit = e ? NULL : mr_alloc(MR_BPE_IDS / 8, 1, err);
	if (!e && !taken.bit)
		e = MR_ENOMEM;
	while (!e && (line = next_line(&l, &n)))
		if (n)
			e = add_rank(w, &taken, &l, line, n, err);
	free(taken.bit);
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
		e = find_bytes(b, &b->words, path, err);
	if (!e)
		e = make_pairs(b, path, err);
	if (e)
		mr_bpe_close(b);
	return e;
}
