/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/file.h"

void mr_machine_cpu(char *buf, size_t cap)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];

	snprintf(buf, cap, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		char *v = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !v)
			continue;
		v += strspn(v, ": \t");
		v[strcspn(v, "\n")] = 0;
		snprintf(buf, cap, "%s", v);
		break;
	}
	if (f)
		fclose(f);
}

void mr_machine_json(struct mr_json *j)
{
	struct utsname u;
	char cpu[256];

	mr_machine_cpu(cpu, sizeof(cpu));
	mr_json_open(j, "machine", '{');
	mr_json_text(j, "cpu", mr_json_can(cpu) ? cpu : "unknown");
	mr_json_int(j, "cores", mr_machine_cores());
	mr_json_uint(j, "memory", mr_machine_memory());
	if (!uname(&u))
		mr_json_text(j, "kernel", u.release);
	mr_json_close(j, '}');
}
