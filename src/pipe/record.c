/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/record.h"

#include <stdio.h>

#include "core/machine.h"
#include "trace/counters.h"
#include "trace/sampler.h"

/* ---- what the header says ---- */

static void tell_meta(struct mr_loader *l, const char *pipeline)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "pipeline", mr_json_can(pipeline) ? pipeline : "?");
	mr_json_text(&j, "version", MR_VERSION);
	mr_machine_json(&j);
	mr_json_text(&j, "clock", l->clock.tsc ? "tsc" : "monotonic");
	mr_json_real(&j, "ns_per_tick", mr_clock_ns_per_tick(&l->clock), 12);
	mr_json_int(&j, "threads", l->threads);
	mr_json_uint(&j, "seed", l->opt.seed);
	mr_json_text(&j, "order", mr_order_names[l->opt.order]);
	mr_json_uint(&j, "samples", l->epoch_samples);
	mr_json_uint(&j, "batch", l->rows);
	mr_json_uint(&j, "epoch_batches", l->epoch_batches);
	mr_json_close(&j, '}');
	if (!j.out.failed)
		mr_recorder_chunk(l->recorder, "META", 0, j.out.text,
				  j.out.len);
	mr_str_fini(&j.out);
}

static void tell_names(struct mr_loader *l)
{
	mr_recorder_name(l->recorder, 0, "read");
	for (int i = 1; i < l->pipeline->n; i++)
		mr_recorder_name(l->recorder, (uint8_t)i,
				 l->pipeline->stage[i].name);
}

/* ---- life ---- */

/* Counters and samples; what cannot be had the file says. */
static int open_hardware(struct mr_loader *l, const char *events,
			 struct mr_err *err)
{
	int e = mr_counting_new(&l->counting, events, l->pipeline->n,
				l->recorder, err);

	if (e || !l->opt.sample)
		return e;
	return mr_sampler_open(&l->sampler, 0, (int)l->opt.sample, l->recorder,
			       err);
}

int mr_record_open(struct mr_loader *l, const char *pipeline,
		   struct mr_err *err)
{
	const char *events = l->opt.events ? l->opt.events : "";
	struct mr_mrt_header h;
	int e;

	if (!l->opt.trace || !*l->opt.trace)
		return 0;
#ifndef MR_COUNTERS
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "this build has no counters, and so no traces; "
			  "build with -Dcounters=true");
#endif
	/* before a file is made, or overwritten */
	e = mr_events_check(events, err);
	if (e)
		return e;
	mr_mrt_now(&h);
	h.rank = (int32_t)l->opt.rank;
	h.ranks = (int32_t)l->opt.ranks;
	e = mr_recorder_new(&l->recorder, l->opt.trace, &h, &l->clock,
			    l->threads + 2, err);
	if (e)
		return e;
	tell_meta(l, pipeline);
	tell_names(l);
	e = open_hardware(l, events, err);
	if (e)
		return e;
	e = mr_record_ring(l, &l->ring_of_consumer, err);
	mr_record_thread(l, l->ring_of_consumer, "consumer", 0);
	return e;
}

void mr_record_close(struct mr_loader *l)
{
	const struct mr_plan *p = &l->plan;
	uint64_t t = l->got;

	if (!l->recorder)
		return;
	if (t)
		mr_record(l, l->ring_of_consumer, MR_SPAN_CONSUME, t,
			  l->got_batch, 0);
	mr_recorder_close(l->recorder, p->source ? p->source->key : NULL,
			  p->source_self, l->recorded);
	l->recorder = NULL;
	mr_counting_free(l->counting);
	mr_sampler_free(l->sampler);
	l->counting = NULL;
	l->sampler = NULL;
}

int mr_record_ring(struct mr_loader *l, struct mr_ring **ring,
		   struct mr_err *err)
{
	*ring = NULL;
	if (!l->recorder)
		return 0;
	*ring = mr_recorder_ring(l->recorder, err);
	return *ring ? 0 : MR_ENOMEM;
}

const struct perf_event_mmap_page *mr_record_thread(struct mr_loader *l,
						    const struct mr_ring *ring,
						    const char *role,
						    int number)
{
	char name[32];

	if (!ring)
		return NULL;
	snprintf(name, sizeof(name), "%s %d", role, number);
	mr_recorder_thread(l->recorder, ring, role, number ? name : role);
	return mr_sampler_attach(l->sampler);
}

/* ---- the consumer ---- */

void mr_record_ask(struct mr_loader *l)
{
	if (!l->ring_of_consumer || l->asked)
		return;
	if (l->got)
		mr_record(l, l->ring_of_consumer, MR_SPAN_CONSUME, l->got,
			  l->got_batch, 0);
	l->got = 0;
	l->asked = mr_clock_tick(&l->clock);
}

void mr_record_got(struct mr_loader *l, const struct mr_batch *b,
		   uint64_t batch)
{
	if (!l->ring_of_consumer)
		return;
	mr_record(l, l->ring_of_consumer, MR_SPAN_NEXT, l->asked, batch,
		  mr_batch_payload(b));
	l->asked = 0;
	l->got = mr_clock_tick(&l->clock);
	l->got_batch = batch;
}
