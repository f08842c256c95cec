/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks in Python measured in a script (millrace_diagnose): a folder
 * with a file *.rank of JSON for each rank. Anything may be missing from
 * them, or wrong; what is not finite or out of its range is left out.
 */
#ifndef MR_ANALYZE_SCRIPT_H
#define MR_ANALYZE_SCRIPT_H

#include "analyze/diagnosis.h"

/*
 * Fill the measured part of *d, which is all zeros; it is to be freed with
 * mr_diagnosis_fini(), also after an error. Of several ranks, rates, batches
 * and workers are summed up, and rank[] has what each would reach by itself:
 * a rank that has its batch waits for the others in backward(), so that all
 * of them seem to be as slow as the slowest.
 * Returns 0; MR_EDATA when nothing was measured (err says it), or an error.
 */
int mr_script_read(const char *folder, struct mr_diagnosis *d,
		   struct mr_err *err);

#endif
