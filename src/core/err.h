/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: mr_err_set() and mr_err_prefix() are in plugin.h. */
#ifndef MR_CORE_ERR_H
#define MR_CORE_ERR_H

#include <errno.h>
#include <string.h>

#include "millrace/plugin.h"

/* Out of memory, said once for all callers. */
int mr_err_nomem(struct mr_err *err, size_t bytes);

/* A failed system call: "path: what: strerror". */
int mr_err_sys(struct mr_err *err, int errnum, const char *path,
	       const char *what);

#endif
