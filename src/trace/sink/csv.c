/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line per span. The first three columns are LotusTrace's (IISWC'24): name,
 * start, duration, in nanoseconds, and so are the names of what a batch goes
 * through; the others say what its files' names say, and more.
 */
#include "trace/sink/sinks.h"

struct csv {
	struct mr_out *o;
	const struct mr_roll *r;
	uint64_t wall;	     /* what turns a time into one since 1970 */
	char name[256][128]; /* of the steps, quoted where it must be */
	const struct mr_roll_thread *thread; /* the last one, and its role: */
	char role[2 * sizeof(((struct mr_told_thread *)0)->role)];
};

/* As RFC 4180 has it. */
static void quote(char *to, size_t cap, const char *text)
{
	size_t n = 0;

	if (!text[strcspn(text, ",\"\r\n")] && strlen(text) < cap) {
		memcpy(to, text, strlen(text) + 1);
		return;
	}
	to[n++] = '"';
	for (; *text && n + 4 < cap; text++) {
		if (*text == '"')
			to[n++] = '"';
		to[n++] = *text;
	}
	to[n++] = '"';
	to[n] = 0;
}

static void put_name(struct csv *c, const struct mr_mrt_span *s)
{
	static const char *const batch[MR_SPAN_KINDS] = {
		[MR_SPAN_BATCH] = "SBatchPreprocessed_",
		[MR_SPAN_NEXT] = "SBatchWait_",
		[MR_SPAN_CONSUME] = "SBatchConsumed_",
	};

	if (s->kind == MR_SPAN_STEP) {
		mr_out_text(c->o, c->name[s->step]);
	} else if (s->kind < MR_SPAN_KINDS && batch[s->kind] &&
		   s->batch != MR_NO_BATCH) {
		mr_out_text(c->o, batch[s->kind]);
		mr_out_uint(c->o, s->batch);
	} else {
		mr_out_text(c->o, s->kind == MR_SPAN_COLLATE ?
					  "Collation" :
					  mr_span_name(s->kind));
	}
}

static void put_number(struct csv *c, uint64_t v, bool known)
{
	mr_out_add(c->o, ",", 1);
	if (known)
		mr_out_uint(c->o, v);
}

static void put_span(void *self, struct mr_roll_thread *t,
		     const struct mr_mrt_span *s)
{
	struct csv *c = self;

	if (t != c->thread)
		quote(c->role, sizeof(c->role), t->is.role);
	c->thread = t;
	put_name(c, s);
	put_number(c, s->start + c->wall, true);
	put_number(c, s->duration, true);
	put_number(c, (uint64_t)t->is.pid, t->is.pid > 0);
	put_number(c, (uint64_t)t->is.tid, t->is.tid > 0);
	mr_out_add(c->o, ",", 1);
	mr_out_text(c->o, c->role);
	put_number(c, s->batch, s->batch != MR_NO_BATCH);
	put_number(c, s->sample, s->sample != MR_NO_SAMPLE);
	put_number(c, s->bytes, true);
	mr_out_text(c->o, s->flags & MR_SPAN_FAILED ? ",1\n" : ",0\n");
}

int mr_csv_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		 struct mr_err *err)
{
	struct csv c = { .o = o, .r = r };

	(void)err;
	c.wall = r->header.realtime - r->header.monotonic;
	for (int i = 0; i < 256; i++)
		quote(c.name[i], sizeof(c.name[i]),
		      i ? mr_roll_name(
				  r,
				  &(struct mr_mrt_span){ .kind = MR_SPAN_STEP,
							 .step = (uint8_t)i }) :
			  "Loader");
	mr_out_text(o, "name,start,duration,pid,tid,role,batch,sample,bytes,"
		       "failed\n");
	mr_roll_spans(r, m, put_span, &c);
	return 0;
}
