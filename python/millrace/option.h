/* SPDX-License-Identifier: Apache-2.0 */
/* Between options.c, which sets options, and option_text.c, which speaks of
 * them. */
#ifndef MRPY_OPTION_H
#define MRPY_OPTION_H

#include "core.h"

/* Each raises, and returns -1. */
int mrpy_option_wrong(PyObject *exception, const struct mr_param *p,
		      PyObject *value);
int mrpy_option_wrong_word(const struct mr_param *p, PyObject *value,
			   const char *text);
int mrpy_option_unknown(const char *function, const char *name);

#endif
