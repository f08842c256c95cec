/* SPDX-License-Identifier: Apache-2.0 */
/* embed: the rows of a table that a list of ids names. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/le.h"
#include "kernel/stream.h"
#include "op/op.h"

struct embed {
	const char *table;
	uint8_t *map; /* the file, shared by all threads and processes */
	size_t bytes, offset, row;
	enum mr_dtype dtype;
	int64_t shape[2];
};

static const struct mr_param params[] = {
	MR_TEXT(struct embed, table, NULL,
		"a .npy file, f32 or f16, with a row for each id"),
	MR_PARAM_END
};

/* ---- the table ---- */

static const char *blanks(const char *s)
{
	return s + strspn(s, " \t\n");
}

/* What stands behind 'key': in the header's text, or "". */
static const char *value_of(const char *text, const char *key)
{
	const char *s = strstr(text, key);

	s = s ? blanks(s + strlen(key)) : "";
	return *s == ':' ? blanks(s + 1) : "";
}

/* "(12, 34)", also with a comma behind the last. */
static bool parse_shape(const char *s, int64_t *shape)
{
	for (int i = 0; i < 2; i++) {
		char *end;

		if (*s != (i ? ',' : '('))
			return false;
		s = blanks(s + 1);
		if (*s < '0' || *s > '9')
			return false;
		errno = 0;
		shape[i] = strtoll(s, &end, 10);
		s = blanks(end);
		if (errno)
			return false;
	}
	return *blanks(s + (*s == ',')) == ')';
}

/* The header's text, a dictionary as Python writes it. */
static bool parse_text(struct embed *t, const char *s)
{
	const char *type = value_of(s, "'descr'");

	t->dtype = !strncmp(type, "'<f4'", 5) ? MR_F32 :
		   !strncmp(type, "'<f2'", 5) ? MR_F16 :
						MR_NONE;
	return t->dtype &&
	       !strncmp(value_of(s, "'fortran_order'"), "False", 5) &&
	       parse_shape(value_of(s, "'shape'"), t->shape);
}

static int parse_head(struct embed *t, const uint8_t *head, size_t n,
		      struct mr_err *err)
{
	size_t at = n > 6 && head[6] == 1 ? 10 : 12;
	int64_t all;

	if (n < 16 || memcmp(head, "\x93NUMPY", 6) || head[6] < 1 ||
	    head[6] > 3)
		return mr_err_set(err, MR_EDATA, "%s: no NumPy file", t->table);
	t->offset = at + (at == 10 ? mr_le16(head + 8) : mr_le32(head + 8));
	if (!parse_text(t, (const char *)head + at))
		return mr_err_set(err, MR_ETYPE,
				  "%s: want a table of two dimensions, <f4 or "
				  "<f2, in C order; convert it: np.save('%s', "
				  "np.ascontiguousarray(a, '<f4'))",
				  t->table, t->table);
	if (!mr_shape_elements(t->shape, 2, t->dtype, &all) ||
	    t->offset > t->bytes ||
	    (uint64_t)all * mr_dtype_size(t->dtype) > t->bytes - t->offset)
		return mr_err_set(err, MR_EDATA,
				  "%s: truncated: %lld rows of %lld do not "
				  "fit in %zu bytes",
				  t->table, (long long)t->shape[0],
				  (long long)t->shape[1], t->bytes);
	t->row = (size_t)t->shape[1] * mr_dtype_size(t->dtype);
	return 0;
}

/* As many of n bytes as the file has; -1 with errno. */
static ssize_t read_head(int fd, uint8_t *to, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(fd, to + got, n - got, (off_t)got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -1 : (ssize_t)got;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

static int map_table(struct embed *t, int fd, struct mr_err *err)
{
	uint8_t head[256 + 1] = { 0 }; /* NumPy's has 128 bytes */
	ssize_t n = read_head(fd, head, sizeof(head) - 1);
	struct stat st;
	int e;

	if (n < 0 || fstat(fd, &st))
		return mr_err_sys(err, errno, t->table, "cannot read");
	t->bytes = (size_t)st.st_size;
	e = parse_head(t, head, (size_t)n, err);
	if (!e)
		e = mr_guard_take(err);
	if (e)
		return e;
	t->map = mmap(NULL, t->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (t->map != MAP_FAILED)
		return 0;
	t->map = NULL;
	return mr_err_sys(err, errno, t->table, "cannot map");
}

static int open_table(void *self, struct mr_err *err)
{
	struct embed *t = self;
	int e, fd = open(t->table, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return mr_err_sys(err, errno, t->table, "cannot open");
	e = map_table(t, fd, err);
	close(fd);
	return e;
}

static void close_table(void *self)
{
	struct embed *t = self;

	if (t->map)
		munmap(t->map, t->bytes);
	t->map = NULL;
}

/* ---- a sample ---- */

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct embed *t = self;

	if (in->dtype != MR_I32 || in->ndim != 1)
		return mr_op_refuse("embed", in, "want a list of ids, i32",
				    err);
	*out = (struct mr_spec){ .dtype = t->dtype,
				 .ndim = 2,
				 .shape = { in->shape[0], t->shape[1] } };
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct embed *t = cx->self;

	out->shape[0] = in->shape[0];
	out->shape[1] = t->shape[1];
	return 0;
}

static int no_row(const struct mr_opctx *cx, int32_t id, int64_t at)
{
	const struct embed *t = cx->self;

	if (!t->shape[0])
		return mr_err_set(cx->err, MR_EDATA,
				  "id %d at position %lld: %s has no rows", id,
				  (long long)at, t->table);
	return mr_err_set(cx->err, MR_EDATA,
			  "id %d at position %lld: %s has rows 0 to %lld", id,
			  (long long)at, t->table, (long long)t->shape[0] - 1);
}

static void copy_row(const struct embed *t, const uint8_t *rows, int32_t id,
		     uint8_t *to, bool large)
{
	const uint8_t *from = rows + (size_t)id * t->row;

	if (large)
		mr_stream_copy(to, from, t->row);
	else
		memcpy(to, from, t->row);
}

/* Rows of n ids; how many there are before one that the table lacks, or -1
 * when the file has become shorter. */
static int64_t gather(const struct embed *t, const int32_t *id, int64_t n,
		      uint8_t *to)
{
	const uint8_t *rows = t->map + t->offset;
	bool large = (size_t)n * t->row >= MR_STREAM_LEAST;
	int64_t i;

	if (mr_guard_set()) {
		mr_guard_disarm();
		return -1;
	}
	/* once for all of them: a row may be as short as a few bytes */
	mr_guard_arm(t->map, t->bytes);
	for (i = 0; i < n && id[i] >= 0 && id[i] < t->shape[0]; i++)
		copy_row(t, rows, id[i], to + (size_t)i * t->row, large);
	mr_guard_disarm();
	mr_stream_end();
	return i;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct embed *t = cx->self;
	int64_t n = in->shape[0], done;
	int32_t *id = mr_arena_take(cx->scratch, (size_t)n * sizeof(*id));
	struct mr_guard outer;

	if (!id)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "%lld ids need %zu bytes; raise --memory",
				  (long long)n, (size_t)n * sizeof(*id));
	/* they may lie in a mapping, which the sample's own guard is for */
	memcpy(id, in->data, (size_t)n * sizeof(*id));
	mr_guard_save(&outer);
	done = gather(t, id, n, out->data);
	mr_guard_restore(&outer);
	if (done < 0)
		return mr_err_set(cx->err, MR_EIO,
				  "%s: it has become shorter since it was "
				  "opened",
				  t->table);
	return done < n ? no_row(cx, id[done], done) : 0;
}

static const char *file(const void *self, size_t i)
{
	const struct embed *t = self;

	return i ? NULL : t->table;
}

const struct mr_op mr_op_embed = {
	.name = "embed",
	.help = "the rows of a table that ids name",
	.size = sizeof(struct embed),
	.params = params,
	.open = open_table,
	.close = close_table,
	.infer = infer,
	.shape = shape,
	.run = run,
	.file = file,
};
