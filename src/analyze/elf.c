/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/elf.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

enum {
	SEGMENTS = 32,
	SYMBOLS = 1 << 24,
};

struct symbol {
	uint64_t at, size;
	const char *name; /* the library's */
	bool function;
};

struct mr_elf {
	Dwfl *dwfl;
	struct symbol *symbol; /* by address */
	size_t n, cap;
	struct {
		uint64_t offset, at, size;
	} segment[SEGMENTS];
	int segments;
};

static char *debug_path;
static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &debug_path,
};

const char *mr_elf_unknown(void)
{
	return "unknown";
}

static void read_segments(struct mr_elf *e, Elf *elf)
{
	size_t n = 0;

	if (elf_getphdrnum(elf, &n))
		return;
	for (size_t i = 0; i < n && e->segments < SEGMENTS; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD)
			continue;
		e->segment[e->segments].offset = p.p_offset;
		e->segment[e->segments].at = p.p_vaddr;
		e->segment[e->segments++].size = p.p_filesz;
	}
}

/* Functions; of assembly also labels without a type. */
static bool wanted(const GElf_Sym *s, const char *name)
{
	unsigned type = GELF_ST_TYPE(s->st_info);

	if (!name || !*name || *name == '$' || *name == '.' || !s->st_value)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

static void read_symbols(struct mr_elf *e, Dwfl_Module *m, GElf_Addr bias)
{
	int n = dwfl_module_getsymtab(m);
	struct mr_err err;

	for (int i = 1; i < n; i++) {
		GElf_Sym s;
		GElf_Addr at;
		GElf_Word section = 0;
		const char *name = dwfl_module_getsym_info(
			m, i, &s, &at, &section, NULL, NULL);

		if (section == SHN_UNDEF || section == SHN_ABS ||
		    !wanted(&s, name))
			continue;
		if (mr_grow(&e->symbol, &e->cap, e->n + 1, sizeof(*e->symbol),
			    SYMBOLS, &err))
			return;
		e->symbol[e->n++] = (struct symbol){ at - bias, s.st_size, name,
						     GELF_ST_TYPE(s.st_info) !=
							     STT_NOTYPE };
	}
}

/* At one address the best name comes last. */
static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->function != y->function)
		return x->function - y->function;
	return x->size < y->size ? -1 : x->size > y->size;
}

static Dwfl_Module *open_module(struct mr_elf *e, const char *path)
{
	Dwfl_Module *m;
	struct stat st;
	/* a trace may name anything: no device, no pipe */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	dwfl_report_begin(e->dwfl);
	m = dwfl_report_elf(e->dwfl, path, path, fd, 0, true);
	dwfl_report_end(e->dwfl, NULL, NULL);
	if (!m)
		close(fd); /* else it is the library's */
	return m;
}

struct mr_elf *mr_elf_open(const char *path)
{
	struct mr_err err;
	struct mr_elf *e = mr_alloc(1, sizeof(*e), &err);
	Dwfl_Module *m = NULL;
	GElf_Addr bias = 0;
	Elf *elf = NULL;

	if (!e)
		return NULL;
	e->dwfl = dwfl_begin(&callbacks);
	if (e->dwfl)
		m = open_module(e, path);
	if (m)
		elf = dwfl_module_getelf(m, &bias);
	if (!elf) {
		mr_elf_close(e);
		return NULL;
	}
	read_segments(e, elf);
	read_symbols(e, m, bias);
	if (e->n)
		qsort(e->symbol, e->n, sizeof(*e->symbol), by_address);
	return e;
}

void mr_elf_close(struct mr_elf *e)
{
	if (!e)
		return;
	if (e->dwfl)
		dwfl_end(e->dwfl);
	free(e->symbol);
	free(e);
}

/* Offset in the file to the address it is linked for. */
static bool address_of(const struct mr_elf *e, uint64_t offset, uint64_t *at)
{
	for (int i = 0; i < e->segments; i++) {
		uint64_t in = offset - e->segment[i].offset;

		if (offset < e->segment[i].offset || in >= e->segment[i].size)
			continue;
		*at = e->segment[i].at + in;
		return true;
	}
	return false;
}

const char *mr_elf_function(const struct mr_elf *e, uint64_t offset)
{
	size_t lo = 0, hi = e->n;
	uint64_t at;

	if (!address_of(e, offset, &at))
		return NULL;
	while (lo < hi) { /* the first symbol above */
		size_t mid = (lo + hi) / 2;

		if (e->symbol[mid].at > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	/* A label without a size reaches to the next symbol. Of several, one
	 * that was sized may lie around a label. */
	for (size_t i = lo, n = 0; i-- > 0 && n < 8; n++) {
		const struct symbol *s = &e->symbol[i];

		if (at - s->at < s->size || (!s->size && n == 0))
			return s->name;
	}
	return NULL;
}
