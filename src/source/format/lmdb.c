/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb: the values of an LMDB database, in the order of their keys. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "io/input.h"
#include "source/lmdbfile.h"
#include "source/paths.h"

struct lmdb {
	const char *path, *db, *keys;
	bool map;
	struct mr_input *in;
	struct mr_lmdb list;
};

static const struct mr_param params[] = {
	MR_TEXT(struct lmdb, path, NULL,
		"directory with data.mdb in it, or such a file"),
	MR_TEXT(struct lmdb, db, "",
		"database in it; empty: the only one, which has no name"),
	MR_TEXT(struct lmdb, keys, "",
		"only entries whose key is such, as 'image-*'; empty: all"),
	MR_BOOL(struct lmdb, map, "no", MR_MAP_HELP), MR_PARAM_END
};

static int open_input(struct lmdb *s, const char *cwd, struct mr_err *err)
{
	char *path = mr_path_resolve(cwd, s->path, err), in_it[4096];
	struct stat st;
	int e = 0;

	if (!path)
		return MR_ENOMEM;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		e = mr_path_join(in_it, sizeof(in_it), "", path, "data.mdb",
				 err);
		if (!e && stat(in_it, &st) && errno == ENOENT)
			e = mr_err_set(err, MR_EIO,
				       "%s: has no data.mdb; lmdb takes the "
				       "folder in which that lies, or such a "
				       "file",
				       path);
		if (!e)
			e = mr_input_open(&s->in, in_it, err);
	} else {
		e = mr_input_open(&s->in, path, err);
	}
	free(path);
	return e;
}

static int open_lmdb(void *self, const struct mr_source_env *env,
		     struct mr_err *err)
{
	struct lmdb *s = self;
	int e = open_input(s, env->cwd, err);

	if (!e)
		e = mr_lmdb_list(&s->list, s->in, s->db, s->keys, err);
	if (e)
		return e;
	if (!s->list.n)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: no entries%s%s",
				  mr_input_path(s->in),
				  *s->keys ? " whose key is such as " : "",
				  s->keys);
	return s->map ? mr_input_map(s->in, err) : 0;
}

static void close_lmdb(void *self)
{
	struct lmdb *s = self;

	mr_lmdb_fini(&s->list);
	mr_input_close(s->in);
	s->in = NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct lmdb *)self)->list.n;
}

static void fields(const void *self, struct mr_fields *out)
{
	const int64_t any = MR_ANY;

	(void)self;
	out->n = 0;
	mr_fields_add(out, "data", MR_U8, 1, &any);
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *x, struct mr_err *err)
{
	const struct lmdb *s = self;
	const struct mr_lmdb_entry *e = &s->list.entry[index];
	uint64_t size = mr_input_size(s->in);

	(void)buf;
	(void)cap;
	if (e->length > size || e->at > size - e->length)
		return mr_err_set(err, MR_EDATA,
				  "%s: truncated: the value of %lu bytes at "
				  "%llu is not all in the file",
				  mr_input_path(s->in),
				  (unsigned long)e->length,
				  (unsigned long long)e->at);
	mr_input_extent(s->in, e->at, e->length, x);
	return 0;
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	(void)ld;
	f[0].shape[0] = (int64_t)length;
	f[0].data = (void *)(uintptr_t)bytes;
	return 0;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	return mr_lmdb_key(&((const struct lmdb *)self)->list, index, buf, cap);
}

static uint64_t fingerprint(const void *self)
{
	const struct mr_lmdb *l = &((const struct lmdb *)self)->list;
	uint64_t h = XXH3_64bits(l->keys, l->used);

	for (size_t i = 0; i < l->n; i++)
		h = XXH3_64bits_withSeed(&l->entry[i].length,
					 sizeof(l->entry[i].length), h);
	return h;
}

const struct mr_source mr_source_lmdb = {
	.name = "lmdb",
	.help = "values of an LMDB database, in the order of their keys",
	.flags = MR_SOURCE_RAW | MR_SOURCE_MAPS,
	.size = sizeof(struct lmdb),
	.params = params,
	.open = open_lmdb,
	.close = close_lmdb,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
