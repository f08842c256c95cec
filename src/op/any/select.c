/* SPDX-License-Identifier: Apache-2.0 */
/* select: keep the named fields, in that order. */
#include <stdio.h>

#include "op/op.h"

struct select {
	const char *fields;
};

static const struct mr_param params[] = {
	MR_TEXT(struct select, fields, NULL,
		"names, separated by commas, in the order wanted"),
	MR_PARAM_END
};

static const struct mr_field_spec *find(const struct mr_fields *fs,
					const char *name, size_t len)
{
	for (int i = 0; i < fs->n; i++)
		if (strlen(fs->item[i].name) == len &&
		    !strncmp(fs->item[i].name, name, len))
			return &fs->item[i];
	return NULL;
}

static int missing(const struct mr_fields *fs, const char *name, size_t len,
		   struct mr_err *err)
{
	char have[256] = "";

	for (int i = 0; i < fs->n; i++) {
		size_t at = strlen(have);

		snprintf(have + at, sizeof(have) - at, " %s", fs->item[i].name);
	}
	return mr_err_set(err, MR_ETYPE,
			  "select: no field '%.*s' here; there are:%s",
			  (int)len, name, have);
}

static int fields(const void *self, struct mr_fields *fs, struct mr_err *err)
{
	const struct select *s = self;
	struct mr_fields kept = { 0 };
	const char *p = s->fields;

	for (;;) {
		size_t len = strcspn(p, ",");
		const struct mr_field_spec *f = find(fs, p, len);

		if (!f)
			return missing(fs, p, len, err);
		if (find(&kept, p, len))
			return mr_err_set(err, MR_EINVAL,
					  "select: '%.*s' is named twice",
					  (int)len, p);
		kept.item[kept.n++] = *f;
		if (!p[len])
			break;
		p += len + 1;
	}
	*fs = kept;
	return 0;
}

const struct mr_op mr_op_select = {
	.name = "select",
	.help = "keep the named fields, in that order",
	.size = sizeof(struct select),
	.params = params,
	.fields = fields,
};
