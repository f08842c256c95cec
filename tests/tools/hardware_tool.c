/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a trace says of hardware and functions.
 * usage: hardware_tool text|json|folded FILE.mrt */
#include <stdio.h>
#include <stdlib.h>

#include "analyze/hardware.h"

int main(int argc, char **argv)
{
	static struct mr_attribution a;
	struct mr_err err;
	char *text = NULL;
	int e;

	if (argc != 3)
		return 2;
	if (strcmp(argv[1], "folded") == 0) {
		e = mr_attribute(&a, argv[2], true, &err);
		if (!e) {
			text = mr_folded_text(&a);
			mr_attribution_fini(&a);
		}
	} else {
		e = mr_hardware_text(argv[2], strcmp(argv[1], "json") == 0,
				     &text, &err);
	}
	if (e) {
		fprintf(stderr, "hardware_tool: %s\n", err.text);
		return 1;
	}
	fputs(text, stdout);
	free(text);
	return 0;
}
