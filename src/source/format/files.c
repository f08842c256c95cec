/* SPDX-License-Identifier: Apache-2.0 */
/* files: a directory of files, a class per folder in it. */
#include <stdio.h>
#include <strings.h>

#include "core/hash.h"
#include "io/input.h"
#include "source/paths.h"
#include "source/walk.h"

struct files {
	const char *dir, *ext;
	char *root;
	struct mr_walk walk;
	uint64_t skip; /* files in the root: no samples beside folders */
};

static const struct mr_param params[] = {
	MR_TEXT(struct files, dir, NULL, "directory, a class per folder in it"),
	MR_TEXT(struct files, ext, "",
		"only files that end so, such as jpg,png; empty: all files"),
	MR_PARAM_END
};

/* The next ending in a comma-separated list, without its dot; false after
 * the last. */
static bool next_ext(const char **list, const char **ext, size_t *n)
{
	const char *s = *list;

	if (!*s)
		return false;
	*n = strcspn(s, ",");
	*list = s + *n + (s[*n] == ',');
	if (*n && *s == '.') {
		s++;
		--*n;
	}
	*ext = s;
	return true;
}

static bool has_ext(const char *name, size_t len, const void *data)
{
	const char *list = data, *ext;
	size_t n;

	while (next_ext(&list, &ext, &n))
		if (len > n && name[len - n - 1] == '.' &&
		    !strncasecmp(name + len - n, ext, n))
			return true;
	return false;
}

static int check_ext(const char *list, struct mr_err *err)
{
	const char *s = list, *ext;
	size_t n, len = strlen(list);
	bool ok = !len || list[len - 1] != ',';

	while (ok && next_ext(&s, &ext, &n))
		ok = n > 0;
	if (ok)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "ext=%s: want endings such as jpg,png", list);
}

static int nothing_found(const struct files *f, struct mr_err *err)
{
	char kind[80] = "";

	if (*f->ext)
		snprintf(kind, sizeof(kind), " that end in %.60s", f->ext);
	if (f->skip)
		return mr_err_set(
			err, MR_EDATA,
			"%s: the data set is empty: its %zu folders, which "
			"are the classes, have no files%s, and the %llu files "
			"beside them belong to no class; move them into the "
			"folders, or the folders away",
			f->root, f->walk.folders, kind,
			(unsigned long long)f->skip);
	return mr_err_set(err, MR_EDATA,
			  "%s: the data set is empty: no files%s in it or its "
			  "%zu folders; check the path%s",
			  f->root, kind, f->walk.folders,
			  *f->ext ? " and ext=" : "");
}

static uint64_t count(const void *self)
{
	const struct files *f = self;

	return f->walk.first[f->walk.dirs] - f->skip;
}

static int open_files(void *self, const struct mr_source_env *env,
		      struct mr_err *err)
{
	struct files *f = self;
	struct mr_walk_options opt = { .threads = env->threads,
				       .keep = *f->ext ? has_ext : NULL,
				       .data = f->ext };
	int e = check_ext(f->ext, err);

	if (!e && mr_input_is_url(f->dir))
		e = mr_err_set(err, MR_EUNSUPPORTED,
			       "%s: files takes folders on disks, not on "
			       "servers; put the files into tars, which can be "
			       "there",
			       f->dir);
	if (e)
		return e;
	f->root = mr_path_resolve(env->cwd, *f->dir ? f->dir : ".", err);
	if (!f->root)
		return MR_ENOMEM;
	e = mr_walk(&f->walk, f->root, &opt, err);
	if (e)
		return e;
	if (f->walk.folders)
		f->skip = f->walk.first[f->walk.folder[0]];
	return count(f) ? 0 : nothing_found(f, err);
}

static void close_files(void *self)
{
	struct files *f = self;

	mr_walk_fini(&f->walk);
	free(f->root);
	f->root = NULL;
}

static void fields(const void *self, struct mr_fields *out)
{
	(void)self;
	mr_path_fields(out);
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct files *f = self;
	const char *name;
	const struct mr_walk_dir *d =
		mr_walk_file(&f->walk, f->skip + index, &name);

	mr_path_extent(e, buf);
	return mr_path_join(buf, cap, f->root, mr_walk_path(d), name, err);
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *t)
{
	const struct files *f = ld->self;
	const char *name;

	return mr_path_unpack(
		ld, mr_walk_file(&f->walk, f->skip + ld->index, &name)->label,
		bytes, length, t);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct files *f = self;
	const char *name;
	const char *path =
		mr_walk_path(mr_walk_file(&f->walk, f->skip + index, &name));

	return (size_t)snprintf(buf, cap, "%s%s%s", path, *path ? "/" : "",
				name);
}

static const char *class_name(const void *self, uint64_t label)
{
	const struct files *f = self;

	if (label >= f->walk.folders)
		return NULL;
	return mr_walk_path(f->walk.dir[f->walk.folder[label]]);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	return XXH3_64bits_withSeed(s, strlen(s) + 1, h);
}

/* The names in order, not where the directory lies: it may be moved. */
static uint64_t fingerprint(const void *self)
{
	const struct mr_walk *w = &((const struct files *)self)->walk;
	uint64_t h = 0;

	for (size_t i = 0; i < w->dirs; i++) {
		h = hash_text(h, mr_walk_path(w->dir[i]));
		for (uint32_t k = 0; k < w->dir[i]->files; k++)
			h = hash_text(h, mr_walk_name(w->dir[i], k));
	}
	return h;
}

const struct mr_source mr_source_files = {
	.name = "files",
	.help = "files in a directory, a class per folder",
	.flags = MR_SOURCE_RAW,
	.size = sizeof(struct files),
	.params = params,
	.open = open_files,
	.close = close_files,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.class_name = class_name,
	.fingerprint = fingerprint,
};
