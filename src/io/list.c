/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "io/input.h"

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_all(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

static int copy_all(char *const *from, size_t n, char ***paths,
		    struct mr_err *err)
{
	char **list = mr_alloc(n, sizeof(*list), err);

	if (!list)
		return MR_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		list[i] = mr_strdup(from[i], err);
		if (!list[i]) {
			free_all(list, n);
			return MR_ENOMEM;
		}
	}
	*paths = list;
	return 0;
}

static int no_match(const char *pattern, int why, struct mr_err *err)
{
	if (why == GLOB_NOSPACE)
		return mr_err_nomem(err, 0);
	if (why == GLOB_ABORTED)
		return mr_err_sys(err, errno ? errno : EIO, pattern,
				  "cannot list");
	if (!strpbrk(pattern, "*?[{"))
		return mr_err_set(err, MR_EIO,
				  "%s: no such file; check the path", pattern);
	return mr_err_set(err, MR_EIO,
			  "%s: no file matches; check the path and the "
			  "wildcards",
			  pattern);
}

int mr_input_list(const char *pattern, char ***paths, size_t *n,
		  struct mr_err *err)
{
	struct stat st;
	glob_t g;
	int e;

	/* A name that exists means itself, whatever characters it has. */
	if (!stat(pattern, &st)) {
		char *one = (char *)(uintptr_t)pattern;

		e = copy_all(&one, 1, paths, err);
		if (!e)
			*n = 1;
		return e;
	}
	errno = 0;
	e = glob(pattern, GLOB_NOSORT | GLOB_BRACE, NULL, &g);
	if (e)
		return no_match(pattern, e, err);
	/* Not glob()'s own order, which the user's locale changes. */
	qsort(g.gl_pathv, g.gl_pathc, sizeof(*g.gl_pathv), by_bytes);
	e = copy_all(g.gl_pathv, g.gl_pathc, paths, err);
	if (!e)
		*n = g.gl_pathc;
	globfree(&g);
	return e;
}
