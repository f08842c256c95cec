/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize: text into the ids of a byte-level BPE vocabulary. */
#include "op/bpe.h"
#include "op/op.h"

struct tokenize {
	const char *vocab, *merges, *ranks;
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
	MR_SIZE(struct tokenize, cache, "4M", 0, 1 << 30,
		"memory of each thread for words that come again"),
	MR_PARAM_END
};

static int open_bpe(void *self, struct mr_err *err)
{
	struct tokenize *t = self;

	if (*t->ranks && !*t->vocab && !*t->merges)
		return mr_bpe_open_ranks(&t->bpe, t->ranks, err);
	if (*t->vocab && *t->merges && !*t->ranks)
		return mr_bpe_open(&t->bpe, t->vocab, t->merges, err);
	return mr_err_set(err, MR_EINVAL,
			  "tokenize wants vocab=encoder.json "
			  "merges=vocab.bpe, or ranks=FILE.tiktoken alone");
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
	.help = "text to the ids of a byte-level BPE vocabulary, split as by "
		"GPT-2 (r50k, p50k); no special tokens",
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
