/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, as one table: sources, then steps. */
#include "op/op.h"
#include "source/source.h"

static size_t source_count(void)
{
	size_t n = 0;

	while (mr_sources[n])
		n++;
	return n;
}

bool mr_entry(size_t i, struct mr_entry *e)
{
	size_t sources = source_count();

	if (i < sources) {
		const struct mr_source *s = mr_sources[i];

		*e = (struct mr_entry){ MR_KIND_SOURCE, s->name, s->help,
					s->params, NULL };
		return true;
	}
	i -= sources;
	for (size_t k = 0; mr_ops[k]; k++) {
		if (k == i) {
			const struct mr_op *o = mr_ops[k];

			*e = (struct mr_entry){ MR_KIND_STEP, o->name, o->help,
						o->params, NULL };
			return true;
		}
	}
	return false;
}
