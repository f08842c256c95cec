/* SPDX-License-Identifier: Apache-2.0 */
/* What would help a job, by the model: each with its gain and its price. */
#ifndef MR_ANALYZE_REMEDY_H
#define MR_ANALYZE_REMEDY_H

#include "analyze/diagnosis.h"

/* Fills d->remedy, the best first; of those that gain the same, the cheaper
 * one. None when the accelerator does not wait. */
void mr_remedies(struct mr_diagnosis *d);

#endif
