/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ functions as people write them, without their parameters. */
#ifndef MR_ANALYZE_DEMANGLE_H
#define MR_ANALYZE_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* The C++ runtime, which is looked for when the first name needs it; names
 * stay as they are where there is none. All zero at the beginning. */
struct mr_demangler {
	bool tried;
	void *runtime;
	char *(*demangle)(const char *name, char *buf, size_t *cap,
			  int *status);
};

/* `name`, or what it means, in buf. */
const char *mr_demangle(struct mr_demangler *d, const char *name, char *buf,
			size_t cap);
void mr_demangler_fini(struct mr_demangler *d);

#endif
