/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a program or library, from its file. */
#ifndef MR_ANALYZE_ELF_H
#define MR_ANALYZE_ELF_H

#include "core/err.h"

struct mr_elf;

/* NULL when it is no ELF file, or there is no libdw in this build. Symbols
 * are those of the file, of its separate debug file if one is installed, or
 * the dynamic ones. */
struct mr_elf *mr_elf_open(const char *path);
void mr_elf_close(struct mr_elf *e); /* NULL is allowed */

/* The function that holds the byte at that offset of the file, valid until
 * close; NULL when there is none with a name. */
const char *mr_elf_function(const struct mr_elf *e, uint64_t offset);

/* What stands in place of a name when there is none: "unknown", or that this
 * build cannot read them. */
const char *mr_elf_unknown(void);

#endif
