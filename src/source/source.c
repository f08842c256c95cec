/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

#include <assert.h>
#include <stdio.h>

void mr_fields_add(struct mr_fields *fs, const char *name, enum mr_dtype dtype,
		   int ndim, const int64_t *shape)
{
	struct mr_field_spec *f = &fs->item[fs->n];

	assert(fs->n < MR_MAX_FIELDS && ndim <= MR_MAX_DIMS);
	*f = (struct mr_field_spec){ .spec = { .dtype = dtype, .ndim = ndim },
				     .id = fs->n };
	snprintf(f->name, sizeof(f->name), "%s", name);
	for (int i = 0; i < ndim; i++)
		f->spec.shape[i] = shape[i];
	fs->n++;
}

int mr_load_i64(const struct mr_load *ld, int i, int64_t value,
		struct mr_tensor *f)
{
	f[i].data = ld->room(ld, i, sizeof(value));
	if (!f[i].data)
		return ld->err->code;
	memcpy(f[i].data, &value, sizeof(value));
	return 0;
}
