/* SPDX-License-Identifier: Apache-2.0 */
/* Types and shapes; struct mr_tensor and struct mr_spec are public. */
#ifndef MR_CORE_TENSOR_H
#define MR_CORE_TENSOR_H

#include "core/json.h"
#include "millrace/plugin.h"

/* "f32" -> MR_F32; MR_NONE when there is no such type. */
enum mr_dtype mr_dtype_parse(const char *name);

/* A tensor of that spec, without data; MR_ANY becomes 0. */
struct mr_tensor mr_tensor_of(const struct mr_spec *s);

/*
 * Elements of a shape, checked: false when a dimension is negative or the
 * bytes would not fit in a size_t.
 */
bool mr_shape_elements(const int64_t *shape, int ndim, enum mr_dtype dtype,
		       int64_t *elements);

/* "image u8[224 224 3], label i64[]" */
void mr_fields_text(const struct mr_fields *fs, struct mr_str *out);
/* The list "fields" of {name, dtype, shape}. */
void mr_fields_json(const struct mr_fields *fs, struct mr_json *j);

/* Element i of a tensor of whole numbers. */
int64_t mr_tensor_integer(const struct mr_tensor *t, int64_t i);

#endif
