/* SPDX-License-Identifier: Apache-2.0 */
/* Built without libdw. */
#include "analyze/elf.h"

struct mr_elf *mr_elf_open(const char *path)
{
	(void)path;
	return NULL;
}

void mr_elf_close(struct mr_elf *e)
{
	(void)e;
}

const char *mr_elf_function(const struct mr_elf *e, uint64_t offset)
{
	(void)e;
	(void)offset;
	return NULL;
}

const char *mr_elf_unknown(void)
{
	return "no libdw in this build";
}
