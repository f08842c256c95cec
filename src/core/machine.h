/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine is, for the heads of traces and reports. */
#ifndef MR_CORE_MACHINE_H
#define MR_CORE_MACHINE_H

#include "core/json.h"

/* "machine": {cpu, cores, memory, kernel} */
void mr_machine_json(struct mr_json *j);

/* The CPU's model, or "unknown". */
void mr_machine_cpu(char *buf, size_t cap);

#endif
