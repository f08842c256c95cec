/* SPDX-License-Identifier: Apache-2.0 */
/* Packing into records; the containers of others are in tarpack.c and
 * examplepack.c. */
#include "store/packer.h"

#include <stdint.h>
#include <string.h>

#include "core/hash.h"
#include "core/le.h"

/* What a thread keeps: the codec's state. */
struct local {
	void (*drop)(void *state);
	void *state;
};

static size_t bound(const struct mr_opctx *cx, const struct mr_fields *fs,
		    const struct mr_tensor *f)
{
	const struct mr_packer *p = cx->self;
	size_t n = mr_record_bound(p->plan, f);

	(void)fs;
	return n > SIZE_MAX - MR_RECORD_SEAL ? SIZE_MAX : n + MR_RECORD_SEAL;
}

static void seal(uint8_t *record, size_t length)
{
	memset(record + length, 0, MR_RECORD_SEAL);
	mr_le64_put(record + length, XXH3_64bits(record, length));
}

uint64_t mr_record_sealed(const uint8_t *record, size_t length)
{
	return mr_le64(record + length);
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
			   out->data, (size_t)out->shape[0] - MR_RECORD_SEAL,
			   &size, cx->err);
	if (e)
		return e;
	seal(out->data, size);
	out->shape[0] = (int64_t)(size + MR_RECORD_SEAL);
	return 0;
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
