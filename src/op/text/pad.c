/* SPDX-License-Identifier: Apache-2.0 */
/* pad: a list of numbers, filled up or cut to a fixed length. */
#include <stdio.h>

#include "kernel/convert.h"
#include "op/op.h"

enum side { RIGHT, LEFT };
static const char *const sides[] = { "right", "left", NULL };

struct pad {
	int64_t length;
	double value;
	int side;
};

static const struct mr_param params[] = {
	MR_INT(struct pad, length, NULL, 1, 1 << 30,
	       "elements that come out, of whatever goes in"),
	MR_REAL(struct pad, value, "0", -1e308, 1e308, "fill up with this"),
	MR_ENUM(struct pad, side, "right", sides,
		"the end at which to fill up or cut"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct pad *p = self;
	char why[80];

	if (in->ndim != 1)
		return mr_op_refuse("pad", in, "want one dimension", err);
	if (!mr_op_holds(in->dtype, p->value)) {
		snprintf(why, sizeof(why), "value=%g is none of that type",
			 p->value);
		return mr_op_refuse("pad", in, why, err);
	}
	*out = *in;
	out->shape[0] = p->length;
	return 0;
}

static void fill(void *to, const void *value, size_t size, size_t n)
{
	char *at = to;

	for (size_t i = 0; i < n; i++)
		memcpy(at + i * size, value, size);
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct pad *p = cx->self;
	size_t size = mr_dtype_size(in->dtype), want = (size_t)p->length;
	size_t have = (size_t)in->shape[0], cut = 0, more = 0;
	const char *from = in->data;
	char *to = out->data;
	uint64_t value;

	if (have > want)
		cut = have - want;
	else
		more = want - have;
	mr_convert(&p->value, MR_F64, &value, in->dtype, 1);
	if (p->side == LEFT) {
		from += cut * size;
		fill(to, &value, size, more);
		to += more * size;
	} else {
		fill(to + have * size, &value, size, more);
	}
	if (have > cut)
		memcpy(to, from, (have - cut) * size);
	return 0;
}

const struct mr_op mr_op_pad = {
	.name = "pad",
	.help = "fill up or cut a list to a fixed length, so that batches are "
		"dense",
	.size = sizeof(struct pad),
	.params = params,
	.infer = infer,
	.run = run,
};
