/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/err.h"
#include "core/file.h"
#include "core/json.h"

enum { VERSION = 1, SIZE_MAX_BYTES = 65536 };

int cli_checkpoint_write(const char *path, const struct mr_state *st,
			 uint64_t digest, struct mr_err *err)
{
	struct mr_json j = { 0 };
	int e;

	mr_json_open(&j, NULL, '{');
	mr_json_int(&j, "millrace_checkpoint", VERSION);
	mr_json_uint(&j, "epoch", st->epoch);
	mr_json_uint(&j, "batch", st->batch);
	mr_json_uint(&j, "seed", st->seed);
	mr_json_uint(&j, "samples", st->samples);
	mr_json_int(&j, "rank", st->rank);
	mr_json_int(&j, "ranks", st->ranks);
	mr_json_hex(&j, "pipeline", st->pipeline);
	mr_json_hex(&j, "digest", digest);
	mr_json_close(&j, '}');
	mr_str_add(&j.out, "\n");
	if (j.out.failed)
		e = mr_err_set(err, MR_ENOMEM, "out of memory");
	else
		e = mr_file_write(path, j.out.text, j.out.len, err);
	mr_str_fini(&j.out);
	return e;
}

static bool get_int(struct json_object *o, const char *name, int64_t *v)
{
	struct json_object *m;

	if (!json_object_object_get_ex(o, name, &m) ||
	    !json_object_is_type(m, json_type_int))
		return false;
	*v = json_object_get_int64(m);
	return *v >= 0;
}

static bool get_hex(struct json_object *o, const char *name, uint64_t *v)
{
	struct json_object *m;
	const char *s;
	char *end;

	if (!json_object_object_get_ex(o, name, &m) ||
	    !json_object_is_type(m, json_type_string))
		return false;
	s = json_object_get_string(m);
	*v = strtoull(s, &end, 16);
	return end != s && !*end;
}

static bool get_all(struct json_object *o, struct mr_state *st,
		    uint64_t *digest)
{
	int64_t version, epoch, batch, seed, samples;

	if (!get_int(o, "millrace_checkpoint", &version) ||
	    version != VERSION || !get_int(o, "epoch", &epoch) ||
	    !get_int(o, "batch", &batch) || !get_int(o, "seed", &seed) ||
	    !get_int(o, "samples", &samples) ||
	    !get_int(o, "rank", &st->rank) ||
	    !get_int(o, "ranks", &st->ranks) ||
	    !get_hex(o, "pipeline", &st->pipeline) ||
	    !get_hex(o, "digest", digest))
		return false;
	st->epoch = (uint64_t)epoch;
	st->batch = (uint64_t)batch;
	st->seed = (uint64_t)seed;
	st->samples = (uint64_t)samples;
	return true;
}

int cli_checkpoint_read(const char *path, struct mr_state *st, uint64_t *digest,
			struct mr_err *err)
{
	struct json_object *o;
	char *text;
	size_t size;
	bool ok;
	int e = mr_file_read(path, SIZE_MAX_BYTES, &text, &size, err);

	if (e)
		return e;
	o = json_tokener_parse(text);
	free(text);
	ok = o && json_object_is_type(o, json_type_object) &&
	     get_all(o, st, digest);
	json_object_put(o);
	return ok ? 0 :
		    mr_err_set(err, MR_EDATA,
			       "%s: not a checkpoint, or a damaged one", path);
}
