/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample as a TFRecord that holds a tf.train.Example. Bytes are a
 * bytes_list, whole numbers (one, or a list) an int64_list, f32 numbers a
 * float_list; all else is the array's bytes, with NAME/shape and NAME/dtype
 * beside them.
 */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/le.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "kernel/crc32c.h"
#include "store/packer.h"

enum kind { BYTES = 1, FLOATS, INTS }; /* fields of tf.train.Feature */

enum {
	FRAME_HEAD = 12, /* length and its checksum */
	FRAME_TAIL = 4,
	VARINT_MAX = 10,
	FEATURE_MAX = 6 * (1 + VARINT_MAX), /* of tags and lengths */
};

/* ---- protocol buffers, as far as it takes ---- */

static size_t varint_size(uint64_t v)
{
	size_t n = 1;

	for (; v >= 0x80; v >>= 7)
		n++;
	return n;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* A field of n bytes: tag, length; the bytes follow. */
static uint8_t *put_head(uint8_t *p, unsigned field, size_t n)
{
	*p++ = (uint8_t)(field << 3 | 2);
	return put_varint(p, n);
}

static size_t nested(size_t n)
{
	return 1 + varint_size(n) + n;
}

/* ---- features ---- */

struct feature {
	char name[MR_NAME_MAX + 8];
	enum kind kind;
	const struct mr_tensor *t;
	size_t body; /* bytes of the list's values */
};

static enum kind kind_of(const struct mr_tensor *t)
{
	if (t->ndim > 1 || (t->ndim == 1 && t->dtype == MR_U8))
		return BYTES;
	if (t->dtype < MR_F16)
		return INTS;
	return t->dtype == MR_F32 ? FLOATS : BYTES;
}

static void init_feature(struct feature *f, const char *name, const char *more,
			 const struct mr_tensor *t, enum kind kind)
{
	snprintf(f->name, sizeof(f->name), "%s%s", name, more);
	f->kind = kind;
	f->t = t;
	f->body = mr_tensor_bytes(t);
	if (kind != INTS)
		return;
	f->body = 0;
	for (int64_t i = 0; i < mr_tensor_elements(t); i++)
		f->body += varint_size((uint64_t)mr_tensor_integer(t, i));
}

static uint8_t *put_feature(uint8_t *p, const struct feature *f)
{
	size_t list = nested(f->body), value = nested(list);
	size_t name = strlen(f->name);

	p = put_head(p, 1, nested(name) + nested(value));
	p = put_head(p, 1, name);
	memcpy(p, f->name, name);
	p = put_head(p + name, 2, value);
	p = put_head(p, (unsigned)f->kind, list);
	p = put_head(p, 1, f->body);
	if (f->kind == INTS) {
		for (int64_t i = 0; i < mr_tensor_elements(f->t); i++)
			p = put_varint(p, (uint64_t)mr_tensor_integer(f->t, i));
		return p;
	}
	if (f->body)
		memcpy(p, f->t->data, f->body);
	return p + f->body;
}

static size_t feature_size(const struct feature *f)
{
	return nested(nested(strlen(f->name)) +
		      nested(nested(nested(f->body))));
}

/* ---- the step ---- */

static size_t bound(const struct mr_opctx *cx, const struct mr_fields *fs,
		    const struct mr_tensor *f)
{
	size_t n = FRAME_HEAD + FRAME_TAIL + 2 * (1 + VARINT_MAX);

	(void)cx;
	for (int i = 0; i < fs->n; i++) {
		const struct mr_tensor *t = &f[fs->item[i].id];
		size_t bytes = mr_tensor_bytes(t);

		/* Two bytes may become ten. */
		if (bytes > SIZE_MAX / 16 - n)
			return SIZE_MAX;
		n += kind_of(t) == INTS ? 5 * bytes + VARINT_MAX : bytes;
		n += 3 * (FEATURE_MAX + MR_NAME_MAX + 8) +
		     MR_MAX_DIMS * VARINT_MAX;
	}
	return n;
}

static uint32_t masked(const void *p, size_t n)
{
	uint32_t c = mr_crc32c(p, n);

	return (c >> 15 | c << 17) + 0xa282ead8u;
}

static int pack(const struct mr_opctx *cx, const struct mr_fields *fs,
		const struct mr_tensor *f, struct mr_tensor *out)
{
	struct feature list[3 * MR_MAX_FIELDS];
	struct mr_tensor shape[MR_MAX_FIELDS], dtype[MR_MAX_FIELDS];
	uint8_t *to = out->data, *p;
	size_t n = 0, all = 0;

	(void)cx;
	for (int i = 0; i < fs->n; i++) {
		const struct mr_tensor *t = &f[fs->item[i].id];
		const char *name = fs->item[i].name;
		enum kind kind = kind_of(t);

		init_feature(&list[n++], name, "", t, kind);
		if (kind != BYTES || (t->ndim == 1 && t->dtype == MR_U8))
			continue;
		shape[i] = (struct mr_tensor){
			.dtype = MR_I64,
			.ndim = 1,
			.shape = { t->ndim },
			.data = (void *)(uintptr_t)t->shape
		};
		dtype[i] = (struct mr_tensor){
			.dtype = MR_U8,
			.ndim = 1,
			.shape = { (int64_t)strlen(mr_dtype_name(t->dtype)) },
			.data = (void *)(uintptr_t)mr_dtype_name(t->dtype)
		};
		init_feature(&list[n++], name, "/shape", &shape[i], INTS);
		init_feature(&list[n++], name, "/dtype", &dtype[i], BYTES);
	}
	for (size_t i = 0; i < n; i++)
		all += feature_size(&list[i]);
	mr_le64_put(to, nested(all));
	mr_le32_put(to + 8, masked(to, 8));
	p = put_head(to + FRAME_HEAD, 1, all);
	for (size_t i = 0; i < n; i++)
		p = put_feature(p, &list[i]);
	mr_le32_put(p, masked(to + FRAME_HEAD, (size_t)(p - to) - FRAME_HEAD));
	out->shape[0] = p + FRAME_TAIL - to;
	return 0;
}

const struct mr_op mr_pack_tfrecord = {
	.name = "tfrecord",
	.help = "make a tf.train.Example of a sample",
	.bound = bound,
	.pack = pack,
};
