/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps of one's own in a shared object.
 *
 *	cc -shared -fPIC invert.c -o invert.so \
 *		$(pkg-config --cflags --libs millrace)
 *	millrace run --plugin ./invert.so \
 *		'synthetic shape=32,32,3 | invert | speckle p=0.1 | batch 64'
 *
 * invert turns u8 samples into their negatives: 255 - x. speckle blackens
 * elements at random, other ones in each epoch, the same ones for the same
 * seed whatever the number of threads.
 */
#include <millrace/plugin.h>

#include <string.h>

/* Both steps take u8 of any shape and leave it as it is. Asked before any
 * data is read: `in` may have dimensions that are MR_ANY. */
static int infer_u8(const char *name, const struct mr_spec *in,
		    struct mr_spec *out, struct mr_err *err)
{
	char got[128];

	if (in->dtype != MR_U8) {
		mr_spec_text(in, got, sizeof(got));
		return mr_err_set(err, MR_ETYPE,
				  "%s takes u8, not %s; cast u8 before it",
				  name, got);
	}
	*out = *in;
	return 0;
}

/* ---- invert: no parameters, no state ---- */

struct invert {
	char unused;
};

static const struct mr_param invert_params[] = { MR_PARAM_END };

static int invert_infer(const void *self, const struct mr_spec *in,
			struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	return infer_u8("invert", in, out, err);
}

static int invert_run(const struct mr_opctx *cx, const struct mr_tensor *in,
		      struct mr_tensor *out)
{
	const uint8_t *from = in->data;
	uint8_t *to = out->data;
	size_t n = mr_tensor_bytes(in);

	(void)cx;
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(255 - from[i]);
	return 0;
}

static const struct mr_op invert = {
	.name = "invert",
	.help = "255 - x on u8",
	.flags = MR_OP_SHAPE_KEEP,
	.size = sizeof(struct invert),
	.params = invert_params,
	.infer = invert_infer,
	.run = invert_run,
};

/* ---- speckle: a parameter, and random numbers ---- */

struct speckle {
	double p;
};

/* Parser, range check and messages come from this table. */
static const struct mr_param speckle_params[] = {
	MR_REAL(struct speckle, p, "0.1", 0, 1,
		"probability that an element becomes 0"),
	MR_PARAM_END
};

static int speckle_infer(const void *self, const struct mr_spec *in,
			 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	return infer_u8("speckle", in, out, err);
}

/* Threads run this at once on different samples: all that changes is in cx
 * and out. cx->rng depends on seed, epoch, sample and step alone, so that a
 * run can be repeated and resumed; rand() would break that. */
static int speckle_run(const struct mr_opctx *cx, const struct mr_tensor *in,
		       struct mr_tensor *out)
{
	const struct speckle *s = cx->self;
	uint8_t *to = out->data;
	size_t n = mr_tensor_bytes(in);

	memcpy(to, in->data, n);
	for (size_t i = 0; i < n; i++)
		if (mr_rng_real(cx->rng) < s->p)
			to[i] = 0;
	return 0;
}

static const struct mr_op speckle = {
	.name = "speckle",
	.help = "blacken elements of u8 at random",
	.flags = MR_OP_RANDOM | MR_OP_SHAPE_KEEP,
	.size = sizeof(struct speckle),
	.params = speckle_params,
	.infer = speckle_infer,
	.run = speckle_run,
};

/* ---- what the loader looks for ---- */

static const struct mr_op *const ops[] = { &invert, &speckle, NULL };

#pragma GCC visibility push(default)
extern const struct mr_plugin mr_plugin;
const struct mr_plugin mr_plugin = {
	.abi = MR_PLUGIN_ABI,
	.ops = ops,
};
#pragma GCC visibility pop
