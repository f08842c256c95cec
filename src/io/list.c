/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "io/brace.h"
#include "io/input.h"
#include "io/remote.h"

static int no_match(const char *pattern, int why, struct mr_err *err)
{
	if (why == GLOB_NOSPACE)
		return mr_err_nomem(err, 0);
	if (why == GLOB_ABORTED)
		return mr_err_sys(err, errno ? errno : EIO, pattern,
				  "cannot list");
	if (!mr_input_is_url(pattern) && strstr(pattern, "://"))
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "%s: of files on servers, http://, https:// "
				  "and s3:// are taken",
				  pattern);
	if (!strpbrk(pattern, "*?[{"))
		return mr_err_set(err, MR_EIO,
				  "%s: no such file; check the path", pattern);
	return mr_err_set(err, MR_EIO,
			  "%s: no file matches; check the path and the "
			  "wildcards",
			  pattern);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_local(struct mr_name_list *l, const char *pattern,
		      struct mr_err *err)
{
	glob_t g;
	int e;

	errno = 0;
	e = glob(pattern, GLOB_NOSORT, NULL, &g);
	if (e)
		return no_match(pattern, e, err);
	for (size_t i = 0; !e && i < g.gl_pathc; i++)
		e = mr_name_list_take(l, mr_strdup(g.gl_pathv[i], err), err);
	globfree(&g);
	return e;
}

/* An index lies beside its data, where x* finds it too; it is meant only by
 * its own name. */
static void drop_indexes(struct mr_name_list *l, size_t from, const char *word)
{
	size_t kept = from;

	for (size_t i = from; i < l->n; i++) {
		size_t n = strlen(l->item[i]);

		if (n > 4 && !strcmp(l->item[i] + n - 4, ".mri") &&
		    strcmp(l->item[i], word) != 0)
			free(l->item[i]);
		else
			l->item[kept++] = l->item[i];
	}
	l->n = kept;
}

/* A name that exists means itself, whatever characters it has. */
static int list_word(struct mr_name_list *l, const char *word,
		     struct mr_err *err)
{
	bool url = mr_input_is_url(word);
	size_t before = l->n;
	struct stat st;
	int e;

	if (!url && !stat(word, &st))
		return mr_name_list_take(l, mr_strdup(word, err), err);
	e = url ? mr_remote_list(l, word, err) : list_local(l, word, err);
	if (e)
		return e;
	drop_indexes(l, before, word);
	if (l->n == before)
		return no_match(word, GLOB_NOMATCH, err);
	/* Not glob()'s own order, which the user's locale changes. */
	qsort(l->item + before, l->n - before, sizeof(*l->item), by_bytes);
	return 0;
}

int mr_input_list(const char *pattern, char ***paths, size_t *n,
		  struct mr_err *err)
{
	struct mr_name_list words = { 0 }, found = { 0 };
	struct stat st;
	int e;

	if (!mr_input_is_url(pattern) && !stat(pattern, &st))
		e = mr_name_list_take(&words, mr_strdup(pattern, err), err);
	else
		e = mr_brace_expand(&words, pattern, err);
	for (size_t i = 0; !e && i < words.n; i++)
		e = list_word(&found, words.item[i], err);
	mr_name_list_fini(&words);
	if (e) {
		mr_name_list_fini(&found);
		return e;
	}
	*paths = found.item;
	*n = found.n;
	return 0;
}
