/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run, for people or as JSON, on stdout. */
#ifndef MR_CLI_REPORT_H
#define MR_CLI_REPORT_H

#include "millrace/millrace.h"

/* digest: NULL when not asked for. stopped: it was ended early. */
void cli_report(struct mr_loader *l, const uint64_t *digest, bool json,
		bool stopped);

#endif
