/* SPDX-License-Identifier: Apache-2.0 */
#include "core/err.h"

#include <stdarg.h>
#include <stdio.h>

int mr_err_set(struct mr_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int mr_err_prefix(struct mr_err *err, const char *fmt, ...)
{
	char old[MR_ERR_TEXT];
	va_list ap;
	int n;

	if (!err)
		return MR_EINVAL;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->text))
		snprintf(err->text + n, sizeof(err->text) - (size_t)n, "%s",
			 old);
	return err->code;
}

int mr_err_nomem(struct mr_err *err, size_t bytes)
{
	return mr_err_set(err, MR_ENOMEM,
			  "out of memory: the system gave no %zu bytes", bytes);
}

int mr_err_sys(struct mr_err *err, int errnum, const char *path,
	       const char *what)
{
	return mr_err_set(err, errnum == ENOMEM ? MR_ENOMEM : MR_EIO,
			  "%s: %s: %s", path, what, strerror(errnum));
}
