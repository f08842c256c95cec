/* SPDX-License-Identifier: Apache-2.0 */
/* list: files named in a table, path and label, by tabs or commas. */
#include <stdio.h>
#include <strings.h>

#include "core/hash.h"
#include "source/paths.h"

struct list {
	const char *file, *root;
	char *base; /* where relative paths begin */
	struct mr_names paths, classes;
	int64_t *label; /* of each path; NULL when the table has none */
};

static const struct mr_param params[] = {
	MR_TEXT(struct list, file, NULL,
		"table of path and label, separated by tabs or commas"),
	MR_TEXT(struct list, root, "",
		"where relative paths begin; empty: the table's folder"),
	MR_PARAM_END
};

/* A line holds a path, which has 4 KB at most, and a label. */
enum { LINE_MAX_BYTES = 1 << 16 };

/* What is known while the table is read. */
struct table {
	const char *path;
	FILE *in;
	uint64_t line;
	char sep; /* 0: not known yet */
	int columns;
	/* Distinct labels, in the order of appearance, and a hash table of
	 * their numbers plus one. */
	struct mr_names texts;
	uint32_t *slot;
	size_t slots;
	size_t label_cap;
	bool words;	     /* a label is no integer */
	uint64_t large_line; /* with an integer that is too large, or 0 */
	char text[LINE_MAX_BYTES];
};

struct cell {
	char *s;
	size_t n;
};

static int wrong(const struct table *t, struct mr_err *err, const char *what)
{
	return mr_err_set(err, MR_EDATA, "%s:%llu: %s", t->path,
			  (unsigned long long)t->line, what);
}

/* ---- lines and cells ---- */

/* The next line without its end; *last is set when there is none. */
static int read_line(struct table *t, bool *last, struct mr_err *err)
{
	size_t len = 0;
	int c;

	t->line++;
	while ((c = getc_unlocked(t->in)) != EOF && c != '\n') {
		if (!c)
			return wrong(t, err,
				     "a zero byte: this is not a text file");
		if (len == LINE_MAX_BYTES - 1)
			return wrong(t, err,
				     "the line is longer than 64 KB: this is "
				     "not a list of paths");
		t->text[len++] = (char)c;
	}
	if (c == EOF && ferror(t->in))
		return mr_err_sys(err, errno, t->path, "cannot read");
	*last = c == EOF && !len;
	if (len && t->text[len - 1] == '\r')
		len--;
	t->text[len] = 0;
	return 0;
}

static bool skippable(const struct table *t)
{
	return t->text[0] == '#' || !t->text[strspn(t->text, " \t")];
}

/* The cell at *s, which moves on to the next one, or to NULL. Quotes are
 * taken off in place. */
static int next_cell(const struct table *t, char **s, struct cell *c,
		     struct mr_err *err)
{
	char *p = *s, *to = *s;

	c->s = to;
	if (t->sep == ',' && *p == '"') {
		for (p++; *p && (*p != '"' || p[1] == '"'); p++) {
			p += *p == '"';
			*to++ = *p;
		}
		if (*p != '"')
			return wrong(t, err, "a quote is not closed");
		p++;
		if (*p && *p != ',')
			return wrong(t, err,
				     "text after a quoted cell; write a quote "
				     "inside a cell twice");
	} else {
		p += strcspn(p, t->sep == ',' ? "," : "\t");
		to = p;
	}
	*s = *p ? p + 1 : NULL;
	c->n = (size_t)(to - c->s);
	return 0;
}

static int split(const struct table *t, struct cell cell[2], int *n,
		 struct mr_err *err)
{
	char *s = (char *)(uintptr_t)t->text;

	for (*n = 0; s; ++*n) {
		int e;

		if (*n == 2)
			return wrong(t, err,
				     "more than two columns; the table has "
				     "path and label, and a path with a comma "
				     "stands in quotes");
		e = next_cell(t, &s, &cell[*n], err);
		if (e)
			return e;
	}
	return 0;
}

static struct cell trimmed(struct cell c)
{
	while (c.n && (c.s[0] == ' ' || c.s[0] == '\t')) {
		c.s++;
		c.n--;
	}
	while (c.n && (c.s[c.n - 1] == ' ' || c.s[c.n - 1] == '\t'))
		c.n--;
	return c;
}

static bool is_header(struct cell c)
{
	static const char *const words[] = { "path", "file", "filename" };

	for (size_t i = 0; i < MR_COUNT(words); i++)
		if (c.n == strlen(words[i]) && !strncasecmp(c.s, words[i], c.n))
			return true;
	return false;
}

/* ---- labels: first as texts, since "7" and "07" are one number but two
 * names, and which they are shows only at the end ---- */

static bool looks_integer(const char *s)
{
	s += *s == '-' || *s == '+';
	return *s && !s[strspn(s, "0123456789")];
}

static void note_kind(struct table *t, const char *text)
{
	if (!looks_integer(text)) {
		t->words = true;
		return;
	}
	errno = 0;
	(void)strtoll(text, NULL, 10);
	if (errno && !t->large_line)
		t->large_line = t->line;
}

static uint32_t *find_slot(const struct table *t, const char *s, size_t n)
{
	size_t mask = t->slots - 1, i = XXH3_64bits(s, n) & mask;

	for (;; i = (i + 1) & mask) {
		const char *have;

		if (!t->slot[i])
			return &t->slot[i];
		have = mr_names_get(&t->texts, t->slot[i] - 1);
		if (!strncmp(have, s, n) && !have[n])
			return &t->slot[i];
	}
}

static int more_slots(struct table *t, struct mr_err *err)
{
	size_t n = t->slots ? t->slots * 2 : 1024;
	uint32_t *slot = mr_alloc(n, sizeof(*slot), err);

	if (!slot)
		return MR_ENOMEM;
	free(t->slot);
	t->slot = slot;
	t->slots = n;
	for (size_t i = 0; i < t->texts.n; i++) {
		const char *s = mr_names_get(&t->texts, i);

		*find_slot(t, s, strlen(s)) = (uint32_t)i + 1;
	}
	return 0;
}

static int label_number(struct table *t, struct cell c, int64_t *out,
			struct mr_err *err)
{
	uint32_t *slot;
	int e;

	if (t->texts.n == UINT32_MAX - 1)
		return wrong(t, err, "more than 4 billion different labels");
	if (t->texts.n * 2 >= t->slots) {
		e = more_slots(t, err);
		if (e)
			return e;
	}
	slot = find_slot(t, c.s, c.n);
	if (!*slot) {
		e = mr_names_add(&t->texts, c.s, c.n, err);
		if (e)
			return e;
		*slot = (uint32_t)t->texts.n;
		note_kind(t, mr_names_get(&t->texts, t->texts.n - 1));
	}
	*out = *slot - 1;
	return 0;
}

/* ---- rows ---- */

static int add_row(struct list *l, struct table *t, const struct cell cell[2],
		   int columns, struct mr_err *err)
{
	size_t n = l->paths.n;
	int e;

	if (!cell[0].n)
		return wrong(t, err, "no path");
	if (t->columns && t->columns != columns)
		return wrong(t, err,
			     columns == 1 ? "no label, but lines before have "
					    "one" :
					    "a label, but lines before have "
					    "none");
	t->columns = columns;
	if (columns == 2) {
		struct cell c = trimmed(cell[1]);

		if (!c.n)
			return wrong(t, err, "the label is empty");
		e = mr_grow(&l->label, &t->label_cap, n + 1, sizeof(*l->label),
			    SIZE_MAX / 16, err);
		if (!e)
			e = label_number(t, c, &l->label[n], err);
		if (e)
			return e;
	}
	return mr_names_add(&l->paths, cell[0].s, cell[0].n, err);
}

/* A spreadsheet's byte order mark is no part of the first path. */
static void drop_mark(struct table *t)
{
	if (!strncmp(t->text, "\xef\xbb\xbf", 3))
		memmove(t->text, t->text + 3, strlen(t->text + 3) + 1);
}

static int read_rows(struct list *l, struct table *t, struct mr_err *err)
{
	struct cell cell[2];
	bool last = false;
	int columns, e;

	for (;;) {
		e = read_line(t, &last, err);
		if (e || last)
			return e;
		if (t->line == 1)
			drop_mark(t);
		if (skippable(t))
			continue;
		if (!t->sep) {
			t->sep = strchr(t->text, '\t') ? '\t' : ',';
			e = split(t, cell, &columns, err);
			if (!e && is_header(cell[0]))
				continue;
		} else {
			e = split(t, cell, &columns, err);
		}
		if (!e)
			e = add_row(l, t, cell, columns, err);
		if (e)
			return e;
	}
}

/* ---- labels in the end: numbers as they are, or names in order ---- */

static int by_name(const void *a, const void *b, void *texts)
{
	const struct mr_names *t = texts;

	return strcmp(mr_names_get(t, *(const uint32_t *)a),
		      mr_names_get(t, *(const uint32_t *)b));
}

static int number_classes(struct list *l, struct table *t, int64_t *value,
			  struct mr_err *err)
{
	size_t n = t->texts.n;
	uint32_t *order = mr_alloc(n, sizeof(*order), err);
	int e = 0;

	if (!order)
		return MR_ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, n, sizeof(*order), by_name, &t->texts);
	for (size_t i = 0; !e && i < n; i++) {
		const char *s = mr_names_get(&t->texts, order[i]);

		value[order[i]] = (int64_t)i;
		e = mr_names_add(&l->classes, s, strlen(s), err);
	}
	free(order);
	mr_names_trim(&l->classes);
	return e;
}

static int settle_labels(struct list *l, struct table *t, struct mr_err *err)
{
	int64_t *value, *trim;
	int e = 0;

	if (!l->label)
		return 0;
	if (!t->words && t->large_line) {
		t->line = t->large_line;
		return wrong(t, err, "the label does not fit in 64 bits");
	}
	value = mr_alloc(t->texts.n, sizeof(*value), err);
	if (!value)
		return MR_ENOMEM;
	if (t->words)
		e = number_classes(l, t, value, err);
	else
		for (size_t i = 0; i < t->texts.n; i++)
			value[i] =
				strtoll(mr_names_get(&t->texts, i), NULL, 10);
	for (size_t i = 0; !e && i < l->paths.n; i++)
		l->label[i] = value[l->label[i]];
	free(value);
	trim = realloc(l->label, l->paths.n * sizeof(*trim));
	if (trim)
		l->label = trim;
	return e;
}

/* ---- the source ---- */

static int read_table(struct list *l, const char *path, struct mr_err *err)
{
	struct table *t = mr_alloc(1, sizeof(*t), err);
	int e;

	if (!t)
		return MR_ENOMEM;
	t->path = path;
	t->in = fopen(path, "re");
	if (!t->in) {
		e = mr_err_sys(err, errno, path, "cannot open the list");
		goto out;
	}
	e = read_rows(l, t, err);
	fclose(t->in);
	if (!e && !l->paths.n)
		e = mr_err_set(err, MR_EDATA,
			       "%s: the data set is empty: the list names no "
			       "files; want lines of path and label",
			       path);
	if (!e)
		e = settle_labels(l, t, err);
	mr_names_trim(&l->paths);
out:
	mr_names_fini(&t->texts);
	free(t->slot);
	free(t);
	return e;
}

/* Turns the table's path into its folder, "." when it has none. */
static char *folder_of(const char *path, struct mr_err *err)
{
	const char *slash = strrchr(path, '/');
	char *s = mr_strdup(slash ? path : ".", err);

	if (s && slash)
		s[slash == path ? 1 : slash - path] = 0;
	return s;
}

static int open_list(void *self, const struct mr_source_env *env,
		     struct mr_err *err)
{
	struct list *l = self;
	char *path = mr_path_resolve(env->cwd, l->file, err);
	int e = MR_ENOMEM;

	if (!path)
		return MR_ENOMEM;
	l->base = *l->root ? mr_path_resolve(env->cwd, l->root, err) :
			     folder_of(path, err);
	if (l->base)
		e = read_table(l, path, err);
	free(path);
	return e;
}

static void close_list(void *self)
{
	struct list *l = self;

	mr_names_fini(&l->paths);
	mr_names_fini(&l->classes);
	free(l->label);
	free(l->base);
	l->label = NULL;
	l->base = NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct list *)self)->paths.n;
}

static void fields(const void *self, struct mr_fields *out)
{
	(void)self;
	mr_path_fields(out);
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct list *l = self;

	mr_path_extent(e, buf);
	return mr_path_join(buf, cap, l->base, "",
			    mr_names_get(&l->paths, index), err);
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct list *l = ld->self;

	return mr_path_unpack(ld, l->label ? l->label[ld->index] : 0, bytes,
			      length, f);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct list *l = self;

	return (size_t)snprintf(buf, cap, "%s", mr_names_get(&l->paths, index));
}

static const char *class_name(const void *self, uint64_t label)
{
	const struct list *l = self;

	return label < l->classes.n ? mr_names_get(&l->classes, label) : NULL;
}

static uint64_t fingerprint(const void *self)
{
	const struct list *l = self;
	uint64_t h = XXH3_64bits(l->paths.pool, l->paths.used);

	if (l->label)
		h = XXH3_64bits_withSeed(l->label,
					 l->paths.n * sizeof(*l->label), h);
	return h;
}

const struct mr_source mr_source_list = {
	.name = "list",
	.help = "files named in a table, with their labels",
	.flags = MR_SOURCE_RAW,
	.size = sizeof(struct list),
	.params = params,
	.open = open_list,
	.close = close_list,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.class_name = class_name,
	.fingerprint = fingerprint,
};
