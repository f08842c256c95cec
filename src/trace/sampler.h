/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which function runs: so many times a second of a thread's CPU time the
 * kernel writes down where it is and who called, into a ring that the
 * recorder's thread empties (SMPL and MAPS of docs/trace-format.md). By the
 * CPU's cycles where there is a PMU, else by the CPU clock.
 */
#ifndef MR_TRACE_SAMPLER_H
#define MR_TRACE_SAMPLER_H

#include <sys/types.h>

#include "trace/recorder.h"

struct mr_sampler;
struct perf_event_mmap_page;

/*
 * Begins, and writes META. pid 0: of this process those threads that attach
 * themselves. Else that process, with all its threads, and those and the
 * processes that they start from now on. What the machine does not allow is
 * no error: META says why there are no samples, and *out takes none. An error
 * is lack of memory, or a process that does not exist.
 */
int mr_sampler_open(struct mr_sampler **out, pid_t pid, int hz,
		    struct mr_recorder *r, struct mr_err *err);
/* The calling thread is sampled from now on; NULL is allowed. Returns its
 * page, whose data_head moves with each sample, or NULL; valid until free. */
const struct perf_event_mmap_page *mr_sampler_attach(struct mr_sampler *s);
/* After the recorder is closed; NULL is allowed. */
void mr_sampler_free(struct mr_sampler *s);

#endif
