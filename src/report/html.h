/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a page that needs nothing else: no network, no script of
 * others. */
#ifndef MR_REPORT_HTML_H
#define MR_REPORT_HTML_H

#include "trace/sink/out.h"
#include "trace/sink/roll.h"

int mr_html_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		  struct mr_err *err);

#endif
