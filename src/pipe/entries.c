/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, as one table: sources, codecs, steps, and what is missing. */
#include "op/op.h"
#include "source/source.h"
#include "store/codec.h"

/* The i-th of an array that ends with NULL; else i is lessened by its length.
 */
#define PICK(table, i, found)                    \
	do {                                     \
		size_t n_ = 0;                   \
		while ((table)[n_] && n_ < *(i)) \
			n_++;                    \
		(found) = (table)[n_];           \
		*(i) -= n_;                      \
	} while (0)

bool mr_entry(size_t i, struct mr_entry *e)
{
	const struct mr_source *s;
	const struct mr_codec *c;
	const struct mr_op *o;

	PICK(mr_sources, &i, s);
	if (s) {
		*e = (struct mr_entry){ MR_KIND_SOURCE, s->name, s->help,
					s->params, NULL };
		return true;
	}
	for (size_t k = 0; mr_missing_sources[k].name; k++, i--) {
		if (i > 0)
			continue;
		*e = (struct mr_entry){ MR_KIND_SOURCE,
					mr_missing_sources[k].name,
					mr_missing_sources[k].needs, NULL,
					mr_missing_sources[k].needs };
		return true;
	}
	PICK(mr_ops, &i, o);
	if (o) {
		*e = (struct mr_entry){ MR_KIND_STEP, o->name, o->help,
					o->params, NULL };
		return true;
	}
	PICK(mr_codecs, &i, c);
	if (c)
		*e = (struct mr_entry){ .kind = MR_KIND_CODEC,
					.name = c->name,
					.help = c->help,
					.min_level = c->min,
					.max_level = c->max,
					.default_level = c->def };
	return c != NULL;
}
