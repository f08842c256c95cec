/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a pipeline. What is taken must say itself in canonical words,
 * mean the same when these are parsed, and plan without touching files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipe/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(ok)                                                \
	do {                                                    \
		if (!(ok)) {                                    \
			fprintf(stderr, "not true: %s\n", #ok); \
			abort();                                \
		}                                               \
	} while (0)

static char *canonical(const struct mr_pipeline *p)
{
	struct mr_str s = { 0 };

	for (int i = 0; i < p->n; i++) {
		if (i)
			mr_str_add(&s, " | ");
		mr_stage_text(&p->stage[i], &s);
	}
	return mr_str_take(&s);
}

static void check_canonical(const struct mr_pipeline *p)
{
	char *text = canonical(p), *again;
	struct mr_pipeline *q = NULL;
	struct mr_err err;
	uint64_t a, b;

	MUST(text);
	if (mr_pipeline_parse(&q, text, NULL, &err)) {
		fprintf(stderr, "%s\n%s\n", text, err.text);
		abort();
	}
	again = canonical(q);
	MUST(again && !strcmp(text, again));
	MUST(mr_pipeline_hash(p, &a, &err) == 0);
	MUST(mr_pipeline_hash(q, &b, &err) == 0);
	MUST(a == b);
	mr_pipeline_free(q);
	free(text);
	free(again);
}

static void check_plan(struct mr_pipeline *p)
{
	static struct mr_plan plan;
	struct mr_err err = { 0 };

	if (mr_plan_make(&plan, p, 1, &err)) {
		MUST(err.code < 0 && err.text[0]);
		return;
	}
	MUST(plan.outs >= 1 && plan.outs <= MR_MAX_FIELDS);
	MUST(plan.batch.count >= 1);
	for (int i = 0; i < plan.outs; i++) {
		MUST(plan.out[i].spec.ndim < MR_MAX_DIMS);
		MUST(plan.out[i].spec.dtype > MR_NONE &&
		     plan.out[i].spec.dtype < MR_DTYPES);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mr_pipeline *p = NULL;
	struct mr_err err = { 0 };
	char *text;

	/* A text that starts with @ names a file. */
	if (size && data[0] == '@')
		return 0;
	text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	if (mr_pipeline_parse(&p, text, NULL, &err)) {
		MUST(err.code < 0 && err.text[0] && !p);
	} else {
		check_canonical(p);
		if (!strcmp(p->stage[0].name, "synthetic"))
			check_plan(p);
	}
	mr_pipeline_free(p);
	free(text);
	return 0;
}
