/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize: text into the ids of a byte-level BPE vocabulary. */
#include "op/bpe.h"
#include "op/op.h"

enum split { GPT2, CL100K };
static const char *const splits[] = { "gpt2", "cl100k", NULL };

/* Vocabularies of tiktoken that are known by their number of tokens; the last
 * two were made for other pieces than GPT-2's. */
enum {
	TOKENS_R50K = 50256,
	TOKENS_P50K = 50280,
	TOKENS_CL100K = 100256,
	TOKENS_O200K = 199998,
};

struct tokenize {
	const char *vocab, *merges, *ranks;
	int split;
	uint64_t cache;
	struct mr_bpe bpe;
};

struct local {
	struct mr_bpe_cache *cache;
};

static const struct mr_param params[] = {
	MR_TEXT(struct tokenize, vocab, "",
		"tokens and their ids, as GPT-2's encoder.json"),
	MR_TEXT(struct tokenize, merges, "",
		"pairs in the order of merging, as GPT-2's vocab.bpe"),
	MR_TEXT(struct tokenize, ranks, "",
		"instead of these two: tiktoken's file of ranks"),
	MR_ENUM(struct tokenize, split, "gpt2", splits,
		"the pattern that cuts text into pieces: as GPT-2, r50k and "
		"p50k, or as cl100k"),
	MR_SIZE(struct tokenize, cache, "4M", 0, 1 << 30,
		"memory of each thread for words that come again"),
	MR_PARAM_END
};

static int open_files(struct tokenize *t, struct mr_err *err)
{
	if (*t->ranks && !*t->vocab && !*t->merges)
		return mr_bpe_open_ranks(&t->bpe, t->ranks, err);
	if (*t->vocab && *t->merges && !*t->ranks)
		return mr_bpe_open(&t->bpe, t->vocab, t->merges, err);
	return mr_err_set(err, MR_EINVAL,
			  "tokenize wants vocab=encoder.json "
			  "merges=vocab.bpe, or ranks=FILE.tiktoken alone");
}

/* With the wrong pieces, ids would be wrong here and there: nobody would
 * notice. */
static int check_split(const struct tokenize *t, struct mr_err *err)
{
	size_t n = *t->ranks ? t->bpe.words.count : 0;

	if (n == TOKENS_O200K)
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "%s: %zu tokens, as o200k, whose pattern for "
				  "cutting text into pieces is not known here; "
				  "r50k, p50k and cl100k are",
				  t->ranks, n);
	if (n == TOKENS_CL100K && t->split != CL100K)
		return mr_err_set(err, MR_EINVAL,
				  "%s: %zu tokens, as cl100k, which cuts text "
				  "into other pieces than GPT-2: say "
				  "split=cl100k",
				  t->ranks, n);
	if ((n == TOKENS_R50K || n == TOKENS_P50K) && t->split != GPT2)
		return mr_err_set(err, MR_EINVAL,
				  "%s: %zu tokens, as %s, which cuts text into "
				  "GPT-2's pieces: say split=gpt2",
				  t->ranks, n,
				  n == TOKENS_R50K ? "r50k" : "p50k");
	return 0;
}

static int open_bpe(void *self, struct mr_err *err)
{
	struct tokenize *t = self;
	int e = open_files(t, err);

	if (!e && t->split == CL100K)
		t->bpe.split = mr_text_piece_cl100k;
	return e ? e : check_split(t, err);
}

static void close_bpe(void *self)
{
	struct tokenize *t = self;

	mr_bpe_close(&t->bpe);
}

static void drop(void *local)
{
	struct local *l = local;

	mr_bpe_cache_free(l->cache);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	if (in->dtype != MR_U8 || in->ndim != 1)
		return mr_op_refuse("tokenize", in, "want the bytes of a text",
				    err);
	*out = (struct mr_spec){ .dtype = MR_I32,
				 .ndim = 1,
				 .shape = { MR_ANY } };
	return 0;
}

/* A byte gives one id at most. */
static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	if (in->shape[0] > INT32_MAX)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "a text of %lld bytes; split it, 2 GB are "
				  "the most that tokenize takes",
				  (long long)in->shape[0]);
	out->shape[0] = in->shape[0];
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct tokenize *t = cx->self;
	struct local *l = cx->local;
	size_t count = 0;
	int e;

	if (t->cache && !l->cache) {
		l->cache = mr_bpe_cache_new(t->cache, cx->err);
		if (!l->cache)
			return MR_ENOMEM;
	}
	e = mr_bpe_encode(&t->bpe, l->cache, cx->scratch, in->data,
			  (size_t)in->shape[0], out->data, &count, cx->err);
	out->shape[0] = (int64_t)count;
	return e;
}

static const char *file(const void *self, size_t i)
{
	const struct tokenize *t = self;

	if (*t->ranks)
		return i ? NULL : t->ranks;
	return i == 0 ? t->vocab : i == 1 ? t->merges : NULL;
}

const struct mr_op mr_op_tokenize = {
	.name = "tokenize",
	.help = "text to the ids of a byte-level BPE vocabulary, as GPT-2 or "
		"tiktoken (r50k, p50k, cl100k); no special tokens",
	.size = sizeof(struct tokenize),
	.params = params,
	.open = open_bpe,
	.close = close_bpe,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct local),
	.drop = drop,
	.gives = "ids",
	.file = file,
};
