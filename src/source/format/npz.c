/* SPDX-License-Identifier: Apache-2.0 */
/* npz: arrays of NumPy's .npz files, row by row or a file as a sample. */
#include <libdeflate.h>
#include <stdio.h>

#include "core/arena.h"
#include "core/hash.h"
#include "io/input.h"
#include "source/npzfile.h"
#include "source/parts.h"
#include "source/paths.h"

enum each { EACH_ROW, EACH_FILE };

enum { LIST_MAX = 1 << 26 }; /* bytes of a file's list of members */

/* An array of a file whose rows are samples. */
struct part {
	uint64_t at;   /* of the data in the file, when it is stored */
	uint8_t *mem;  /* the array, when it was packed; or NULL */
	size_t offset; /* of the data in that */
};

struct file {
	char *path;
	struct mr_input *in; /* NULL: opened for each sample */
	struct part *part;   /* a field each; NULL: a file is a sample */
	uint64_t first, rows;
	char *lost; /* NULL, or why all its samples are bad */
};

struct npz {
	const char *glob, *array;
	int each;
	uint64_t unpacked;
	char *names[MR_MAX_FIELDS]; /* of the arrays */
	int fields_n;
	struct mr_fields fields;
	struct file *file;
	const struct file *like; /* the first that is not lost */
	size_t files;
	uint64_t samples;
	uint64_t held, room; /* bytes of all `mem`, and how many may be */
	size_t row_bytes[MR_MAX_FIELDS];
};

static const char *const words[] = { "row", "file", NULL };

static const struct mr_param params[] = {
	MR_TEXT(struct npz, glob, NULL, "files, such as 'train/*.npz'"),
	MR_TEXT(struct npz, array, "",
		"arrays in them, separated by commas: a field each; empty: "
		"all of the first file"),
	MR_ENUM(struct npz, each, "row", words,
		"what a sample is: a row of each array, all of which have as "
		"many; or a file, with its arrays whole"),
	MR_SIZE(struct npz, unpacked, "0", 0, 1e18,
		"memory for arrays that are packed (savez_compressed), of "
		"which each=row unpacks all when it opens them; 0: half of "
		"--memory, at most 1G"),
	MR_PARAM_END
};

/* ---- which arrays ---- */

static int add_name(struct npz *s, const char *name, size_t n,
		    struct mr_err *err)
{
	char *copy;

	if (!n || n >= MR_NAME_MAX || s->fields_n == MR_MAX_FIELDS)
		return mr_err_set(err, MR_EINVAL,
				  "array: '%.*s' cannot be a field: its name "
				  "has 1 to %d letters, and there are at most "
				  "%d",
				  (int)n, name, MR_NAME_MAX - 1, MR_MAX_FIELDS);
	copy = mr_alloc(n + 1, 1, err);
	if (!copy)
		return MR_ENOMEM;
	memcpy(copy, name, n);
	for (int i = 0; i < s->fields_n; i++)
		if (!strcmp(s->names[i], copy)) {
			free(copy);
			return mr_err_set(err, MR_EINVAL,
					  "array: '%s' is named twice",
					  s->names[i]);
		}
	s->names[s->fields_n++] = copy;
	return 0;
}

static int names_given(struct npz *s, struct mr_err *err)
{
	const char *p = s->array;
	int e = 0;

	while (!e) {
		size_t n = strcspn(p, ",");

		e = add_name(s, p, n, err);
		if (!p[n])
			break;
		p += n + 1;
	}
	return e;
}

/* All members of a file that are arrays. */
static int names_found(struct npz *s, const struct mr_zip_member *m, size_t n,
		       struct mr_err *err)
{
	int e = 0;

	for (size_t i = 0; !e && i < n; i++) {
		size_t len = strlen(m[i].name);

		if (len > 4 && !strcmp(m[i].name + len - 4, ".npy"))
			e = add_name(s, m[i].name, len - 4, err);
	}
	if (!e && !s->fields_n)
		e = mr_err_set(err, MR_EDATA, "no arrays in it");
	return e;
}

/* ---- types ---- */

static struct mr_spec sample_spec(const struct npz *s, const struct mr_npy *a)
{
	struct mr_spec spec = { .dtype = a->dtype };

	for (int d = s->each == EACH_ROW; d < a->ndim; d++)
		spec.shape[spec.ndim++] = a->shape[d];
	return spec;
}

static int check_array(const struct npz *s, const struct mr_npy *a,
		       struct mr_err *err)
{
	struct mr_spec spec = sample_spec(s, a);
	int64_t n;

	if (s->each == EACH_ROW && !a->ndim)
		return mr_err_set(err, MR_ETYPE,
				  "a single number has no rows; say each=file, "
				  "or name the others: array=");
	if (spec.ndim >= MR_MAX_DIMS)
		return mr_err_set(err, MR_ETYPE,
				  "a sample has at most %d dimensions, since "
				  "batches add one",
				  MR_MAX_DIMS - 1);
	if (!mr_shape_elements(spec.shape, spec.ndim, spec.dtype, &n) || !n)
		return mr_err_set(err, MR_EDATA,
				  "samples without elements, or too large");
	return 0;
}

/* The type of field i, as another file has it. Files that are samples may
 * differ in shape. */
static int match_field(struct npz *s, int i, const struct mr_npy *a,
		       struct mr_err *err)
{
	struct mr_spec b = sample_spec(s, a), *f = &s->fields.item[i].spec;
	char ta[200], tb[200];
	bool alike = f->dtype == b.dtype && f->ndim == b.ndim;

	for (int d = 0; alike && d < b.ndim; d++) {
		if (s->each == EACH_FILE && f->shape[d] != b.shape[d])
			f->shape[d] = MR_ANY;
		else
			alike = f->shape[d] == b.shape[d];
	}
	if (alike)
		return 0;
	mr_spec_text(f, ta, sizeof(ta));
	mr_spec_text(&b, tb, sizeof(tb));
	return mr_err_set(err, MR_EDATA,
			  "gives samples of %s, but in %s of %s; all files "
			  "must agree",
			  tb, s->like->path, ta);
}

static int take_type(struct npz *s, int i, const struct mr_npy *a,
		     struct mr_err *err)
{
	struct mr_spec spec;
	int e = check_array(s, a, err);

	if (e)
		return e;
	if (s->like)
		return match_field(s, i, a, err);
	spec = sample_spec(s, a);
	mr_fields_add(&s->fields, s->names[i], spec.dtype, spec.ndim,
		      spec.shape);
	return 0;
}

/* ---- open ---- */

/* Unpacks an array for good, within what all of them may take. */
static int unpack_array(struct npz *s, struct file *f, struct part *p,
			const struct mr_zip_member *m, struct mr_arena *mem,
			struct libdeflate_decompressor **d, struct mr_err *err)
{
	if (m->size > s->room - s->held)
		return mr_err_set(err, MR_ELIMIT,
				  "%s: member '%s' has %llu bytes unpacked, "
				  "and those before it %llu: more than the "
				  "%llu that %s allows; raise it, or save "
				  "without compression (np.savez)",
				  f->path, m->name, (unsigned long long)m->size,
				  (unsigned long long)s->held,
				  (unsigned long long)s->room,
				  s->unpacked ? "unpacked=" :
						"--memory (half of it), or "
						"unpacked=,");
	p->mem = malloc(m->size ? m->size : 1);
	if (!p->mem)
		return mr_err_nomem(err, m->size);
	s->held += m->size;
	return mr_zip_read(f->in, m, p->mem, d, mem, err);
}

static int check_rows(const struct npz *s, struct file *f, int i,
		      const struct mr_npy *a, struct mr_err *err)
{
	if (i == 0)
		f->rows = (uint64_t)a->shape[0];
	if (f->rows == (uint64_t)a->shape[0])
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "%lld rows, but '%s' has %llu; all arrays must have "
			  "as many, or say each=file",
			  (long long)a->shape[0], s->names[0],
			  (unsigned long long)f->rows);
}

static int open_array(struct npz *s, struct file *f, int i,
		      const struct mr_zip_member *m, struct mr_arena *mem,
		      struct libdeflate_decompressor **d, struct mr_err *err)
{
	struct mr_npy a = { .path = f->path, .member = s->names[i] };
	int e = mr_npz_head(f->in, m, &a, err);

	if (e)
		return e;
	e = take_type(s, i, &a, err);
	if (!e && s->each == EACH_ROW)
		e = check_rows(s, f, i, &a, err);
	if (e) {
		mr_npz_error(&a, err);
		return e;
	}
	if (s->each == EACH_FILE)
		return 0;
	f->part[i].offset = a.offset;
	f->part[i].at = m->at + a.offset;
	return m->deflated ? unpack_array(s, f, &f->part[i], m, mem, d, err) :
			     0;
}

static int open_members(struct npz *s, struct file *f, struct mr_arena *mem,
			struct libdeflate_decompressor **d, struct mr_err *err)
{
	struct mr_zip_member *m;
	size_t n;
	int e = mr_zip_list(f->in, mem, &m, &n, err);

	if (e)
		return e;
	if (!s->fields_n && (e = names_found(s, m, n, err)))
		return mr_err_prefix(err, "%s: ", f->path);
	if (s->each == EACH_ROW) {
		f->part = mr_alloc((size_t)s->fields_n, sizeof(*f->part), err);
		if (!f->part)
			return MR_ENOMEM;
	}
	for (int i = 0; !e && i < s->fields_n; i++) {
		const struct mr_zip_member *one =
			mr_npz_find(f->path, s->names[i], m, n, err);

		e = one ? open_array(s, f, i, one, mem, d, err) : MR_EDATA;
	}
	return e;
}

static bool all_unpacked(const struct npz *s, const struct file *f)
{
	for (int i = 0; i < s->fields_n; i++)
		if (!f->part || !f->part[i].mem)
			return false;
	return true;
}

static void drop_parts(const struct npz *s, struct file *f)
{
	for (int i = 0; f->part && i < s->fields_n; i++)
		free(f->part[i].mem);
	free(f->part);
	f->part = NULL;
}

static void forget_names(struct npz *s)
{
	for (int i = 0; i < s->fields_n; i++)
		free(s->names[i]);
	s->fields_n = 0;
}

/* It is as many bad samples as its arrays have rows, or one. */
static int lose(struct npz *s, struct file *f, struct mr_err *err)
{
	struct mr_err other;

	f->lost = mr_strdup(err->text, &other);
	if (!f->lost) {
		*err = other;
		return MR_ENOMEM;
	}
	drop_parts(s, f);
	if (!s->like && !*s->array)
		forget_names(s); /* which may have been its own */
	f->rows = f->rows ? f->rows : 1;
	return 0;
}

static int open_one(struct npz *s, struct file *f,
		    const struct mr_source_env *env, struct mr_arena *mem,
		    struct libdeflate_decompressor **d, struct mr_err *err)
{
	struct mr_fields fields = s->fields;
	uint64_t held = s->held;
	int e = mr_input_open(&f->in, f->path, err);

	if (!e)
		e = open_members(s, f, mem, d, err);
	mr_arena_reset(mem);
	if (e && mr_part_forgiven(env, s->files, e)) {
		s->fields = fields;
		s->held = held;
		e = lose(s, f, err);
	} else if (!e && !s->like) {
		s->like = f;
	}
	if (e)
		return e;
	if (s->each == EACH_FILE)
		f->rows = 1;
	if (s->each == EACH_FILE || f->lost || all_unpacked(s, f)) {
		mr_input_close(f->in);
		f->in = NULL;
	}
	f->first = s->samples;
	if (f->rows > INT64_MAX - s->samples)
		return mr_err_set(err, MR_ELIMIT, "%s: too many samples",
				  s->glob);
	s->samples += f->rows;
	return 0;
}

static int list_files(struct npz *s, const char *cwd, struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, s->glob, err), **paths;
	size_t n = 0;
	int e = full ? mr_input_list(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	s->file = mr_alloc(n, sizeof(*s->file), err);
	for (size_t i = 0; i < n; i++) {
		if (s->file)
			s->file[s->files++].path = paths[i];
		else
			free(paths[i]);
	}
	free(paths);
	return s->file ? 0 : MR_ENOMEM;
}

/* What is asked for, else a part of the budget, as far as that is known. */
static uint64_t room_of(const struct npz *s, const struct mr_source_env *env)
{
	uint64_t most = 1ull << 30;

	if (s->unpacked)
		return s->unpacked;
	return env->memory && env->memory / 2 < most ? env->memory / 2 : most;
}

static int open_npz(void *self, const struct mr_source_env *env,
		    struct mr_err *err)
{
	struct npz *s = self;
	struct libdeflate_decompressor *d = NULL;
	struct mr_arena mem;
	int e = *s->array ? names_given(s, err) : 0;

	if (!e)
		e = list_files(s, env->cwd, err);
	s->room = room_of(s, env);
	mr_arena_init(&mem, s->room > LIST_MAX ? s->room : LIST_MAX);
	for (size_t i = 0; !e && i < s->files; i++)
		e = open_one(s, &s->file[i], env, &mem, &d, err);
	mr_arena_fini(&mem);
	libdeflate_free_decompressor(d);
	if (e)
		return e;
	if (!s->like)
		return mr_err_set(err, MR_EDATA, "%s", s->file[0].lost);
	if (!s->samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: its arrays have "
				  "no rows",
				  s->glob);
	for (int i = 0; s->each == EACH_ROW && i < s->fields_n; i++) {
		struct mr_tensor t = mr_tensor_of(&s->fields.item[i].spec);

		s->row_bytes[i] = mr_tensor_bytes(&t);
	}
	return 0;
}

static void close_npz(void *self)
{
	struct npz *s = self;

	for (size_t i = 0; i < s->files; i++) {
		struct file *f = &s->file[i];

		drop_parts(s, f);
		mr_input_close(f->in);
		free(f->path);
		free(f->lost);
	}
	free(s->file);
	forget_names(s);
	s->file = NULL;
	s->files = 0;
}

static uint64_t count(const void *self)
{
	return ((const struct npz *)self)->samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	*out = ((const struct npz *)self)->fields;
}

/* ---- samples ---- */

struct local {
	struct libdeflate_decompressor *inflate;
};

static void drop(void *local)
{
	libdeflate_free_decompressor(((struct local *)local)->inflate);
}

/* The last file that begins at or before the sample. */
static const struct file *file_of(const struct npz *s, uint64_t index)
{
	size_t lo = 0, hi = s->files;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->file[mid].first <= index)
			lo = mid;
		else
			hi = mid;
	}
	return &s->file[lo];
}

static int load_row(const struct mr_load *ld, const struct file *f,
		    struct mr_tensor *t)
{
	const struct npz *s = ld->self;
	uint64_t row = ld->index - f->first;
	int e = 0;

	for (int i = 0; !e && i < s->fields_n; i++) {
		const struct part *p = &f->part[i];
		size_t n = s->row_bytes[i];

		if (p->mem) {
			t[i].data = p->mem + p->offset + row * n;
			continue;
		}
		t[i].data = ld->room(ld, i, n);
		if (!t[i].data)
			return ld->err->code;
		e = mr_input_read(f->in, t[i].data, n, p->at + row * n,
				  ld->err);
	}
	return e;
}

static int load_file(const struct mr_load *ld, const struct file *f,
		     struct mr_tensor *t)
{
	const struct npz *s = ld->self;
	struct mr_zip_member *m;
	struct mr_input *in;
	size_t n;
	int e = mr_input_open(&in, f->path, ld->err);

	if (!e)
		e = mr_zip_list(in, ld->scratch, &m, &n, ld->err);
	for (int i = 0; !e && i < s->fields_n; i++) {
		struct mr_npz_whole w = {
			.in = in,
			.a = { .path = f->path, .member = s->names[i] },
			.want = &s->fields.item[i].spec,
			.field = i,
			.inflate = &((struct local *)ld->local)->inflate,
		};

		w.m = mr_npz_find(f->path, s->names[i], m, n, ld->err);
		e = w.m ? mr_npz_load(ld, &w, &t[i]) : MR_EDATA;
	}
	mr_input_close(in);
	return e;
}

static int load(const struct mr_load *ld, struct mr_tensor *t)
{
	const struct npz *s = ld->self;
	const struct file *f = file_of(s, ld->index);

	if (f->lost)
		return mr_err_set(ld->err, MR_EDATA, "%s", f->lost);
	return s->each == EACH_ROW ? load_row(ld, f, t) : load_file(ld, f, t);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct npz *s = self;
	const struct file *f = file_of(s, index);

	if (s->each == EACH_FILE)
		return (size_t)snprintf(buf, cap, "%s", f->path);
	return (size_t)snprintf(buf, cap, "%s[%llu]", f->path,
				(unsigned long long)(index - f->first));
}

static uint64_t fingerprint(const void *self)
{
	const struct npz *s = self;
	uint64_t h = s->samples;

	for (int i = 0; i < s->fields.n; i++) {
		const struct mr_spec *p = &s->fields.item[i].spec;

		h = XXH3_64bits_withSeed(s->names[i], strlen(s->names[i]), h);
		h = XXH3_64bits_withSeed(p->shape, sizeof(p->shape),
					 h + (uint64_t)p->dtype);
	}
	for (size_t i = 0; i < s->files; i++)
		h = XXH3_64bits_withSeed(&s->file[i].rows,
					 sizeof(s->file[i].rows), h);
	return h;
}

static const char *file(const void *self, size_t i)
{
	const struct npz *s = self;

	return i < s->files ? s->file[i].path : NULL;
}

const struct mr_source mr_source_npz = {
	.name = "npz",
	.help = "arrays of NumPy's .npz files, by row or by file",
	.size = sizeof(struct npz),
	.params = params,
	.open = open_npz,
	.close = close_npz,
	.count = count,
	.fields = fields,
	.load = load,
	.key = key,
	.fingerprint = fingerprint,
	.local = sizeof(struct local),
	.drop = drop,
	.file = file,
};
