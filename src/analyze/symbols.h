/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for program counters, after the fact: which file lay where (MAPS of a
 * trace), and which function of the file that is. Each file is read once,
 * each address looked up once. Where there is no name it says why:
 * "[unknown in libfoo.so]", "[libfoo.so, changed since]", "[kernel]",
 * "[anonymous code]".
 */
#ifndef MR_ANALYZE_SYMBOLS_H
#define MR_ANALYZE_SYMBOLS_H

#include "core/err.h"
#include "trace/mrt.h"

struct mr_symbols;

#define MR_NO_FUNCTION (UINT32_MAX - 1)

/* Of a trace with that header: a file that is younger is not the one that
 * ran, and the kernel's addresses have names only while the same machine is
 * up. files: look into files at all. */
int mr_symbols_new(struct mr_symbols **out, const struct mr_mrt_header *of,
		   bool files, struct mr_err *err);
void mr_symbols_free(struct mr_symbols *s); /* NULL is allowed */

/* The contents of a MAPS chunk; lines that are none are passed over. */
int mr_symbols_maps(struct mr_symbols *s, const uint8_t *data, size_t size,
		    struct mr_err *err);

/*
 * The function at an address, as a number for mr_symbols_name().
 * MR_NO_FUNCTION in *out: no code is there. Fails for lack of memory only.
 */
int mr_symbols_find(struct mr_symbols *s, uint32_t pid, uint64_t address,
		    bool kernel, uint32_t *out, struct mr_err *err);

/* The number of a name. */
int mr_symbols_intern(struct mr_symbols *s, const char *name, uint32_t *out,
		      struct mr_err *err);
const char *mr_symbols_name(const struct mr_symbols *s, uint32_t function);
uint32_t mr_symbols_count(const struct mr_symbols *s);

#endif
