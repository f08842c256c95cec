/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/outdir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/err.h"
#include "core/param.h"
#include "core/str.h"

/* The directory as it is found from anywhere, also before it is made, and in
 * *parent the length of its folder's path; NULL: it has no place yet. */
static char *place_of(const char *out, size_t *parent)
{
	char path[4096], *slash, *real = realpath(out, NULL);
	size_t n = strlen(out);
	struct mr_str s = { 0 };

	while (n > 1 && out[n - 1] == '/')
		n--;
	if (!real && n < sizeof(path)) {
		snprintf(path, sizeof(path), "%.*s", (int)n, out);
		slash = strrchr(path, '/');
		if (slash)
			*slash = 0;
		real = realpath(!slash ? "." : *path ? path : "/", NULL);
		if (real)
			mr_str_addf(&s, "%s/%s", strcmp(real, "/") ? real : "",
				    slash ? slash + 1 : path);
		free(real);
		real = mr_str_take(&s);
	}
	if (real && *real)
		*parent = (size_t)(strrchr(real, '/') - real);
	return real;
}

/* `files` without ext= takes all that lies below its folder, but for what is
 * hidden. */
static bool is_listed(const struct mr_stage *s, const char *place)
{
	const struct mr_param *dir = mr_param_find(s->source->params, "dir");
	const struct mr_param *ext = mr_param_find(s->source->params, "ext");
	const char *at = s->self;
	char *root;
	size_t n;
	bool in;

	if (strcmp(s->source->name, "files") || !dir || !ext ||
	    **(const char *const *)(const void *)(at + ext->offset))
		return false;
	root = realpath(*(const char *const *)(const void *)(at + dir->offset),
			NULL);
	n = root ? strlen(root) : 0;
	in = root && !strncmp(place, root, n) && (place[n] == '/' || n == 1) &&
	     !strstr(place + n, "/.");
	free(root);
	return in;
}

int mr_outdir_check(const char *out, const struct mr_pipeline *p,
		    const struct mr_meta *m, bool stamped, struct mr_err *err)
{
	size_t parent = 0;
	char *place = place_of(out, &parent);
	bool changes = place && is_listed(&p->stage[0], place);
	bool makes = place && stamped && access(place, F_OK);

	for (size_t i = 0; makes && !changes && i < m->stamps; i++)
		changes = strlen(m->stamp[i].path) == parent &&
			  !strncmp(m->stamp[i].path, place, parent);
	free(place);
	return changes ? mr_err_set(err, MR_EINVAL,
				    "--out %s: lies in a folder that the "
				    "samples come from, which would change by "
				    "it; choose one outside",
				    out) :
			 0;
}

/* Bytes of shards that a stopped run has left. */
static uint64_t bytes_there(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *f;
	struct stat st;
	uint64_t n = 0;

	while (d && (f = readdir(d)))
		if (!strncmp(f->d_name, "shard-", 6) &&
		    !fstatat(dirfd(d), f->d_name, &st, 0))
			n += (uint64_t)st.st_size;
	if (d)
		closedir(d);
	return n;
}

int mr_outdir_room(const char *out, uint64_t bytes, uint64_t *available,
		   struct mr_err *err)
{
	char path[4096], need[32], have[32], *slash;
	struct statvfs fs;

	snprintf(path, sizeof(path), "%s", out);
	while (statvfs(path, &fs)) {
		slash = strrchr(path, '/');
		if (errno != ENOENT || (!slash && !strcmp(path, ".")))
			return 0; /* the writer will say */
		if (slash && slash > path)
			*slash = 0;
		else
			strcpy(path, slash ? "/" : ".");
	}
	*available = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (bytes <= *available + bytes_there(out))
		return 0;
	return mr_err_set(err, MR_EIO,
			  "%s: the data set will take about %s, and %s are "
			  "free there; choose another --out, a stronger "
			  "--codec, or an earlier --until",
			  out, mr_str_size(need, (double)bytes),
			  mr_str_size(have, (double)*available));
}
