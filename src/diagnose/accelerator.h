/* SPDX-License-Identifier: Apache-2.0 */
/* How fast an accelerator is: a number, or the name of one that is known. */
#ifndef MR_DIAGNOSE_ACCELERATOR_H
#define MR_DIAGNOSE_ACCELERATOR_H

#include "core/err.h"

/*
 * text: samples per second, or a model and an accelerator as MLPerf Storage
 * has them ("resnet50-h100"). *rate in samples per second; *name is "given",
 * or the preset's.
 */
int mr_accelerator_parse(const char *text, double *rate, const char **name,
			 struct mr_err *err);

#endif
