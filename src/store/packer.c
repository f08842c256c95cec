/* SPDX-License-Identifier: Apache-2.0 */
/* Packing into records; the containers of others are in tarpack.c and
 * examplepack.c. */
#include "store/packer.h"

#include <stdint.h>

/* What a thread keeps: the codec's state. */
struct local {
	void (*drop)(void *state);
	void *state;
};

static size_t bound(const struct mr_opctx *cx, const struct mr_fields *fs,
		    const struct mr_tensor *f)
{
	const struct mr_packer *p = cx->self;

	(void)fs;
	return mr_record_bound(p->plan, f);
}

static int pack(const struct mr_opctx *cx, const struct mr_fields *fs,
		const struct mr_tensor *f, struct mr_tensor *out)
{
	const struct mr_packer *p = cx->self;
	struct local *l = cx->local;
	size_t size;
	int e;

	(void)fs;
	l->drop = p->plan->codec->drop_pack;
	e = mr_record_pack(p->plan, f, cx->rate, &l->state, cx->scratch,
			   out->data, (size_t)out->shape[0], &size, cx->err);
	if (!e)
		out->shape[0] = (int64_t)size;
	return e;
}

static void drop(void *local)
{
	struct local *l = local;

	if (l->state && l->drop)
		l->drop(l->state);
}

const struct mr_op mr_pack_record = {
	.name = "store",
	.help = "pack a sample into a record",
	.local = sizeof(struct local),
	.drop = drop,
	.bound = bound,
	.pack = pack,
};
