/* SPDX-License-Identifier: Apache-2.0 */
#include "io/brace.h"

#include <limits.h>
#include <stdio.h>

#include "core/mem.h"

enum { LENGTH_MAX = 8192, DEPTH_MAX = 64, DIGITS_MAX = 18 };

/* ---- lists ---- */

int mr_name_list_take(struct mr_name_list *l, char *name, struct mr_err *err)
{
	int e = MR_ENOMEM;

	if (!name)
		return e;
	if (l->n == MR_NAMES_MAX)
		e = mr_err_set(err, MR_ELIMIT,
			       "more than %d names; give fewer, larger files",
			       MR_NAMES_MAX);
	else
		e = mr_grow(&l->item, &l->cap, l->n + 1, sizeof(*l->item),
			    MR_NAMES_MAX, err);
	if (e)
		free(name);
	else
		l->item[l->n++] = name;
	return e;
}

void mr_name_list_fini(struct mr_name_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->item[i]);
	free(l->item);
	*l = (struct mr_name_list){ 0 };
}

/* ---- braces ---- */

struct numbers {
	long long first, last, step; /* step > 0 */
	int width;
};

/* What stands between two braces: [open + 1, close). */
struct group {
	const char *open, *close;
	bool counts;
	struct numbers of; /* when it counts */
};

static bool number(const char **s, long long *v, int *width)
{
	const char *at = *s + (**s == '-');
	size_t digits = strspn(at, "0123456789");

	if (!digits || digits > DIGITS_MAX)
		return false;
	*v = strtoll(*s, NULL, 10);
	*width = digits > 1 && *at == '0' ? (int)(at + digits - *s) : 0;
	*s = at + digits;
	return true;
}

static bool dots(const char **s)
{
	if (strncmp(*s, "..", 2))
		return false;
	*s += 2;
	return true;
}

/* "1..20", "001..020", "0..20..5", and then the brace at `close`. */
static bool numbers(const char *s, const char *close, struct numbers *r)
{
	int w1, w2, unused;

	if (!number(&s, &r->first, &w1) || !dots(&s) ||
	    !number(&s, &r->last, &w2))
		return false;
	r->width = w1 > w2 ? w1 : w2;
	r->step = 1;
	if (s != close && (!dots(&s) || !number(&s, &r->step, &unused)))
		return false;
	if (r->step < 0)
		r->step = -r->step;
	return s == close && r->step;
}

/* The end of the part that begins at s: its comma, or the brace that closes
 * the group; NULL when nothing does. */
static const char *part_end(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '{')
			depth++;
		else if (!depth && (*s == '}' || *s == ','))
			return s;
		else if (*s == '}')
			depth--;
	}
	return NULL;
}

/* Is there a group that opens at s? */
static bool group_at(const char *s, struct group *g)
{
	const char *end = part_end(s + 1);
	bool commas = end && *end == ',';

	while (end && *end == ',')
		end = part_end(end + 1);
	if (!end)
		return false;
	*g = (struct group){ .open = s, .close = end };
	g->counts = !commas && numbers(s + 1, end, &g->of);
	return commas || g->counts;
}

static bool next_group(const char *s, struct group *g)
{
	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '{' && group_at(s, g))
			return true;
	}
	return false;
}

static int expand(struct mr_name_list *l, char *text, size_t done, int depth,
		  struct mr_err *err);

/* Puts n bytes of `part` in the group's place and goes on from there. */
static int put_part(struct mr_name_list *l, const struct group *g,
		    const char *text, const char *part, size_t n, bool inside,
		    int depth, struct mr_err *err)
{
	size_t before = (size_t)(g->open - text), after = strlen(g->close + 1);
	char *full;

	if (before + n + after > LENGTH_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "a name of more than %d bytes", LENGTH_MAX);
	full = mr_alloc(before + n + after + 1, 1, err);
	if (!full)
		return MR_ENOMEM;
	memcpy(full, text, before);
	memcpy(full + before, part, n);
	memcpy(full + before + n, g->close + 1, after);
	return expand(l, full, inside ? before : before + n, depth + 1, err);
}

static int put_numbers(struct mr_name_list *l, const struct group *g,
		       const char *text, int depth, struct mr_err *err)
{
	const struct numbers *r = &g->of;
	long long way = r->first <= r->last ? r->step : -r->step;
	unsigned long long span = r->first <= r->last ?
					  (unsigned long long)r->last -
						  (unsigned long long)r->first :
					  (unsigned long long)r->first -
						  (unsigned long long)r->last;
	unsigned long long n = span / (unsigned long long)r->step;
	int e = 0;

	for (unsigned long long i = 0; !e && i <= n; i++) {
		char digits[32];
		int k = snprintf(digits, sizeof(digits), "%0*lld", r->width,
				 r->first + (long long)i * way);

		e = put_part(l, g, text, digits, (size_t)k, false, depth, err);
	}
	return e;
}

/* Text before `done` has no more groups. Takes `text`. */
static int expand(struct mr_name_list *l, char *text, size_t done, int depth,
		  struct mr_err *err)
{
	struct group g;
	int e = 0;

	if (!next_group(text + done, &g))
		return mr_name_list_take(l, text, err);
	if (depth == DEPTH_MAX) {
		e = mr_err_set(err, MR_ELIMIT, "more than %d braces",
			       DEPTH_MAX);
	} else if (g.counts) {
		e = put_numbers(l, &g, text, depth, err);
	} else {
		const char *s = g.open, *end;

		for (; !e && s != g.close; s = end) {
			end = part_end(s + 1);
			e = put_part(l, &g, text, s + 1, (size_t)(end - s - 1),
				     true, depth, err);
		}
	}
	free(text);
	return e;
}

int mr_brace_expand(struct mr_name_list *l, const char *pattern,
		    struct mr_err *err)
{
	char *text;
	int e;

	if (strlen(pattern) > LENGTH_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "%.60s...: a pattern of more than %d bytes",
				  pattern, LENGTH_MAX);
	text = mr_strdup(pattern, err);
	e = text ? expand(l, text, 0, 0, err) : MR_ENOMEM;
	if (e && e != MR_ENOMEM)
		mr_err_prefix(err, "%s: ", pattern);
	return e;
}
