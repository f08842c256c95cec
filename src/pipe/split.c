/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/split.h"

#include <stdio.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/json.h"
#include "core/param.h"
#include "io/input.h"
#include "source/origin.h"

enum { STAMPS = 1024, TABLES = 1024 };

/* ---- where ---- */

int mr_split_samples(const struct mr_pipeline *p)
{
	int n = 1;

	while (n < p->n && p->stage[n].op != &mr_op_batch)
		n++;
	return n;
}

static const char *stage_name(size_t i, const void *data)
{
	return ((const struct mr_pipeline *)data)->stage[i].name;
}

/* The stage that is meant, by name or number. */
static int find_stage(const struct mr_pipeline *p, const char *until,
		      struct mr_err *err)
{
	int n = mr_split_samples(p), found = -1;
	const char *near;
	char *end;
	long k = strtol(until, &end, 10);

	if (end != until && !*end) {
		if (k < 1 || k > mr_pipeline_number(p, n - 1))
			return mr_err_set(err, MR_EINVAL,
					  "--until %s: want a stage from 1, "
					  "the source, to %d",
					  until, mr_pipeline_number(p, n - 1));
		/* what was taken out is the stage before it */
		return mr_pipeline_stage(p, (int)k);
	}
	for (int i = 0; i < n; i++) {
		if (strcmp(p->stage[i].name, until))
			continue;
		if (found >= 0)
			return mr_err_set(err, MR_EINVAL,
					  "--until %s: there are several; give "
					  "its number, as explain prints it: "
					  "%d or %d",
					  until, mr_pipeline_number(p, found),
					  mr_pipeline_number(p, i));
		found = i;
	}
	if (found >= 0)
		return found;
	near = mr_nearest(until, (size_t)n, stage_name, p);
	return mr_err_set(err, MR_EINVAL,
			  "--until %s: no such step of samples in the "
			  "pipeline%s%s%s",
			  until, near ? "; did you mean '" : "",
			  near ? near : "", near ? "'?" : "");
}

static bool is_random(const struct mr_stage *s)
{
	return s->op && s->op->flags & MR_OP_RANDOM;
}

/* Stages before the first random one. */
static int steady_stages(const struct mr_pipeline *p)
{
	int n = mr_split_samples(p);

	for (int i = 1; i < n; i++)
		if (is_random(&p->stage[i]))
			return i;
	return n;
}

/* Bytes per element of all fields after a stage, where shapes are open; the
 * steps in question keep the number of elements. */
static size_t width(const struct mr_plan *plan, int stage)
{
	const struct mr_fields *fs = &plan->visible[stage];
	size_t n = 0;

	for (int i = 0; i < fs->n; i++) {
		struct mr_tensor t = mr_tensor_of(&fs->item[i].spec);

		n += mr_spec_fixed(&fs->item[i].spec) ?
			     mr_tensor_bytes(&t) :
			     mr_dtype_size(t.dtype) << 20;
	}
	return n;
}

/* The latest place in the run of elementwise steps before the split where
 * the least is stored. */
static int defer(const struct mr_plan *plan, int stages)
{
	const struct mr_pipeline *p = plan->pipeline;
	int best = stages;

	for (int i = stages - 1; i >= 1; i--) {
		const struct mr_op *op = p->stage[i].op;

		if (!op || !(op->flags & MR_OP_ELEMENTS))
			break;
		if (width(plan, i - 1) < width(plan, best - 1))
			best = i;
	}
	return best;
}

int mr_split_find(struct mr_split *s, const struct mr_plan *plan,
		  const char *until, bool literal, struct mr_err *err)
{
	const struct mr_pipeline *p = plan->pipeline;
	int steady = steady_stages(p), at = steady - 1;

	if (*until)
		at = find_stage(p, until, err);
	if (at < 0)
		return at;
	/* What a prepared set has left to be done belongs to it: a set of that
	 * set must not end before. */
	while (at + 1 < p->n && p->stage[at + 1].deferred)
		at++;
	if (at >= steady) {
		mr_err_set(err, MR_EINVAL,
			   "%s is random, new in each epoch: it cannot be done "
			   "once and stored; end before it: --until %d",
			   p->stage[steady].name,
			   mr_pipeline_number(p, steady - 1));
		return mr_pipeline_point(p, steady, err);
	}
	s->stages = at + 1;
	s->stored = literal ? s->stages : defer(plan, s->stages);
	return 0;
}

/* ---- what ---- */

int mr_split_text(const struct mr_pipeline *p, int from, int to, char **text,
		  struct mr_err *err)
{
	struct mr_str s = { 0 };

	for (int i = from; i < to; i++) {
		mr_str_add(&s, i > from ? " | " : "");
		mr_stage_text(&p->stage[i], &s);
	}
	*text = mr_str_take(&s);
	return *text ? 0 : mr_err_nomem(err, 0);
}

int mr_split_spell(const char *text, char **out, struct mr_err *err)
{
	struct mr_pipeline *p = NULL;
	int e = mr_pipeline_parse(&p, text, NULL, err);

	if (e)
		return e;
	mr_pipeline_uncache(p);
	e = mr_split_text(p, 0, mr_split_samples(p), out, err);
	mr_pipeline_free(p);
	return e;
}

/* Where the words of the stage at `at` end: before what separates it from the
 * next, and before a comment. */
static size_t words_end(const char *text, size_t at)
{
	size_t i = at;
	char quote = 0;

	for (; text[i] && (quote || !strchr("|\n", text[i])); i++) {
		if (quote)
			quote = text[i] == quote ? 0 : quote;
		else if (strchr("'\"", text[i]))
			quote = text[i];
		else if (text[i] == '#' && i > at &&
			 strchr(" \t\r", text[i - 1]))
			break;
	}
	while (i > at && strchr(" \t\r", text[i - 1]))
		i--;
	return i;
}

int mr_split_words(const struct mr_pipeline *p, int from, int to, char **text,
		   struct mr_err *err)
{
	struct mr_str s = { 0 };

	if (p->stage[from].deferred)
		return mr_split_text(p, from, to, text, err);
	for (int i = from; i < to; i++) {
		size_t at = p->stage[i].at;

		if (p->stage[i].deferred)
			continue; /* the set that it is read from has it */
		mr_str_add(&s, i > from ? " | " : "");
		mr_str_addn(&s, p->text + at, words_end(p->text, at) - at);
	}
	*text = mr_str_take(&s);
	return *text ? 0 : mr_err_nomem(err, 0);
}

static int copy_classes(const struct mr_plan *plan, struct mr_meta *m,
			struct mr_err *err)
{
	const struct mr_source *src = plan->source;
	size_t n = 0;

	while (src->class_name && src->class_name(plan->source_self, n))
		n++;
	if (!n)
		return 0;
	m->classes = mr_alloc(n, sizeof(*m->classes), err);
	if (!m->classes)
		return MR_ENOMEM;
	for (m->class_count = 0; m->class_count < n; m->class_count++) {
		m->classes[m->class_count] = mr_strdup(
			src->class_name(plan->source_self, m->class_count),
			err);
		if (!m->classes[m->class_count])
			return MR_ENOMEM;
	}
	return 0;
}

/* The path as it is found from anywhere. */
static char *absolute(const char *path, struct mr_err *err)
{
	char *s = realpath(path, NULL);

	return s ? s : mr_strdup(path, err);
}

static int add_stamp(struct mr_meta *m, const char *path, struct mr_err *err)
{
	struct mr_stamp *s = &m->stamp[m->stamps];
	struct stat st;

	if (m->stamps && !strcmp(s[-1].path, path))
		return 0;
	if (!mr_json_can(path))
		return 0; /* would be read back as another path */
	if (stat(path, &st))
		return 0; /* gone already, or a name that is none */
	s->path = mr_strdup(path, err);
	if (!s->path)
		return MR_ENOMEM;
	s->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	s->changed = mr_file_changed(&st);
	m->stamps++;
	return 0;
}

/* A file on a server: its size, and what the server calls its state. */
static int stamp_remote(struct mr_meta *m, const struct mr_input *in,
			struct mr_err *err)
{
	struct mr_stamp *s = &m->stamp[m->stamps];
	const char *path = mr_input_path(in);

	if ((m->stamps && !strcmp(s[-1].path, path)) || !mr_json_can(path))
		return 0;
	s->path = mr_strdup(path, err);
	if (!s->path)
		return MR_ENOMEM;
	s->size = mr_input_size(in);
	s->changed = (int64_t)mr_input_state(in);
	m->stamps++;
	return 0;
}

/* The files that a pattern finds, which may come to be others: sources call
 * the parameter `glob`. */
static int stamp_pattern(const struct mr_pipeline *p, struct mr_meta *m,
			 struct mr_err *err)
{
	const struct mr_stage *s = &p->stage[0];
	const struct mr_param *q = mr_param_find(s->source->params, "glob");
	const char *text;
	int e;

	if (!q || q->type != MR_P_TEXT)
		return 0;
	text = *(const char *const *)(const void *)((const char *)s->self +
						    q->offset);
	e = mr_origin_pattern(&m->stamp[m->stamps], text, err);
	if (e == MR_AGAIN)
		return 0;
	m->stamps += !e;
	return e;
}

/* A sample's file, and the folder it lies in, which changes when files come
 * and go. */
static int stamp_file(struct mr_meta *m, const char *file, bool folder,
		      struct mr_err *err)
{
	char *path = absolute(file, err), *slash;
	int e = path ? add_stamp(m, path, err) : MR_ENOMEM;

	slash = path && folder ? strrchr(path, '/') : NULL;
	if (!e && slash && slash > path) {
		*slash = 0;
		e = add_stamp(m, path, err);
	}
	free(path);
	return e;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct mr_stamp *)a)->path,
		      ((const struct mr_stamp *)b)->path);
}

static void sort_stamps(struct mr_meta *m)
{
	size_t n = 0;

	qsort(m->stamp, m->stamps, sizeof(*m->stamp), by_path);
	for (size_t i = 0; i < m->stamps; i++) {
		if (n && !strcmp(m->stamp[n - 1].path, m->stamp[i].path))
			free(m->stamp[i].path);
		else
			m->stamp[n++] = m->stamp[i];
	}
	m->stamps = n;
}

/* Of large sets, the files of samples that are spread evenly. */
static int stamp_source(const struct mr_plan *plan, struct mr_meta *m,
			struct mr_err *err)
{
	const struct mr_source *src = plan->source;
	uint64_t n = plan->samples < STAMPS ? plan->samples : STAMPS;
	char buf[4096];
	int e = 0;

	/* of each sample its file and folder; what file() names; a pattern */
	m->stamp = mr_alloc(3 * STAMPS + 1, sizeof(*m->stamp), err);
	if (!m->stamp)
		return MR_ENOMEM;
	for (uint64_t i = 0; src->locate && i < n && !e; i++) {
		uint64_t at = plan->samples / n * i + plan->samples % n * i / n;
		struct mr_extent x = { 0 };
		struct mr_err ignored;

		if (!src->locate(plan->source_self, at, buf, sizeof(buf), &x,
				 &ignored))
			e = x.input ? stamp_remote(m, x.input, err) :
				      stamp_file(m, x.path, x.fd < 0, err);
	}
	for (size_t i = 0; src->file && i < STAMPS && !e; i++) {
		const char *path = src->file(plan->source_self, i);

		if (!path)
			break;
		e = stamp_file(m, path, false, err);
	}
	if (!e)
		e = stamp_pattern(plan->pipeline, m, err);
	sort_stamps(m);
	return e;
}

static int add_table(struct mr_meta *m, size_t *cap, const char *path,
		     struct mr_err *err)
{
	struct mr_table t = { .path = absolute(path, err) };
	int e = t.path ? mr_table_read(&t, err) : MR_ENOMEM;

	if (!e)
		e = mr_grow(&m->table, cap, m->tables + 1, sizeof(*m->table),
			    TABLES, err);
	if (e)
		free(t.path);
	else
		m->table[m->tables++] = t;
	return e;
}

/* The files that the steps read: their contents are part of what the set is. */
static int read_tables(const struct mr_split *s, const struct mr_pipeline *p,
		       struct mr_meta *m, struct mr_err *err)
{
	size_t cap = 0;
	int e = 0;

	for (int i = 1; i < s->stages; i++) {
		const struct mr_stage *st = &p->stage[i];
		const char *path;

		for (size_t k = 0; st->op->file && !e; k++) {
			path = st->op->file(st->self, k);
			if (!path)
				break;
			e = add_table(m, &cap, path, err);
		}
	}
	return e;
}

int mr_split_describe(const struct mr_split *s, const struct mr_plan *plan,
		      struct mr_meta *m, struct mr_err *err)
{
	const struct mr_pipeline *p = plan->pipeline;
	int e = mr_split_text(p, 0, s->stages, &m->pipeline, err);

	m->stages = s->stages + plan->base;
	m->samples = plan->samples;
	m->record.fields = plan->visible[s->stored - 1];
	if (!e && s->stored < s->stages)
		e = mr_split_text(p, s->stored, s->stages, &m->deferred, err);
	if (!e)
		e = copy_classes(plan, m, err);
	if (!e)
		e = stamp_source(plan, m, err);
	if (!e)
		e = read_tables(s, p, m, err);
	return e;
}
