/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/demangle.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 2048 }; /* of what is worth the trouble */

static void look_for_runtime(struct mr_demangler *d)
{
	void *f;

	d->tried = true;
	d->runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	f = d->runtime ? dlsym(d->runtime, "__cxa_demangle") : NULL;
	memcpy(&d->demangle, &f, sizeof(f));
}

static bool ends_in(const char *s, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n > k && memcmp(s + n - k, end, k) == 0;
}

/* Up to the last list of parameters: "f(int) const" is f. */
static size_t without_parameters(const char *s)
{
	size_t n = strlen(s), at;
	int deep = 0;

	if (ends_in(s, n, " const"))
		n -= strlen(" const");
	if (!ends_in(s, n, ")"))
		return strlen(s);
	for (at = n; at-- > 0;) {
		deep += s[at] == ')';
		deep -= s[at] == '(';
		if (!deep)
			break;
	}
	return at && at < n ? at : strlen(s);
}

const char *mr_demangle(struct mr_demangler *d, const char *name, char *buf,
			size_t cap)
{
	char *text;
	int status;

	if (strncmp(name, "_Z", 2) != 0 ||
	    strnlen(name, NAME_MAX_LEN) == NAME_MAX_LEN)
		return name;
	if (!d->tried)
		look_for_runtime(d);
	if (!d->demangle)
		return name;
	text = d->demangle(name, NULL, NULL, &status);
	if (!text)
		return name;
	snprintf(buf, cap, "%.*s", (int)without_parameters(text), text);
	free(text);
	return buf;
}

void mr_demangler_fini(struct mr_demangler *d)
{
	if (d->runtime)
		dlclose(d->runtime);
	*d = (struct mr_demangler){ 0 };
}
