/* SPDX-License-Identifier: Apache-2.0 */
/* records: a data set that `millrace prepare` wrote. */
#include <stdatomic.h>
#include <stdio.h>

#include "core/hash.h"
#include "source/origin.h"
#include "source/paths.h"
#include "source/prepared.h"
#include "store/set.h"

enum verify { ONCE, ALWAYS, NEVER };
static const char *const verifies[] = { "once", "always", "never", NULL };

struct records {
	const char *dir, *from;
	bool check, map;
	int verify;
	struct mr_set set;
	_Atomic uint8_t *seen; /* a bit for each sample that was verified */
};

/* What a thread keeps: the codec's state. */
struct local {
	void (*drop)(void *state);
	void *state;
};

static const struct mr_param params[] = {
	MR_TEXT(struct records, dir, NULL, "a directory that prepare wrote"),
	MR_BOOL(struct records, check, "yes",
		"refuse the set when the files it was made from have changed"),
	MR_TEXT(struct records, from, "",
		"refuse the set unless it was made by this pipeline, or by its "
		"first steps; what comes from `batch` on does not count"),
	MR_ENUM(struct records, verify, "once", verifies,
		"compare the checksum of a sample: the first time that it is "
		"read, each time, or not"),
	MR_BOOL(struct records, map, "yes",
		"read local shards from a mapping, so that plain fields are "
		"used in place; takes SIGBUS, and the mapped part counts as "
		"memory in use"),
	MR_PARAM_END
};

/* Is `had` all of the stages of `have`, or the first of them? */
static bool begins(const char *have, const char *had)
{
	size_t n = strlen(had);

	return !strncmp(have, had, n) &&
	       (!have[n] || !strncmp(have + n, " | ", 3));
}

/* Texts that differ may mean the same: they are compared as they are when all
 * parameters are written out. */
static int check_maker(const struct records *r, const struct mr_source_env *env,
		       struct mr_err *err)
{
	const char *had = r->set.meta.pipeline;
	bool same = begins(r->from, had);
	char *all = NULL;
	int e = 0;

	if (!same && env->spell)
		e = env->spell(r->from, &all, err);
	if (e)
		return mr_err_prefix(err, "from: ");
	same = same || (all && begins(all, had));
	if (!same)
		e = mr_err_set(err, MR_EINVAL,
			       "%s: was made by another pipeline:\n  %s\nnot "
			       "by\n  %s",
			       r->dir, had, all ? all : r->from);
	free(all);
	return e;
}

static int open_records(void *self, const struct mr_source_env *env,
			struct mr_err *err)
{
	struct records *r = self;
	char *dir = mr_path_resolve(env->cwd, r->dir, err);
	int e = dir ? mr_set_open(&r->set, dir, env->threads, env->lenient,
				  err) :
		      MR_ENOMEM;

	free(dir);
	if (!e && *r->from)
		e = check_maker(r, env, err);
	if (!e && r->check)
		e = mr_origin_check(&r->set.meta, env->threads, err);
	if (!e && r->map)
		mr_set_map(&r->set);
	/* A damaged index: only the checksums tell which entries are right. */
	for (uint64_t k = 0; !e && k < r->set.meta.shards; k++)
		if (r->set.shard[k].doubtful && r->verify == NEVER)
			r->verify = ONCE;
	if (!e && r->verify == ONCE) {
		r->seen = mr_alloc(r->set.meta.samples / 8 + 1, 1, err);
		e = r->seen ? 0 : MR_ENOMEM;
	}
	return e;
}

static void close_records(void *self)
{
	struct records *r = self;

	mr_set_close(&r->set);
	free((void *)(uintptr_t)r->seen);
	r->seen = NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct records *)self)->set.meta.samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	*out = ((const struct records *)self)->set.meta.record.fields;
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct records *r = self;
	struct mr_shard_entry x;
	const struct mr_set_shard *sh = mr_set_locate(&r->set, index, &x);

	(void)buf;
	(void)cap;
	if (x.bad)
		return mr_set_bad(&r->set, index, err);
	mr_input_extent(sh->input, x.offset, x.length, e);
	return 0;
}

static int damaged(const struct mr_load *ld)
{
	const struct records *r = ld->self;
	char place[4400];

	mr_set_place(&r->set, ld->index, place, sizeof(place));
	return mr_err_set(ld->err, MR_EDATA,
			  "%.900s: damaged: its checksum does not match",
			  place);
}

/* True when the sample is as it was written, as far as that is asked. */
static bool verified(const struct records *r, uint64_t index, const void *bytes,
		     size_t length)
{
	uint8_t bit = (uint8_t)(1u << index % 8);
	struct mr_shard_entry x;

	if (r->verify == NEVER ||
	    (r->seen &&
	     atomic_load_explicit(&r->seen[index / 8], memory_order_relaxed) &
		     bit))
		return true;
	mr_set_find(&r->set, index, &x);
	if (XXH3_64bits(bytes, length) != x.checksum)
		return false;
	if (r->seen)
		atomic_fetch_or_explicit(&r->seen[index / 8], bit,
					 memory_order_relaxed);
	return true;
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct records *r = ld->self;
	const struct mr_record_plan *p = &r->set.meta.record;
	struct local *l = ld->local;
	int e;

	if (!verified(r, ld->index, bytes, length))
		return damaged(ld);
	l->drop = p->codec->drop_unpack;
	e = mr_record_unpack(p, ld, &l->state, bytes, length, f);
	if (e) {
		char place[4400];

		mr_set_place(&r->set, ld->index, place, sizeof(place));
		mr_err_prefix(ld->err, "%.500s: ", place);
	}
	return e;
}

static void drop(void *local)
{
	struct local *l = local;

	if (l->state && l->drop)
		l->drop(l->state);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	return mr_set_key(&((const struct records *)self)->set, index, buf,
			  cap);
}

static const char *class_name(const void *self, uint64_t label)
{
	const struct mr_meta *m = &((const struct records *)self)->set.meta;

	return label < m->class_count ? m->classes[label] : NULL;
}

static uint64_t fingerprint(const void *self)
{
	return ((const struct records *)self)->set.meta.set;
}

const struct mr_meta *mr_records_meta(const void *self)
{
	return &((const struct records *)self)->set.meta;
}

static int stands_for(const void *self, const char **deferred)
{
	const struct mr_meta *m = &((const struct records *)self)->set.meta;

	*deferred = m->deferred;
	return m->stages;
}

const struct mr_source mr_source_records = {
	.name = "records",
	.help = "a data set that prepare wrote",
	.flags = MR_SOURCE_MAPS,
	.size = sizeof(struct records),
	.params = params,
	.open = open_records,
	.close = close_records,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.class_name = class_name,
	.fingerprint = fingerprint,
	.local = sizeof(struct local),
	.drop = drop,
	.stands_for = stands_for,
};
