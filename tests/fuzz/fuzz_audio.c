/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as sound. The first byte chooses type, channels and leniency; the
 * rest is the file. The decoders are kept from file to file, and must give
 * for a file what they gave before others came between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/param.h"
#include "op/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct mr_op mr_op_decode_audio;

#define MUST(ok)                                                \
	do {                                                    \
		if (!(ok)) {                                    \
			fprintf(stderr, "not true: %s\n", #ok); \
			abort();                                \
		}                                               \
	} while (0)

enum { JOBS = 8, SAMPLE_MAX = 1 << 20 };

struct result {
	int e;
	struct mr_tensor t; /* whose data is its own */
};

struct rig {
	void *self, *local;
};

static void prepare(struct rig *g, int job)
{
	static const char *const value[3][2] = { { "i16", "f32" },
						 { "mono", "keep" },
						 { "no", "yes" } };
	static const char *const name[3] = { "dtype", "channels", "lenient" };
	const struct mr_op *op = &mr_op_decode_audio;
	struct mr_arena strings;
	struct mr_err err;

	if (g->self)
		return;
	g->self = calloc(1, op->size);
	g->local = calloc(1, op->local);
	mr_arena_init(&strings, 4096);
	mr_param_defaults(op->params, g->self);
	for (int i = 0; i < 3; i++)
		MUST(!mr_param_set(mr_param_find(op->params, name[i]), g->self,
				   value[i][job >> i & 1], &strings, &err));
}

static struct result decode(const struct rig *g, const struct mr_tensor *file)
{
	const struct mr_op *op = &mr_op_decode_audio;
	struct mr_err err = { 0 };
	struct mr_opctx cx = { .self = g->self,
			       .local = g->local,
			       .limit = SAMPLE_MAX,
			       .err = &err };
	struct mr_spec in = { MR_U8, 1, { MR_ANY } }, out;
	struct result r = { 0 };

	MUST(!op->infer(g->self, &in, &out, &err));
	r.t.dtype = out.dtype;
	r.t.ndim = out.ndim;
	r.e = op->shape(&cx, file, &r.t);
	if (!r.e) {
		MUST(r.t.shape[0] >= 0);
		MUST(r.t.ndim == 1 || (r.t.shape[1] >= 1 && r.t.shape[1] <= 8));
		MUST(mr_tensor_bytes(&r.t) <= SAMPLE_MAX);
		r.t.data = calloc(1, mr_tensor_bytes(&r.t) + 1);
		r.e = op->run(&cx, file, &r.t);
	}
	MUST(r.e <= 0 && (!r.e || (err.code == r.e && err.text[0])));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rig kept[JOBS];
	struct rig fresh = { 0 };
	struct mr_tensor file;
	struct result a, b;
	int job;

	if (!size)
		return 0;
	job = data[0] % JOBS;
	prepare(&kept[job], job);
	prepare(&fresh, job);
	file = (struct mr_tensor){ .dtype = MR_U8,
				   .ndim = 1,
				   .shape = { (int64_t)size - 1 },
				   .data = malloc(size - 1 ? size - 1 : 1) };
	memcpy(file.data, data + 1, size - 1);
	a = decode(&kept[job], &file);
	b = decode(&fresh, &file);
	MUST(a.e == b.e);
	if (!a.e) {
		MUST(!memcmp(a.t.shape, b.t.shape, sizeof(a.t.shape)));
		MUST(!memcmp(a.t.data, b.t.data, mr_tensor_bytes(&a.t)));
	}
	mr_op_decode_audio.drop(fresh.local);
	free(fresh.self);
	free(fresh.local);
	free(file.data);
	free(a.t.data);
	free(b.t.data);
	return 0;
}
