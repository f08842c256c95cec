/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's vocabularies: encoder.json and vocab.bpe. */
#include <json-c/json.h>

#include "core/file.h"
#include "core/mem.h"
#include "op/bpefile.h"
#include "op/unicode.h"

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

static int add_token(struct mr_words *w, uint8_t *taken, const char *path,
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
	if (!mr_bpe_take(taken, id))
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
	uint8_t *taken = mr_alloc(MR_BPE_IDS / 8, 1, err);
	int e = taken ? 0 : MR_ENOMEM;

	while (!e && !json_object_iter_equal(&i, &end)) {
		e = add_token(w, taken, path, byte_of,
			      json_object_iter_peek_name(&i),
			      json_object_iter_peek_value(&i), err);
		json_object_iter_next(&i);
	}
	free(taken);
	return e;
}

static int read_encoder(struct mr_words *w, const char *path,
			const int16_t *byte_of, struct mr_err *err)
{
	struct json_object *root = NULL;
	char *text;
	size_t n;
	int e = mr_file_read(path, MR_BPE_FILE, &text, &n, err);

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

static int add_merge(struct mr_bpe *b, const struct mr_words *w, uint8_t *made,
		     const struct mr_lines *l, const int16_t *byte_of,
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
		return mr_lines_bad(l, err,
				    "want two tokens and a space between them, "
				    "found '%.*s'",
				    n < 80 ? (int)n : 80, line);
	a = mr_words_find(w, bytes, left);
	c = mr_words_find(w, bytes + left, right);
	id = mr_words_find(w, bytes, left + right);
	if (a < 0 || c < 0 || id < 0)
		return mr_lines_bad(l, err,
				    "'%.*s': %s is not in the vocabulary",
				    n < 80 ? (int)n : 80, line,
				    a < 0 ? "the first token" :
				    c < 0 ? "the second token" :
					    "what they make");
	if (!mr_bpe_add(b, a, c, (uint32_t)l->number, id))
		return mr_lines_bad(l, err, "'%.*s' was there before",
				    n < 80 ? (int)n : 80, line);
	mr_bpe_take(made, id);
	return 0;
}

/* <|endoftext|>, <s>, [PAD] and fairseq's madeupword0000: meant to be given by
 * their ids, not to be made of a text. */
static bool is_special(const uint8_t *p, size_t n)
{
	static const char filler[] = "madeupword";

	if (n > sizeof(filler) - 1 && !memcmp(p, filler, sizeof(filler) - 1))
		return true;
	return (p[0] == '<' && p[n - 1] == '>') ||
	       (p[0] == '[' && p[n - 1] == ']');
}

/* Each token of several bytes is made by a merge; else there were more merges
 * once, without which texts become other ids. */
static int check_made(const struct mr_words *w, uint8_t *made,
		      const struct mr_lines *l, struct mr_err *err)
{
	const struct mr_word *first = NULL;
	size_t lack = 0;

	for (size_t i = 0; i < w->count; i++) {
		const struct mr_word *x = &w->word[i];

		if (x->length < 2 || !mr_bpe_take(made, x->id) ||
		    is_special(w->bytes + x->at, x->length))
			continue;
		first = first && first->id < x->id ? first : x;
		lack++;
	}
	if (!lack)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "%s: cut off, or of another vocabulary: %zu lines, "
			  "and no merge makes %zu of the tokens, as the one "
			  "with the id %d",
			  l->path, l->number, lack, (int)first->id);
}

static int read_merges(struct mr_bpe *b, const struct mr_words *w,
		       const char *path, const int16_t *byte_of,
		       struct mr_err *err)
{
	char *text, *line;
	struct mr_lines l;
	uint8_t *made = NULL;
	size_t n, max;
	int e = mr_file_read(path, MR_BPE_FILE, &text, &n, err);

	if (e)
		return e;
	e = mr_lines_init(&l, path, text, n, &max, err);
	if (!e)
		e = mr_bpe_room(b, max, err);
	made = e ? NULL : mr_alloc(MR_BPE_IDS / 8, 1, err);
	if (!e && !made)
		e = MR_ENOMEM;
	while (!e && (line = mr_lines_next(&l, &n))) {
		bool version =
			l.number == 1 && n > 7 && !memcmp(line, "#version", 8);

		if (n && !version)
			e = add_merge(b, w, made, &l, byte_of, line, n, err);
	}
	if (!e)
		e = check_made(w, made, &l, err);
	free(made);
	free(text);
	return e;
}

/* Finds the tokens that merging makes of their bytes. */
static int find_whole(struct mr_bpe *b, const struct mr_words *w,
		      struct mr_err *err)
{
	int e = mr_words_init(&b->words, w->count, w->used, err);
	int32_t id[MR_BPE_SHORT];

	for (size_t i = 0; !e && i < w->count; i++) {
		const struct mr_word *x = &w->word[i];
		const uint8_t *p = w->bytes + x->at;
		size_t n = 0;

		if (x->length > MR_BPE_SHORT)
			continue;
		e = mr_bpe_piece(b, NULL, p, x->length, id, &n, err);
		if (!e && n == 1 && *id == x->id)
			mr_words_add(&b->words, p, x->length, x->id);
	}
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
		e = mr_bpe_bytes(b, &w, vocab, err);
	if (!e)
		e = read_merges(b, &w, merges, byte_of, err);
	if (!e)
		e = find_whole(b, &w, err);
	mr_words_fini(&w);
	if (!e)
		e = mr_bpe_index(b, err);
	if (e)
		mr_bpe_close(b);
	return e;
}
