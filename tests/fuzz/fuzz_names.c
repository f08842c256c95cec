/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a name with braces, and as a server's list of a bucket. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/brace.h"
#include "io/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void braces(const char *text)
{
	struct mr_name_list l = { 0 };
	struct mr_err err = { 0 };
	int e = mr_brace_expand(&l, text, &err);

	if (e ? !err.text[0] : !l.n)
		abort();
	mr_name_list_fini(&l);
}

static void elements(const char *text, size_t size)
{
	struct mr_xml x = { text, text + size };
	char buf[100];

	while (mr_xml_next(&x, "Key", buf, sizeof(buf)) > 0)
		if (strlen(buf) >= sizeof(buf))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = 0;
	elements(text, size); /* as far as the bytes go, zeros or not */
	if (size < 100)	      /* more braces than that only take longer */
		braces(text);
	free(text);
	return 0;
}
