/* SPDX-License-Identifier: Apache-2.0 */
#include "source/number.h"

#include "core/le.h"
#include "core/mem.h"

static const struct mr_number numbers[] = {
	{ "uint8", "u1", 1, MR_U8 },	{ "int8", "i1", 1, MR_I16 },
	{ "bool", "b1", 1, MR_U8 },	{ "uint16", "u2", 2, MR_I32 },
	{ "int16", "i2", 2, MR_I16 },	{ "uint32", "u4", 4, MR_I64 },
	{ "int32", "i4", 4, MR_I32 },	{ "uint64", "u8", 8, MR_I64 },
	{ "int64", "i8", 8, MR_I64 },	{ "float16", "f2", 2, MR_F16 },
	{ "float32", "f4", 4, MR_F32 }, { "float64", "f8", 8, MR_F64 },
};

const struct mr_number *mr_number_find(const char *name)
{
	const char *code = strchr("<|", *name) && *name ? name + 1 : "";

	for (size_t i = 0; i < MR_COUNT(numbers); i++)
		if (!strcmp(numbers[i].name, name) ||
		    !strcmp(numbers[i].code, code))
			return &numbers[i];
	return NULL;
}

bool mr_number_same(const struct mr_number *t)
{
	return t->size == mr_dtype_size(t->as) && strcmp(t->code, "u8") != 0;
}

static void widen_i8(const uint8_t *from, size_t n, int16_t *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (int8_t)from[i];
}

static void widen_u16(const uint8_t *from, size_t n, int32_t *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = mr_le16(from + 2 * i);
}

static void widen_u32(const uint8_t *from, size_t n, int64_t *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = mr_le32(from + 4 * i);
}

static int check_u64(const uint8_t *from, size_t n, struct mr_err *err)
{
	for (size_t i = 0; i < n; i++)
		if (mr_le64(from + 8 * i) > INT64_MAX)
			return mr_err_set(
				err, MR_EDATA,
				"the number %llu does not fit i64",
				(unsigned long long)mr_le64(from + 8 * i));
	return 0;
}

int mr_number_load(const struct mr_number *t, const void *from, size_t n,
		   void *to, struct mr_err *err)
{
	bool same = mr_number_same(t);
	int e = !strcmp(t->code, "u8") ? check_u64(from, n, err) : 0;

	if (e)
		return e;
	if (same || t->size == 8)
		memcpy(to, from, n * t->size);
	else if (t->size == 1)
		widen_i8(from, n, to);
	else if (t->size == 2)
		widen_u16(from, n, to);
	else
		widen_u32(from, n, to);
	return 0;
}
