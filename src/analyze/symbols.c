/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/symbols.h"

#include <stdio.h>

#include "analyze/demangle.h"
#include "analyze/elf.h"
#include "analyze/map.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"

enum {
	LINES = 1 << 20,     /* of all maps */
	NAMES = 1 << 24,     /* of functions */
	KALLSYMS = 64 << 20, /* bytes */
};

struct module {
	char *path;
	uint64_t inode; /* that was mapped */
	bool opened, changed;
	struct mr_elf *elf;
};

/* A stretch of a process' memory that holds code. */
struct stretch {
	uint64_t from, to, offset;
	uint32_t pid;
	uint32_t module; /* or one of these */
	uint32_t before; /* the process' one before, or NONE */
};

#define ANONYMOUS UINT32_MAX
#define FORKED	  (UINT32_MAX - 1) /* of process `offset` */
#define NONE	  UINT32_MAX

struct ksym {
	uint64_t at;
	const char *name;
};

struct mr_symbols {
	bool files, here;
	uint64_t recorded; /* ns since 1970 */
	struct module *module;
	size_t modules, module_cap;
	struct mr_map64 by_path;
	struct stretch *map; /* in the order of the file */
	size_t maps, map_cap;
	struct mr_map64 by_pid; /* the last of each process */

	struct mr_demangler demangler;
	char **name;
	size_t names, name_cap;
	struct mr_map64 by_name, by_address;

	bool kernel_read;
	char *kernel_text;
	struct ksym *kernel;
	size_t kernels, kernel_cap;
};

/* ---- names ---- */

int mr_symbols_intern(struct mr_symbols *s, const char *name, uint32_t *out,
		      struct mr_err *err)
{
	uint64_t hash = XXH3_64bits(name, strlen(name));
	char *own;

	if (mr_map64_get(&s->by_name, hash, out))
		return 0;
	if (mr_grow(&s->name, &s->name_cap, s->names + 1, sizeof(*s->name),
		    NAMES, err))
		return MR_ENOMEM;
	own = mr_strdup(name, err);
	if (!own)
		return MR_ENOMEM;
	if (mr_map64_put(&s->by_name, hash, (uint32_t)s->names, err)) {
		free(own);
		return MR_ENOMEM;
	}
	*out = (uint32_t)s->names;
	s->name[s->names++] = own;
	return 0;
}

const char *mr_symbols_name(const struct mr_symbols *s, uint32_t function)
{
	return function < s->names ? s->name[function] : "[unknown]";
}

uint32_t mr_symbols_count(const struct mr_symbols *s)
{
	return (uint32_t)s->names;
}

/* ---- maps ---- */

static int module_of(struct mr_symbols *s, const char *path, uint64_t inode,
		     uint32_t *out, struct mr_err *err)
{
	uint64_t hash = XXH3_64bits_withSeed(path, strlen(path), inode);
	struct module *m;

	if (mr_map64_get(&s->by_path, hash, out))
		return 0;
	if (mr_grow(&s->module, &s->module_cap, s->modules + 1,
		    sizeof(*s->module), LINES, err))
		return MR_ENOMEM;
	m = &s->module[s->modules];
	*m = (struct module){ .path = mr_strdup(path, err), .inode = inode };
	if (!m->path)
		return MR_ENOMEM;
	*out = (uint32_t)s->modules++;
	return mr_map64_put(&s->by_path, hash, *out, err);
}

/* What a program makes while it runs has no file that says what it is. */
static bool has_file(const char *path)
{
	return *path == '/' && strncmp(path, "//anon", 6) != 0 &&
	       strncmp(path, "/memfd:", 7) != 0 &&
	       strncmp(path, "/dev/", 5) != 0;
}

static int add_line(struct mr_symbols *s, uint32_t pid, char *line,
		    struct mr_err *err)
{
	unsigned long long from, to, offset, inode;
	struct stretch m = { .pid = pid };
	char mode[8];
	unsigned parent;
	int path = 0;

	if (sscanf(line, "fork %u", &parent) == 1) {
		m.module = FORKED;
		m.offset = parent;
	} else if (sscanf(line, "%llx-%llx %7s %llx %*s %llu %n", &from, &to,
			  mode, &offset, &inode, &path) == 5 &&
		   path && strchr(mode, 'x') && from < to) {
		m.from = from;
		m.to = to;
		m.offset = offset;
		m.module = ANONYMOUS;
		if ((has_file(line + path) || line[path] == '[') &&
		    module_of(s, line + path, inode, &m.module, err))
			return MR_ENOMEM;
	} else {
		return 0;
	}
	if (s->maps == LINES)
		return 0;
	if (mr_grow(&s->map, &s->map_cap, s->maps + 1, sizeof(*s->map), LINES,
		    err))
		return MR_ENOMEM;
	m.before = NONE;
	mr_map64_get(&s->by_pid, pid, &m.before);
	s->map[s->maps] = m;
	return mr_map64_put(&s->by_pid, pid, (uint32_t)s->maps++, err);
}

int mr_symbols_maps(struct mr_symbols *s, const uint8_t *data, size_t size,
		    struct mr_err *err)
{
	char line[8192];
	uint32_t pid;

	if (size < 4)
		return 0;
	pid = mr_le32(data);
	for (size_t at = 4; at < size;) {
		const uint8_t *p = data + at, *end = memchr(p, '\n', size - at);
		size_t n = end ? (size_t)(end - p) : size - at;

		at += n + 1;
		if (n >= sizeof(line))
			continue;
		memcpy(line, p, n);
		line[n] = 0;
		if (add_line(s, pid, line, err))
			return MR_ENOMEM;
	}
	return 0;
}

/* Where an address lies: what was mapped last, also before a fork. */
static const struct stretch *locate(const struct mr_symbols *s, uint32_t pid,
				    uint64_t address)
{
	uint32_t i = NONE, forked = NONE;

	mr_map64_get(&s->by_pid, pid, &i);
	while (i != NONE) {
		const struct stretch *m = &s->map[i];

		if (i < forked && m->module != FORKED && address >= m->from &&
		    address < m->to)
			return m;
		if (i < forked && m->module == FORKED) {
			/* what the parent had until then */
			forked = i;
			i = NONE;
			mr_map64_get(&s->by_pid, m->offset, &i);
		} else {
			i = m->before;
		}
	}
	return NULL;
}

/* ---- the kernel ---- */

static int by_address(const void *a, const void *b)
{
	const struct ksym *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Lines "ffffffff81000000 T name [module]"; zeros when one may not see. */
static void read_kernel(struct mr_symbols *s)
{
	struct mr_err err;
	size_t size;

	s->kernel_read = true;
	if (!s->here || mr_file_read("/proc/kallsyms", KALLSYMS,
				     &s->kernel_text, &size, &err))
		return;
	for (char *p = s->kernel_text, *next; p && *p; p = next) {
		uint64_t at = strtoull(p, &p, 16);
		char *name;

		next = strchr(p, '\n');
		if (next)
			*next++ = 0;
		if (!at || strlen(p) < 4 || !strchr("tTwW", p[1]))
			continue;
		name = p + 3;
		name[strcspn(name, "\t ")] = 0;
		if (mr_grow(&s->kernel, &s->kernel_cap, s->kernels + 1,
			    sizeof(*s->kernel), NAMES, &err))
			break;
		s->kernel[s->kernels++] = (struct ksym){ at, name };
	}
	if (s->kernels)
		qsort(s->kernel, s->kernels, sizeof(*s->kernel), by_address);
}

static const char *kernel_name(struct mr_symbols *s, uint64_t address)
{
	size_t lo = 0, hi;

	if (!s->kernel_read)
		read_kernel(s);
	for (hi = s->kernels; lo < hi;) {
		size_t mid = (lo + hi) / 2;

		if (s->kernel[mid].at > address)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo ? s->kernel[lo - 1].name : NULL;
}

/* ---- looking up ---- */

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Is it still the file that ran? */
static bool same_file(const struct mr_symbols *s, const struct module *o)
{
	struct stat st;

	if (stat(o->path, &st) < 0)
		return true; /* a file that is not here: unknown, not changed */
	if (s->here && o->inode && st.st_ino != o->inode)
		return false;
	return (uint64_t)mr_file_changed(&st) <= s->recorded;
}

static void open_module(const struct mr_symbols *s, struct module *o)
{
	char *gone = strstr(o->path, " (deleted)");

	o->opened = true;
	if (!s->files)
		return;
	o->changed = gone || !same_file(s, o);
	if (gone)
		*gone = 0;
	if (!o->changed)
		o->elf = mr_elf_open(o->path);
}

/* The function of a mapped address; buf is for a name made up. */
static const char *name_of(struct mr_symbols *s, const struct stretch *m,
			   uint64_t address, char *buf, size_t cap)
{
	struct module *o;
	const char *found = NULL;

	if (m->module == ANONYMOUS)
		return "[anonymous code]";
	o = &s->module[m->module];
	if (*o->path == '[')
		return o->path;
	if (!o->opened)
		open_module(s, o);
	if (o->elf)
		found = mr_elf_function(o->elf, address - m->from + m->offset);
	if (found)
		return mr_demangle(&s->demangler, found, buf, cap);
	if (o->changed)
		snprintf(buf, cap, "[%.200s, changed since]",
			 file_name(o->path));
	else
		snprintf(buf, cap, "[%s in %.200s]", mr_elf_unknown(),
			 file_name(o->path));
	return buf;
}

int mr_symbols_find(struct mr_symbols *s, uint32_t pid, uint64_t address,
		    bool kernel, uint32_t *out, struct mr_err *err)
{
	uint64_t key =
		address + (kernel ? NONE : pid) * (uint64_t)0x9e3779b97f4a7c15;
	const struct stretch *m = NULL;
	const char *name;
	char buf[256];
	int e;

	if (mr_map64_get(&s->by_address, key, out))
		return 0;
	if (kernel) {
		name = kernel_name(s, address);
		if (name)
			snprintf(buf, sizeof(buf), "%.240s [k]", name);
		name = name ? buf : "[kernel]";
	} else {
		m = locate(s, pid, address);
		name = m ? name_of(s, m, address, buf, sizeof(buf)) : NULL;
	}
	*out = MR_NO_FUNCTION;
	e = name ? mr_symbols_intern(s, name, out, err) : 0;
	if (e)
		return e;
	return mr_map64_put(&s->by_address, key, *out, err);
}

/* ---- life ---- */

int mr_symbols_new(struct mr_symbols **out, const struct mr_mrt_header *of,
		   bool files, struct mr_err *err)
{
	struct mr_symbols *s = mr_alloc(1, sizeof(*s), err);
	struct mr_mrt_header now;

	*out = s;
	if (!s)
		return MR_ENOMEM;
	mr_mrt_now(&now);
	s->here = files && of->boot && now.boot == of->boot;
	s->recorded = of->realtime;
	s->files = files;
	return 0;
}

void mr_symbols_free(struct mr_symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->modules; i++) {
		mr_elf_close(s->module[i].elf);
		free(s->module[i].path);
	}
	for (size_t i = 0; i < s->names; i++)
		free(s->name[i]);
	free(s->module);
	free(s->map);
	free(s->name);
	free(s->kernel);
	free(s->kernel_text);
	mr_demangler_fini(&s->demangler);
	mr_map64_fini(&s->by_path);
	mr_map64_fini(&s->by_pid);
	mr_map64_fini(&s->by_name);
	mr_map64_fini(&s->by_address);
	free(s);
}
