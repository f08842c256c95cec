/* SPDX-License-Identifier: Apache-2.0 */
/* extract_text: the text of the article on a page of HTML. */
#include "op/html.h"
#include "op/htmlcode.h"
#include "op/htmlname.h"
#include "op/op.h"

struct extract_text {
	const char *encoding;
	int64_t least;
};

static const struct mr_param params[] = {
	MR_TEXT(struct extract_text, encoding, "",
		"of the pages, as a server would tell; else what a page says "
		"itself, else UTF-8 if it is valid, else windows-1252"),
	MR_INT(struct extract_text, least, "0", 0, 1 << 30,
	       "bytes of text: a page with fewer is a bad sample, which "
	       "--on-error skip leaves out"),
	MR_PARAM_END
};

static int check(void *self, struct mr_err *err)
{
	const struct extract_text *x = self;
	size_t mark;

	if (*x->encoding &&
	    !mr_html_name(x->encoding, (const uint8_t *)"", 0, &mark))
		return mr_err_set(err, MR_EINVAL,
				  "extract_text knows no encoding '%s'; names "
				  "are those of browsers, as utf-8, "
				  "windows-1251, shift_jis, gb18030",
				  x->encoding);
	return 0;
}

static void drop(void *local)
{
	mr_html_coder_fini(local);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	if (in->dtype != MR_U8 || in->ndim != 1)
		return mr_op_refuse("extract_text", in,
				    "want the bytes of a page", err);
	*out = (struct mr_spec){ MR_U8, 1, { MR_ANY } };
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct extract_text *x = cx->self;
	size_t bytes = (size_t)in->shape[0];
	size_t most = mr_html_bound(x->encoding, in->data, bytes);

	if (bytes >= UINT32_MAX)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "a page of %zu bytes; 4 GB are the most that "
				  "extract_text takes",
				  bytes);
	if (most > cx->limit)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "a page of %zu bytes: its text may have %zu, "
				  "and %zu is what a sample may take; raise "
				  "--memory, or leave it out with --on-error "
				  "skip",
				  bytes, most, cx->limit);
	out->shape[0] = (int64_t)most;
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct extract_text *x = cx->self;
	size_t cap = (size_t)out->shape[0], n;
	struct mr_html h;
	int e = mr_html_utf8(cx->local, x->encoding, in->data,
			     (size_t)in->shape[0], cx->scratch, &h.page,
			     &h.bytes, cx->err);

	if (!e)
		e = mr_html_parse(&h, h.page, h.bytes, cx->scratch, cx->err);
	if (e)
		return e;
	n = mr_html_text(&h, mr_html_article(&h), out->data, cap);
	if (n > cap)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "the text has %zu bytes, more than the %zu "
				  "that a page of %lld can have",
				  n, cap, (long long)in->shape[0]);
	if (n < (size_t)x->least)
		return mr_err_set(cx->err, MR_EDATA,
				  "its article has %zu bytes of text, and "
				  "least=%lld is wanted",
				  n, (long long)x->least);
	out->shape[0] = (int64_t)n;
	return 0;
}

const struct mr_op mr_op_extract_text = {
	.name = "extract_text",
	.help = "the text of the article on a page of HTML, as UTF-8, a line "
		"for each block; navigation, scripts, comments and the title "
		"are left out",
	.size = sizeof(struct extract_text),
	.params = params,
	.open = check,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct mr_html_coder),
	.drop = drop,
};
