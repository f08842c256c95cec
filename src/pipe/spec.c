/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/spec.h"

#include <dlfcn.h>
#include <stdio.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/param.h"

enum { TEXT_MAX = 1 << 20, TOKEN_MAX = 4096, COLUMNS = 100 };

struct parser {
	struct mr_pipeline *p;
	const char *s; /* where we are */
	struct mr_err *err;
};

/* A word of the text, quotes removed. */
struct token {
	char text[TOKEN_MAX];
	size_t at, len; /* its place in the pipeline's text */
	size_t key;	/* length of KEY in KEY=VALUE, 0: no key */
};

/* ---- messages that show the place ---- */

/* Letters, not bytes, of UTF-8. */
static int columns(const char *s, size_t n)
{
	int c = 0;

	for (size_t i = 0; i < n; i++)
		c += ((unsigned char)s[i] & 0xc0) != 0x80;
	return c;
}

static void point(const char *text, size_t at, size_t len, struct mr_err *err)
{
	size_t from = at, to = at, used = strlen(err->text);
	size_t line = 1;
	char *out = err->text + used;
	size_t cap = sizeof(err->text) - used;
	char mark[COLUMNS + 1];

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	while (from > 0 && text[from - 1] != '\n')
		from--;
	while (text[to] && text[to] != '\n')
		to++;
	/* A long line is cut to a window around the place. */
	if (at - from > COLUMNS * 2 / 3)
		from = at - COLUMNS * 2 / 3;
	if (to - from > COLUMNS)
		to = from + COLUMNS;
	if (len < 1)
		len = 1;
	if (at + len > to)
		len = to > at ? to - at : 1;
	/* Not into the middle of a letter. */
	while (from < at && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	memset(mark, '~', sizeof(mark));
	mark[0] = '^';
	if (strchr(text, '\n'))
		snprintf(out, cap, "\nline %zu:\n  %.*s\n  %*s%.*s", line,
			 (int)(to - from), text + from,
			 columns(text + from, at - from), "",
			 columns(text + at, len), mark);
	else
		snprintf(out, cap, "\n  %.*s\n  %*s%.*s", (int)(to - from),
			 text + from, columns(text + from, at - from), "",
			 columns(text + at, len), mark);
	/* The caret must stand under its letter whatever white space is. */
	for (char *c = out; *c; c++)
		if (*c == '\t')
			*c = ' ';
}

static int fail_at(struct parser *ps, size_t at, size_t len)
{
	point(ps->p->text, at, len, ps->err);
	return ps->err->code;
}

int mr_pipeline_point(const struct mr_pipeline *p, int i, struct mr_err *err)
{
	if (err && i < p->n)
		point(p->text, p->stage[i].at, p->stage[i].len, err);
	return err ? err->code : MR_EPARSE;
}

/* ---- names ---- */

struct names {
	const struct mr_pipeline *p;
	bool sources;
};

static const struct mr_plugin *plugin_of(void *handle)
{
	return dlsym(handle, "mr_plugin");
}

/* The i-th step or source by name, built in first, or NULL. */
static const char *name_at(size_t i, const void *data)
{
	const struct names *n = data;
	size_t k = 0;

	for (; n->sources ? !!mr_sources[k] : !!mr_ops[k]; k++)
		if (k == i)
			return n->sources ? mr_sources[k]->name :
					    mr_ops[k]->name;
	i -= k;
	for (int h = 0; h < n->p->plugins; h++) {
		const struct mr_plugin *pl = plugin_of(n->p->plugin[h]);

		for (k = 0; n->sources ? pl->sources && pl->sources[k] :
					 pl->ops && pl->ops[k];
		     k++)
			if (k == i)
				return n->sources ? pl->sources[k]->name :
						    pl->ops[k]->name;
		i -= k;
	}
	return NULL;
}

static size_t name_count(const struct names *n)
{
	size_t i = 0;

	while (name_at(i, n))
		i++;
	return i;
}

static const struct mr_op *find_op(const struct mr_pipeline *p,
				   const char *name)
{
	for (size_t i = 0; mr_ops[i]; i++)
		if (!strcmp(mr_ops[i]->name, name))
			return mr_ops[i];
	for (int h = 0; h < p->plugins; h++) {
		const struct mr_op *const *ops = plugin_of(p->plugin[h])->ops;

		for (size_t i = 0; ops && ops[i]; i++)
			if (!strcmp(ops[i]->name, name))
				return ops[i];
	}
	return NULL;
}

static const struct mr_source *find_source(const struct mr_pipeline *p,
					   const char *name)
{
	for (size_t i = 0; mr_sources[i]; i++)
		if (!strcmp(mr_sources[i]->name, name))
			return mr_sources[i];
	for (int h = 0; h < p->plugins; h++) {
		const struct mr_source *const *s =
			plugin_of(p->plugin[h])->sources;

		for (size_t i = 0; s && s[i]; i++)
			if (!strcmp(s[i]->name, name))
				return s[i];
	}
	return NULL;
}

/* ---- words ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct parser *ps)
{
	while (is_blank(*ps->s))
		ps->s++;
	if (*ps->s == '#')
		while (*ps->s && *ps->s != '\n')
			ps->s++;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

/* Reads one word; quotes may stand anywhere in it. */
static int read_token(struct parser *ps, struct token *t)
{
	size_t n = 0;
	char quote = 0;
	bool name = true;
	const char *start = ps->s;

	t->at = (size_t)(start - ps->p->text);
	t->key = 0;
	for (; *ps->s; ps->s++) {
		char c = *ps->s;

		if (!quote && (c == '"' || c == '\'')) {
			quote = c;
			name = false;
			continue;
		}
		if (quote && c == quote) {
			quote = 0;
			continue;
		}
		if (!quote && (is_blank(c) || c == '|' || c == '\n'))
			break;
		if (n + 1 == TOKEN_MAX) {
			mr_err_set(ps->err, MR_EPARSE,
				   "a word longer than %d characters",
				   TOKEN_MAX - 1);
			return fail_at(ps, t->at, 1);
		}
		if (!quote && c == '=' && name && n && !t->key)
			t->key = n;
		name = name && is_name(c);
		t->text[n++] = c;
	}
	t->text[n] = 0;
	t->len = (size_t)(ps->s - start);
	if (quote) {
		mr_err_set(ps->err, MR_EPARSE, "a quote %c that is not closed",
			   quote);
		return fail_at(ps, t->at, t->len);
	}
	return 0;
}

/* ---- stages ---- */

/* What this build lacks for a source, or NULL. */
static const char *needs(const char *name)
{
	for (size_t i = 0; mr_missing_sources[i].name; i++)
		if (!strcmp(mr_missing_sources[i].name, name))
			return mr_missing_sources[i].needs;
	return NULL;
}

static int unknown_stage(struct parser *ps, const struct token *t, bool source)
{
	struct names names = { ps->p, source };
	const char *kind = source ? "source" : "step";
	const char *near;

	if (source && find_op(ps->p, t->text))
		mr_err_set(ps->err, MR_EPARSE,
			   "'%s' is a step; a pipeline begins with a source, "
			   "such as 'files DIR'",
			   t->text);
	else if (!source && find_source(ps->p, t->text))
		mr_err_set(ps->err, MR_EPARSE,
			   "'%s' is a source; it can only come first", t->text);
	else if (needs(t->text))
		mr_err_set(ps->err, MR_EPARSE, "'%s' is not in this build: %s",
			   t->text, needs(t->text));
	else if ((near = mr_nearest(t->text, name_count(&names), name_at,
				    &names)))
		mr_err_set(ps->err, MR_EPARSE,
			   "unknown %s '%s'; did you mean '%s'?", kind, t->text,
			   near);
	else
		mr_err_set(
			ps->err, MR_EPARSE,
			"unknown %s '%s'; `millrace list %ss` shows them all",
			kind, t->text, kind);
	return fail_at(ps, t->at, t->len);
}

static const struct mr_param *stage_params(const struct mr_stage *s)
{
	return s->source ? s->source->params : s->op->params;
}

static int begin_stage(struct parser *ps, const struct token *t,
		       struct mr_stage **out)
{
	struct mr_pipeline *p = ps->p;
	struct mr_stage *s = &p->stage[p->n];
	size_t size;

	if (p->n == MR_MAX_STEPS) {
		mr_err_set(ps->err, MR_EPARSE, "more than %d steps",
			   MR_MAX_STEPS);
		return fail_at(ps, t->at, t->len);
	}
	*s = (struct mr_stage){ .at = t->at, .len = t->len };
	if (p->n == 0)
		s->source = find_source(p, t->text);
	else
		s->op = find_op(p, t->text);
	if (!s->source && !s->op)
		return unknown_stage(ps, t, p->n == 0);
	s->name = s->source ? s->source->name : s->op->name;
	size = s->source ? s->source->size : s->op->size;
	s->self = mr_arena_take(&p->arena, size);
	if (!s->self)
		return mr_err_nomem(ps->err, size);
	memset(s->self, 0, size);
	mr_param_defaults(stage_params(s), s->self);
	p->n++;
	*out = s;
	return 0;
}

static int unknown_param(struct parser *ps, const struct mr_stage *s,
			 const struct token *t, const char *name)
{
	const char *near = mr_param_nearest(stage_params(s), name);

	if (near)
		mr_err_set(ps->err, MR_EPARSE,
			   "%s has no parameter '%s'; did you mean '%s'?",
			   s->name, name, near);
	else
		mr_err_set(ps->err, MR_EPARSE,
			   "%s has no parameter '%s'; `millrace list %s` shows "
			   "its parameters",
			   s->name, name, s->name);
	return fail_at(ps, t->at, t->len);
}

/* One value of a stage; `given` marks the parameters that have theirs. */
static int set_value(struct parser *ps, struct mr_stage *s,
		     const struct token *t, uint64_t *given)
{
	const struct mr_param *params = stage_params(s), *q;
	size_t n = mr_param_count(params), i = 0;
	const char *value = t->text + (t->key ? t->key + 1 : 0);
	char name[TOKEN_MAX];

	if (t->key) {
		memcpy(name, t->text, t->key);
		name[t->key] = 0;
		if (!s->source && s->op->infer && !strcmp(name, "field")) {
			if (s->field) {
				mr_err_set(ps->err, MR_EPARSE,
					   "%s: 'field' is given twice",
					   s->name);
				return fail_at(ps, t->at, t->len);
			}
			s->field = mr_arena_text(&ps->p->arena, value,
						 strlen(value));
			return s->field ? 0 : mr_err_nomem(ps->err, t->len);
		}
		q = mr_param_find(params, name);
		if (!q)
			return unknown_param(ps, s, t, name);
		i = (size_t)(q - params);
	} else {
		while (i < n && (*given & 1ull << i))
			i++;
		if (i == n) {
			mr_err_set(ps->err, MR_EPARSE,
				   "%s takes no more values", s->name);
			return fail_at(ps, t->at, t->len);
		}
	}
	if (*given & 1ull << i) {
		mr_err_set(ps->err, MR_EPARSE, "%s: '%s' is given twice",
			   s->name, params[i].name);
		return fail_at(ps, t->at, t->len);
	}
	*given |= 1ull << i;
	if (mr_param_set(&params[i], s->self, value, &ps->p->arena, ps->err)) {
		mr_err_prefix(ps->err, "%s: ", s->name);
		return fail_at(ps, t->at, t->len);
	}
	return 0;
}

static int check_required(struct parser *ps, const struct mr_stage *s,
			  uint64_t given)
{
	const struct mr_param *params = stage_params(s);
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++) {
		if (params[i].def || (given & 1ull << i))
			continue;
		mr_err_set(ps->err, MR_EPARSE, "%s needs '%s': %s", s->name,
			   params[i].name, params[i].help);
		return fail_at(ps, s->at, s->len);
	}
	return 0;
}

static int parse_stage(struct parser *ps, struct token *t)
{
	struct mr_stage *s = NULL;
	uint64_t given = 0;
	int e;

	for (;;) {
		skip_blanks(ps);
		if (!*ps->s || *ps->s == '|' || *ps->s == '\n')
			break;
		e = read_token(ps, t);
		if (!e)
			e = s ? set_value(ps, s, t, &given) :
				begin_stage(ps, t, &s);
		if (e)
			return e;
	}
	return check_required(ps, s, given);
}

/* Stages are separated by newlines and at most one bar. */
static int parse_text(struct parser *ps)
{
	struct token *t = mr_alloc(1, sizeof(*t), ps->err);
	bool bar = false;
	int e = t ? 0 : MR_ENOMEM;

	while (!e) {
		skip_blanks(ps);
		if (!*ps->s)
			break;
		if (*ps->s == '\n') {
			ps->s++;
		} else if (*ps->s == '|') {
			if (bar || ps->p->n == 0) {
				mr_err_set(ps->err, MR_EPARSE,
					   "a step is missing before this bar");
				e = fail_at(ps, (size_t)(ps->s - ps->p->text),
					    1);
			}
			bar = true;
			ps->s++;
		} else {
			bar = false;
			e = parse_stage(ps, t);
		}
	}
	free(t);
	if (e)
		return e;
	if (bar || ps->p->n == 0) {
		size_t end = strlen(ps->p->text);

		mr_err_set(ps->err, MR_EPARSE,
			   bar ? "a step is missing after the last bar" :
				 "an empty pipeline; it begins with a source, "
				 "such as 'files DIR'");
		return fail_at(ps, end ? end - 1 : 0, 1);
	}
	return 0;
}

/* ---- plugins ---- */

static int load_plugin(struct mr_pipeline *p, const char *path,
		       struct mr_err *err)
{
	const struct mr_plugin *pl;
	void *h;

	if ((size_t)p->plugins == MR_COUNT(p->plugin))
		return mr_err_set(err, MR_ELIMIT, "more than %zu plugins",
				  MR_COUNT(p->plugin));
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		return mr_err_set(err, MR_EINVAL, "plugin %s: %s", path,
				  dlerror());
	pl = plugin_of(h);
	if (!pl || pl->abi != MR_PLUGIN_ABI) {
		if (pl)
			mr_err_set(err, MR_EINVAL,
				   "plugin %s: made for ABI %d, this is %d; "
				   "build it again",
				   path, pl->abi, MR_PLUGIN_ABI);
		else
			mr_err_set(err, MR_EINVAL,
				   "plugin %s: no symbol 'mr_plugin' in it",
				   path);
		dlclose(h);
		return MR_EINVAL;
	}
	p->plugin[p->plugins++] = h;
	return 0;
}

static int load_plugins(struct mr_pipeline *p, const char *list,
			struct mr_err *err)
{
	while (list && *list) {
		size_t n = strcspn(list, ",");
		char path[TOKEN_MAX];
		int e;

		if (n >= sizeof(path))
			return mr_err_set(err, MR_EINVAL,
					  "plugin: path too long");
		/* dlopen() searches the library path unless there is a / */
		snprintf(path, sizeof(path), "%s%.*s",
			 memchr(list, '/', n) ? "" : "./", (int)n, list);
		e = load_plugin(p, path, err);
		if (e)
			return e;
		list += n + (list[n] == ',');
	}
	return 0;
}

/* ---- where samples are kept ---- */

static bool keeps(const struct mr_stage *s)
{
	return s->op == &mr_op_cache || s->op == &mr_op_stored;
}

/* `cache` and `stored` stand once each, where each epoch has the same samples,
 * and a cache keeps what a set gave. */
static int check_keeping(const struct mr_pipeline *p, struct mr_err *err)
{
	int cache = 0, stored = 0, random = 0, batch = 0;

	for (int i = 1; i < p->n; i++) {
		const struct mr_stage *s = &p->stage[i];
		int *mine = s->op == &mr_op_cache ? &cache : &stored;

		if (s->op->flags & MR_OP_RANDOM && !random)
			random = i;
		if (s->op == &mr_op_batch)
			batch = i;
		if (!keeps(s))
			continue;
		if (*mine)
			mr_err_set(err, MR_EPARSE,
				   "a second %s; a pipeline has one at most",
				   s->name);
		else if (batch)
			mr_err_set(err, MR_EPARSE,
				   "'%s' comes after batch; it keeps "
				   "samples and must come before",
				   s->name);
		else if (random)
			mr_err_set(err, MR_EPARSE,
				   "'%s' comes after '%s', which is random, "
				   "new in each epoch: put it before",
				   s->name, p->stage[random].name);
		else if (cache)
			mr_err_set(err, MR_EPARSE,
				   "'stored' comes after a cache: put it "
				   "before");
		if (cache || *mine || batch || random)
			return mr_pipeline_point(p, i, err);
		*mine = i;
	}
	return 0;
}

void mr_pipeline_uncache(struct mr_pipeline *p)
{
	int out = 0;

	for (int i = 1; i < p->n; i++) {
		if (!keeps(&p->stage[i]))
			continue;
		p->uncached[out] = i + out;
		out++;
		p->n--;
		memmove(&p->stage[i], &p->stage[i + 1],
			(size_t)(p->n - i) * sizeof(p->stage[0]));
		i--;
	}
}

void mr_pipeline_suit(struct mr_pipeline *p, const struct mr_options *opt)
{
	p->lenient = opt->on_error != MR_ON_ERROR_STOP;
	p->memory = opt->memory;
}

int mr_pipeline_number(const struct mr_pipeline *p, int i)
{
	for (size_t k = 0; k < MR_COUNT(p->uncached); k++)
		i += p->uncached[k] && i >= p->uncached[k];
	return i + 1;
}

int mr_pipeline_stage(const struct mr_pipeline *p, int number)
{
	int i = number - 1;

	for (size_t k = 0; k < MR_COUNT(p->uncached); k++)
		i -= p->uncached[k] && number > p->uncached[k];
	return i;
}

int mr_pipeline_front(const struct mr_pipeline *p)
{
	return p->n > 1 && p->stage[1].op == &mr_op_cache ? 2 : 1;
}

/* ---- the whole ---- */

static int take_text(struct mr_pipeline *p, const char *text,
		     struct mr_err *err)
{
	size_t n;

	if (text[0] == '@') {
		int e = mr_file_read(text + 1, TEXT_MAX, &p->text, &n, err);

		if (!e && strlen(p->text) != n)
			e = mr_err_set(err, MR_EPARSE,
				       "%s: a zero byte in it: not a pipeline",
				       text + 1);
		return e;
	}
	if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
		return mr_err_set(err, MR_EPARSE,
				  "a pipeline longer than %d bytes", TEXT_MAX);
	p->text = mr_strdup(text, err);
	return p->text ? 0 : MR_ENOMEM;
}

int mr_pipeline_parse(struct mr_pipeline **out, const char *text,
		      const char *plugins, struct mr_err *err)
{
	struct mr_err dummy;
	struct mr_pipeline *p;
	struct parser ps;
	int e;

	*out = NULL;
	if (!err)
		err = &dummy;
	p = mr_alloc(1, sizeof(*p), err);
	if (!p)
		return MR_ENOMEM;
	mr_arena_init(&p->arena, (size_t)16 << 20);
	e = take_text(p, text, err);
	if (!e)
		e = load_plugins(p, plugins, err);
	if (!e) {
		ps = (struct parser){ p, p->text, err };
		e = parse_text(&ps);
	}
	if (!e)
		e = check_keeping(p, err);
	if (e) {
		mr_pipeline_free(p);
		return e;
	}
	*out = p;
	return 0;
}

static void close_stage(struct mr_stage *s)
{
	if (s->opened && s->source && s->source->close)
		s->source->close(s->self);
	if (s->opened && s->op && s->op->close)
		s->op->close(s->self);
	s->opened = false;
}

int mr_pipeline_insert(struct mr_pipeline *p, const char *steps,
		       struct mr_err *err)
{
	struct mr_stage rest[MR_MAX_STEPS];
	struct parser ps = { p, NULL, err };
	char *text = p->text;
	int front = mr_pipeline_front(p), n = p->n - front, e;

	memcpy(rest, p->stage + front, (size_t)n * sizeof(*rest));
	/* Names and values are copied; the places in this text mean nothing
	 * later. */
	p->text = mr_arena_text(&p->arena, steps, strlen(steps));
	p->n = front;
	ps.s = p->text;
	e = p->text ? parse_text(&ps) : mr_err_nomem(err, strlen(steps));
	p->text = text;
	for (size_t i = 0; i < MR_COUNT(p->uncached); i++)
		if (p->uncached[i] > 1)
			p->uncached[i] += p->n - front;
	for (int i = front; i < p->n; i++) {
		p->stage[i].deferred = true;
		p->stage[i].at = p->stage[0].at;
		p->stage[i].len = p->stage[0].len;
	}
	if (!e && p->n + n > MR_MAX_STEPS)
		e = mr_err_set(err, MR_ELIMIT,
			       "more than %d stages, with those that are left "
			       "of the prepared set",
			       MR_MAX_STEPS);
	if (e) {
		while (n > MR_MAX_STEPS - p->n)
			close_stage(&rest[--n]);
		memcpy(p->stage + p->n, rest, (size_t)n * sizeof(*rest));
		p->n += n;
		return e;
	}
	memcpy(p->stage + p->n, rest, (size_t)n * sizeof(*rest));
	p->n += n;
	return 0;
}

void mr_pipeline_cut(struct mr_pipeline *p, int n)
{
	while (p->n > n)
		close_stage(&p->stage[--p->n]);
}

int mr_pipeline_append(struct mr_pipeline *p, const struct mr_op *op,
		       void *self, struct mr_err *err)
{
	if (p->n == MR_MAX_STEPS)
		return mr_err_set(err, MR_ELIMIT, "more than %d stages",
				  MR_MAX_STEPS);
	p->stage[p->n++] =
		(struct mr_stage){ .name = op->name, .op = op, .self = self };
	return 0;
}

void mr_pipeline_free(struct mr_pipeline *p)
{
	if (!p)
		return;
	mr_pipeline_cut(p, 0);
	close_stage(&p->set);
	free(p->record);
	for (int i = 0; i < p->plugins; i++)
		dlclose(p->plugin[i]);
	mr_arena_fini(&p->arena);
	free(p->text);
	free(p);
}

void mr_stage_text(const struct mr_stage *s, struct mr_str *out)
{
	const struct mr_param *params = stage_params(s);
	size_t n = mr_param_count(params);

	mr_str_add(out, s->name);
	for (size_t i = 0; i < n; i++) {
		struct mr_str v = { 0 };

		mr_param_text(&params[i], s->self, &v);
		mr_str_addf(out, " %s=", params[i].name);
		mr_str_add_quoted(out, v.text ? v.text : "", false);
		mr_str_fini_into(&v, out);
	}
	if (s->field) {
		mr_str_add(out, " field=");
		mr_str_add_quoted(out, s->field, false);
	}
}

int mr_pipeline_hash(const struct mr_pipeline *p, uint64_t *hash,
		     struct mr_err *err)
{
	struct mr_str s = { 0 };
	int e = 0;

	for (int i = 0; i < p->n; i++) {
		if (keeps(&p->stage[i]))
			continue;
		mr_stage_text(&p->stage[i], &s);
		mr_str_add(&s, "\n");
	}
	if (s.failed)
		e = mr_err_nomem(err, s.cap);
	else
		*hash = XXH3_64bits(s.text, s.len);
	mr_str_fini(&s);
	return e;
}
