/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of files, lists, NumPy arrays and made-up samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/param.h"
#include "io/input.h"
#include "load.h"
#include "source/paths.h"
#include "source/walk.h"

extern const struct mr_source mr_source_files, mr_source_list, mr_source_npy,
	mr_source_synthetic;

/* ---- a directory of its own for each test ---- */

static char top[64];

static int make_top(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/mr-sources-XXXXXX");
	return mkdtemp(top) ? chmod(top, 0755) : -1;
}

static int remove_top(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", top);
	return system(cmd);
}

static const char *at(const char *name)
{
	static char path[4][4096];
	static int turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s%s%s", top, *name ? "/" : "", name);
	return p;
}

static void put(const char *name, const void *data, size_t n)
{
	struct mr_err err;

	if (mr_file_write(at(name), data, n, &err))
		fail_msg("%s", err.text);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void put_dir(const char *name)
{
	assert_int_equal(mkdir(at(name), 0755), 0);
}

static void put_link(const char *name, const char *target)
{
	assert_int_equal(symlink(target, at(name)), 0);
}

/* ---- a source opened from a text such as "dir ext=jpg" ---- */

struct opened {
	const struct mr_source *src;
	void *self;
	struct mr_arena strings;
	struct mr_err err;
	int code;
};

static void set_param(struct opened *o, const char *name, const char *value)
{
	const struct mr_param *p = mr_param_find(o->src->params, name);

	assert_non_null(p);
	if (mr_param_set(p, o->self, value, &o->strings, &o->err))
		fail_msg("%s", o->err.text);
}

/* Main value, then at most one more parameter. */
static struct opened open_with(const struct mr_source *src, const char *value,
			       const char *name, const char *more, int threads)
{
	struct opened o = { .src = src, .self = calloc(1, src->size) };
	struct mr_source_env env = { .threads = threads, .cwd = top };

	mr_arena_init(&o.strings, 1 << 20);
	mr_param_defaults(src->params, o.self);
	if (value)
		set_param(&o, src->params[0].name, value);
	if (name)
		set_param(&o, name, more);
	o.code = src->open(o.self, &env, &o.err);
	return o;
}

static void shut(struct opened *o)
{
	o->src->close(o->self);
	free(o->self);
	mr_arena_fini(&o->strings);
}

static struct opened must_open(const struct mr_source *src, const char *value,
			       const char *name, const char *more)
{
	struct opened o = open_with(src, value, name, more, 2);

	if (o.code)
		fail_msg("%s", o.err.text);
	return o;
}

/* Opening fails with that code, and the message has all the words. */
static void must_fail(const struct mr_source *src, const char *value,
		      const char *name, const char *more, int code,
		      const char *const words[])
{
	struct opened o = open_with(src, value, name, more, 2);

	assert_int_equal(o.code, code);
	assert_int_equal(o.err.code, code);
	for (int i = 0; words[i]; i++)
		if (!strstr(o.err.text, words[i]))
			fail_msg("'%s' is not in: %s", words[i], o.err.text);
	shut(&o);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static int64_t label_of(const struct opened *o, uint64_t i)
{
	int64_t label = -99;
	struct loaded ld;
	char bytes[64] = "";
	size_t n = 3;

	if (o->src == &mr_source_npy) {
		struct mr_extent e;

		o->src->locate(o->self, i, NULL, 0, &e, NULL);
		n = (size_t)e.length;
	}
	loaded_init(&ld, o->src, o->self);
	loaded_begin(&ld, i);
	assert_int_equal(o->src->unpack(&ld.ld, bytes, n, ld.f), 0);
	assert_ptr_equal(ld.f[0].data, bytes);
	if (ld.fields.n > 1)
		memcpy(&label, ld.f[1].data, sizeof(label));
	loaded_fini(&ld, o->src);
	return label;
}

/* "key:label key:label ..." */
static char *listing(const struct opened *o)
{
	struct mr_str s = { 0 };

	for (uint64_t i = 0; i < o->src->count(o->self); i++) {
		char key[4096];

		o->src->key(o->self, i, key, sizeof(key));
		mr_str_addf(&s, "%s%s:%lld", i ? " " : "", key,
			    (long long)label_of(o, i));
	}
	return mr_str_take(&s);
}

static void expect(struct opened *o, const char *want)
{
	char *have = listing(o);

	assert_string_equal(have, want);
	free(have);
	shut(o);
}

/* ---- files ---- */

static void test_files_gives_a_class_per_folder(void **state)
{
	struct mr_fields fs;
	struct opened o;

	(void)state;
	put_dir("dog");
	put_dir("cat");
	put_text("dog/2.jpg", "x");
	put_text("dog/10.jpg", "x");
	put_text("cat/a.png", "x");
	put_text("beside.jpg", "x");
	o = must_open(&mr_source_files, ".", NULL, NULL);
	o.src->fields(o.self, &fs);
	assert_int_equal(fs.n, 2);
	assert_string_equal(fs.item[0].name, "data");
	assert_int_equal(fs.item[0].spec.dtype, MR_U8);
	assert_int_equal(fs.item[0].spec.ndim, 1);
	assert_int_equal(fs.item[0].spec.shape[0], MR_ANY);
	assert_string_equal(fs.item[1].name, "label");
	assert_int_equal(fs.item[1].spec.dtype, MR_I64);
	assert_int_equal(fs.item[1].spec.ndim, 0);
	assert_string_equal(o.src->class_name(o.self, 0), "cat");
	assert_string_equal(o.src->class_name(o.self, 1), "dog");
	assert_null(o.src->class_name(o.self, 2));
	expect(&o, "cat/a.png:0 dog/10.jpg:1 dog/2.jpg:1");
}

static void test_files_are_ordered_as_in_imagefolder(void **state)
{
	struct opened o;

	(void)state;
	/* Classes by name, so "a" and all in it come before "a-x"; inside a
	 * class whole paths are compared, where "-" is before "/". */
	put_dir("a");
	put_dir("a-x");
	put_dir("a/b");
	put_dir("a/b-y");
	put_dir("a/b/c");
	put_text("a-x/1", "x");
	put_text("a/z", "x");
	put_text("a/b/2", "x");
	put_text("a/b/c/3", "x");
	put_text("a/b-y/4", "x");
	put_text("a/B", "x");
	o = must_open(&mr_source_files, ".", NULL, NULL);
	expect(&o, "a/B:0 a/z:0 a/b/2:0 a/b-y/4:0 a/b/c/3:0 a-x/1:1");
}

static void test_files_in_a_flat_folder_are_one_class(void **state)
{
	struct opened o;

	(void)state;
	put_text("b.jpg", "x");
	put_text("a.jpg", "x");
	put_text(".hidden", "x");
	put_dir(".git");
	put_text(".git/config", "x");
	o = must_open(&mr_source_files, top, NULL, NULL);
	assert_null(o.src->class_name(o.self, 0));
	expect(&o, "a.jpg:0 b.jpg:0");
}

static void test_files_with_another_ending_are_left_out(void **state)
{
	struct opened o;

	(void)state;
	put_text("a.JPG", "x");
	put_text("b.jpeg", "x");
	put_text("c.png", "x");
	put_text("jpg", "x");
	put_text("d.tar.gz", "x");
	o = must_open(&mr_source_files, ".", "ext", "jpg,.Png");
	expect(&o, "a.JPG:0 c.png:0");
	o = must_open(&mr_source_files, ".", "ext", "tar.gz");
	expect(&o, "d.tar.gz:0");
	must_fail(&mr_source_files, ".", "ext", "jpg,,png", MR_EINVAL,
		  WORDS("ext=jpg,,png"));
	must_fail(&mr_source_files, ".", "ext", "jpg,", MR_EINVAL,
		  WORDS("ext=jpg,"));
}

static void test_files_keeps_empty_classes(void **state)
{
	struct opened o;

	(void)state;
	put_dir("a");
	put_dir("b");
	put_dir("c");
	put_dir("c/empty");
	put_text("b/1", "x");
	o = must_open(&mr_source_files, ".", NULL, NULL);
	assert_string_equal(o.src->class_name(o.self, 0), "a");
	assert_string_equal(o.src->class_name(o.self, 2), "c");
	assert_null(o.src->class_name(o.self, 3));
	expect(&o, "b/1:1");
}

static void test_files_follows_links_but_not_in_circles(void **state)
{
	struct opened o;

	(void)state;
	put_dir("a");
	put_text("a/1", "x");
	put_dir("a/deep");
	put_link("a/deep/up", "..");
	put_link("a/root", top);
	put_link("a/self", ".");
	put_link("a/file", "1");
	put_link("a/gone", "nowhere");
	put_link("b", "a");
	assert_int_equal(mkfifo(at("a/pipe"), 0600), 0);
	o = must_open(&mr_source_files, ".", NULL, NULL);
	/* Both names of a directory count; a link to nothing is a sample
	 * that cannot be read, not one that is missing. */
	expect(&o, "a/1:0 a/file:0 a/gone:0 b/1:1 b/file:1 b/gone:1");
}

static void test_files_locates_each_file_by_its_path(void **state)
{
	struct opened o;
	struct mr_extent e;
	struct mr_err err;
	char buf[4096], want[4096];

	(void)state;
	put_dir("a");
	put_text("a/1", "x");
	o = must_open(&mr_source_files, "./", NULL, NULL);
	assert_int_equal(o.src->locate(o.self, 0, buf, sizeof(buf), &e, &err),
			 0);
	snprintf(want, sizeof(want), "%s/./a/1", top);
	assert_string_equal(e.path, want);
	assert_int_equal(access(e.path, R_OK), 0);
	assert_int_equal(e.fd, -1);
	assert_int_equal(e.offset, 0);
	assert_true(e.length == MR_TO_END);
	assert_int_equal(o.src->locate(o.self, 0, buf, strlen(buf), &e, &err),
			 MR_ELIMIT);
	assert_int_equal(o.src->key(o.self, 0, buf, 2), 3);
	assert_string_equal(buf, "a");
	shut(&o);
}

static void test_files_missing_directory_is_an_error(void **state)
{
	(void)state;
	must_fail(&mr_source_files, "nowhere", NULL, NULL, MR_EIO,
		  WORDS(at("nowhere"), "No such file", "check the path"));
}

static void test_files_given_a_file_is_an_error(void **state)
{
	(void)state;
	put_text("one.jpg", "x");
	must_fail(&mr_source_files, "one.jpg", NULL, NULL, MR_EIO,
		  WORDS(at("one.jpg"), "Not a directory", "give the"));
}

static void test_files_unreadable_directory_is_an_error(void **state)
{
	bool root = geteuid() == 0;

	(void)state;
	put_dir("a");
	put_text("a/1", "x");
	put_dir("shut");
	assert_int_equal(chmod(at("shut"), 0), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	must_fail(&mr_source_files, ".", NULL, NULL, MR_EIO,
		  WORDS("/shut: ", "Permission denied", "chmod"));
	must_fail(&mr_source_files, "shut", NULL, NULL, MR_EIO,
		  WORDS(at("shut"), "Permission denied"));
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(at("shut"), 0755), 0);
}

static void test_files_empty_data_set_is_an_error(void **state)
{
	(void)state;
	must_fail(&mr_source_files, ".", NULL, NULL, MR_EDATA,
		  WORDS(top, "empty", "check the path"));
	put_text("a.txt", "x");
	must_fail(&mr_source_files, ".", "ext", "jpg", MR_EDATA,
		  WORDS(top, "that end in jpg", "ext="));
	put_dir("class");
	must_fail(&mr_source_files, ".", NULL, NULL, MR_EDATA,
		  WORDS(top, "1 files", "move them"));
}

static void touch(const char *name)
{
	int fd = open(at(name), O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void test_files_are_the_same_with_1_2_and_7_threads(void **state)
{
	static const int threads[] = { 1, 2, 7 };
	char name[300], *first = NULL;
	uint64_t hash = 0;

	(void)state;
	for (int d = 0; d < 40; d++) {
		snprintf(name, sizeof(name), "c%d", d);
		put_dir(name);
		snprintf(name, sizeof(name), "c%d/sub", d);
		put_dir(name);
		for (int i = 0; i < (d == 3 ? 3000 : 40); i++) {
			snprintf(name, sizeof(name), "c%d/%sn%d_%d.JPEG", d,
				 i % 5 ? "" : "sub/", d, i * 7919 % 10000);
			touch(name);
		}
	}
	for (size_t i = 0; i < MR_COUNT(threads); i++) {
		struct opened o = open_with(&mr_source_files, ".", NULL, NULL,
					    threads[i]);
		char *have;

		assert_int_equal(o.code, 0);
		assert_int_equal(o.src->count(o.self), 3000 + 39 * 40);
		have = listing(&o);
		if (!first) {
			first = have;
			hash = o.src->fingerprint(o.self);
		} else {
			assert_string_equal(have, first);
			assert_true(hash == o.src->fingerprint(o.self));
			free(have);
		}
		shut(&o);
	}
	free(first);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void test_text_sort_agrees_with_strcmp(void **state)
{
	enum { N = 5000 };
	static struct mr_text text[N];
	static char *want[N];
	struct mr_text_sort sort = { 0 };
	char *pool = calloc(N, 64);
	size_t used = 0;
	uint64_t r = 1;

	(void)state;
	for (int i = 0; i < N; i++) {
		/* Few letters and shared beginnings: many ties to break. */
		int n = snprintf(pool + used, 64, "%s",
				 i % 3 ? "shared_beginning_" : "");

		r = r * 6364136223846793005u + 1442695040888963407u;
		for (uint64_t k = r >> 59; k; k--) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			pool[used + (size_t)n++] = (char)("ab\xc3/"[r >> 62]);
		}
		text[i] = (struct mr_text){ .at = (uint32_t)used,
					    .len = (uint32_t)n };
		want[i] = pool + used;
		used += (size_t)n + 1;
	}
	assert_int_equal(mr_text_sort(&sort, pool, text, N, NULL), 0);
	qsort(want, N, sizeof(*want), by_bytes);
	for (int i = 0; i < N; i++)
		assert_string_equal(pool + text[i].at, want[i]);
	mr_text_sort_fini(&sort);
	free(pool);
}

/* ---- list ---- */

static void test_list_takes_tabs_with_integer_labels(void **state)
{
	struct opened o;

	(void)state;
	put_text("l.tsv", "# a comment\n\nb,1.jpg\t-7\r\n\r\na.jpg\t42");
	o = must_open(&mr_source_list, "l.tsv", NULL, NULL);
	assert_null(o.src->class_name(o.self, 0));
	expect(&o, "b,1.jpg:-7 a.jpg:42");
}

static void test_list_takes_commas_with_quotes_and_class_names(void **state)
{
	struct opened o;

	(void)state;
	put_text("l.csv", "\xef\xbb\xbf"
			  "Path,label\n"
			  "\"x,\"\"1\"\".jpg\", dog\n"
			  "y.jpg,\"cat\"\n"
			  "z.jpg,dog\n");
	o = must_open(&mr_source_list, "l.csv", NULL, NULL);
	assert_string_equal(o.src->class_name(o.self, 0), "cat");
	assert_string_equal(o.src->class_name(o.self, 1), "dog");
	assert_null(o.src->class_name(o.self, 2));
	expect(&o, "x,\"1\".jpg:1 y.jpg:0 z.jpg:1");
}

static void test_list_with_one_word_label_has_only_class_names(void **state)
{
	struct opened o;

	(void)state;
	put_text("l.csv", "a,7\nb,07\nc,x\n");
	o = must_open(&mr_source_list, "l.csv", NULL, NULL);
	expect(&o, "a:1 b:0 c:2");
	put_text("l.csv", "a,7\nb,07\nc,-1\n");
	o = must_open(&mr_source_list, "l.csv", NULL, NULL);
	expect(&o, "a:7 b:7 c:-1");
}

static void test_list_without_labels_gives_label_0(void **state)
{
	struct opened o;

	(void)state;
	put_text("l.txt", "filename\nb.jpg\na.jpg\n");
	o = must_open(&mr_source_list, "l.txt", NULL, NULL);
	expect(&o, "b.jpg:0 a.jpg:0");
}

static void expect_path(struct opened *o, uint64_t i, const char *want)
{
	char buf[4096];
	struct mr_extent e;

	assert_int_equal(
		o->src->locate(o->self, i, buf, sizeof(buf), &e, &o->err), 0);
	assert_string_equal(e.path, want);
}

static void test_list_paths_begin_at_its_folder_or_at_root(void **state)
{
	struct opened o;

	(void)state;
	put_dir("lists");
	put_text("lists/l.csv", "a.jpg\n/abs/b.jpg\n");
	o = must_open(&mr_source_list, "lists/l.csv", NULL, NULL);
	expect_path(&o, 0, at("lists/a.jpg"));
	expect_path(&o, 1, "/abs/b.jpg");
	shut(&o);
	o = must_open(&mr_source_list, "lists/l.csv", "root", "images/");
	expect_path(&o, 0, at("images/a.jpg"));
	expect_path(&o, 1, "/abs/b.jpg");
	shut(&o);
}

static void bad_list(const char *text, const char *where, const char *what)
{
	put_text("l.csv", text);
	must_fail(&mr_source_list, "l.csv", NULL, NULL, MR_EDATA,
		  WORDS(where, what));
}

static void test_list_errors_name_file_and_line(void **state)
{
	(void)state;
	bad_list("a,1\nb\n", "l.csv:2:", "no label");
	bad_list("a\n\nb,1\n", "l.csv:3:", "a label, but");
	bad_list("a,1\nb,\n", "l.csv:2:", "label is empty");
	bad_list("a,1\n,1\n", "l.csv:2:", "no path");
	bad_list("a,1\nb,1,2\n", "l.csv:2:", "more than two columns");
	bad_list("a,1\n\"b,1\n", "l.csv:2:", "quote is not closed");
	bad_list("a,1\n\"b\"c,1\n", "l.csv:2:", "after a quoted cell");
	bad_list("a,1\nb,99999999999999999999\n", "l.csv:2:", "64 bits");
	put("l.csv", "a,1\nb\0c,1\n", 10);
	must_fail(&mr_source_list, "l.csv", NULL, NULL, MR_EDATA,
		  WORDS("l.csv:2:", "zero byte"));
}

static void test_list_that_is_missing_or_empty_is_an_error(void **state)
{
	(void)state;
	must_fail(&mr_source_list, "no.csv", NULL, NULL, MR_EIO,
		  WORDS(at("no.csv"), "No such file"));
	must_fail(&mr_source_list, ".", NULL, NULL, MR_EIO,
		  WORDS(top, "directory"));
	put_text("l.csv", "# nothing\npath,label\n");
	must_fail(&mr_source_list, "l.csv", NULL, NULL, MR_EDATA,
		  WORDS(at("l.csv"), "empty"));
}

static void test_list_with_an_endless_line_is_refused(void **state)
{
	char *text = malloc(1 << 17);

	(void)state;
	memset(text, 'x', 1 << 17);
	put("l.csv", text, 1 << 17);
	free(text);
	must_fail(&mr_source_list, "l.csv", NULL, NULL, MR_EDATA,
		  WORDS("l.csv:1:", "longer than"));
}

static void test_list_with_many_classes_sorts_them(void **state)
{
	struct mr_str s = { 0 };
	struct opened o;
	char *text;

	(void)state;
	for (int i = 0; i < 5000; i++)
		mr_str_addf(&s, "f%d,class%04d\n", i, 4999 - i);
	text = mr_str_take(&s);
	put_text("l.csv", text);
	free(text);
	o = must_open(&mr_source_list, "l.csv", NULL, NULL);
	for (uint64_t i = 0; i < 5000; i += 7)
		assert_int_equal(label_of(&o, i), 4999 - (int)i);
	assert_string_equal(o.src->class_name(o.self, 1234), "class1234");
	shut(&o);
}

/* ---- npy ---- */

/* A file of format `major` with that header and n bytes 0, 1, 2, ... */
static void put_npy(const char *name, int major, const char *header, size_t n)
{
	struct mr_str s = { 0 };
	size_t len = strlen(header);

	mr_str_addn(&s, "\x93NUMPY", 6);
	mr_str_addn(&s,
		    (char[]){ (char)major, 0, (char)(len & 255),
			      (char)(len >> 8), 0, 0 },
		    major == 1 ? 4 : 6);
	mr_str_addn(&s, header, len);
	for (size_t i = 0; i < n; i++)
		mr_str_addn(&s, (char[]){ (char)i }, 1);
	put(name, s.text, s.len);
	mr_str_fini(&s);
}

#define HEADER(descr, shape)                                                  \
	"{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", " \
	"}\n"

static void test_npy_locates_samples_across_files(void **state)
{
	struct opened o;
	struct mr_fields fs;
	struct mr_extent e;
	unsigned char b[12];

	(void)state;
	put_npy("b.npy", 2, HEADER("<i2", "(1, 3, 2)"), 12);
	put_npy("a.npy", 1, HEADER("<i2", "(2, 3, 2)"), 24);
	put_npy("c.npy", 3, HEADER("<i2", "(0, 3, 2)"), 0);
	put_npy("d.npy", 3, HEADER("<i2", "(1, 3, 2)"), 20);
	o = must_open(&mr_source_npy, "*.npy", NULL, NULL);
	assert_int_equal(o.src->count(o.self), 4);
	o.src->fields(o.self, &fs);
	assert_int_equal(fs.n, 1);
	assert_int_equal(fs.item[0].spec.dtype, MR_I16);
	assert_int_equal(fs.item[0].spec.ndim, 2);
	assert_int_equal(fs.item[0].spec.shape[0], 3);
	assert_int_equal(fs.item[0].spec.shape[1], 2);
	for (uint64_t i = 0; i < 4; i++) {
		o.src->locate(o.self, i, NULL, 0, &e, &o.err);
		assert_int_equal(e.length, 12);
		assert_int_equal(pread(e.fd, b, 12, (off_t)e.offset), 12);
		assert_int_equal(b[0], i == 1 ? 12 : 0);
		assert_int_equal(b[11], i == 1 ? 23 : 11);
	}
	assert_non_null(strstr(e.path, "d.npy"));
	shut(&o);
}

static void test_npy_takes_every_type_it_promises(void **state)
{
	static const struct {
		const char *header;
		enum mr_dtype dtype;
	} t[] = {
		{ HEADER("|u1", "(4,)"), MR_U8 },
		{ HEADER("|b1", "(4,)"), MR_U8 },
		{ HEADER("<i2", "(4,)"), MR_I16 },
		{ HEADER("<i4", "(4,)"), MR_I32 },
		{ HEADER("<i8", "(4,)"), MR_I64 },
		{ HEADER("<f2", "(4,)"), MR_F16 },
		{ HEADER("<f4", "(4,)"), MR_F32 },
		{ HEADER("<f8", "(4,)"), MR_F64 },
		{ "{\"shape\":(4,),\"descr\":\"<f8\",\"fortran_order\":False}",
		  MR_F64 },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(t); i++) {
		struct mr_fields fs;
		struct opened o;

		put_npy("x.npy", 1, t[i].header, 32);
		o = must_open(&mr_source_npy, "x.npy", NULL, NULL);
		o.src->fields(o.self, &fs);
		assert_int_equal(fs.item[0].spec.dtype, t[i].dtype);
		assert_int_equal(fs.item[0].spec.ndim, 0);
		shut(&o);
	}
}

static void test_npy_labels_become_int64(void **state)
{
	struct opened o;

	(void)state;
	put_npy("x.npy", 1, HEADER("|u1", "(3, 2)"), 6);
	put_npy("l1.npy", 1, HEADER("<i2", "(2,)"), 4);
	put_npy("l2.npy", 1, HEADER("<i2", "(1,)"), 2);
	o = must_open(&mr_source_npy, "x.npy", "labels", "l?.npy");
	assert_int_equal(label_of(&o, 0), 0x0100);
	assert_int_equal(label_of(&o, 1), 0x0302);
	assert_int_equal(label_of(&o, 2), 0x0100);
	shut(&o);
}

static void test_npy_negative_labels_stay_negative(void **state)
{
	struct opened o;
	const char head[] = HEADER("<i4", "(2,)");
	char file[256] = "\x93NUMPY\x01\x00";
	size_t n = sizeof(head) - 1;

	(void)state;
	file[8] = (char)n;
	memcpy(file + 10, head, n);
	memcpy(file + 10 + n, "\xfe\xff\xff\xff\x05\x00\x00\x00", 8);
	put("l.npy", file, 18 + n);
	put_npy("x.npy", 1, HEADER("|u1", "(2, 2)"), 4);
	o = must_open(&mr_source_npy, "x.npy", "labels", "l.npy");
	assert_int_equal(label_of(&o, 0), -2);
	assert_int_equal(label_of(&o, 1), 5);
	shut(&o);
}

static void bad_npy(const char *header, size_t n, int code,
		    const char *const words[])
{
	put_npy("x.npy", 1, header, n);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, code, words);
}

static void test_npy_header_with_overflowing_shape_is_refused(void **state)
{
	(void)state;
	bad_npy(HEADER("<f8", "(4294967296, 4294967296)"), 8, MR_EDATA,
		WORDS("x.npy", "64 bits"));
	bad_npy(HEADER("<f8", "(99999999999999999999,)"), 8, MR_EDATA,
		WORDS("x.npy", "dimension"));
	bad_npy(HEADER("<f8", "(2305843009213693952,)"), 8, MR_EDATA,
		WORDS("x.npy", "64 bits"));
	bad_npy(HEADER("<f8", "(-1,)"), 8, MR_EDATA,
		WORDS("x.npy", "dimension"));
	bad_npy(HEADER("|u1", "(1,1,1,1,1,1,1,1,1)"), 1, MR_EDATA,
		WORDS("x.npy", "more than 8 dimensions"));
}

static void test_npy_truncated_file_names_both_sizes(void **state)
{
	char want[32], have[32];
	size_t head = 10 + strlen(HEADER("<f4", "(10, 10)"));

	(void)state;
	snprintf(want, sizeof(want), "takes %zu bytes", head + 400);
	snprintf(have, sizeof(have), "has %zu", head + 399);
	bad_npy(HEADER("<f4", "(10, 10)"), 399, MR_EDATA,
		WORDS("x.npy", "truncated", want, have));
}

static void test_npy_damaged_headers_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"{}",
		"{'descr': '<f4', 'fortran_order': False}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
		"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
		"{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
		"{'descr': '<f4', 'shape': (1,), 'shape': (1,)}",
		"{'descr': <f4, 'fortran_order': False, 'shape': (1,)}",
		"{'descr': '<f4', 'fortran_order': False, 'more': (1,)}",
		"{'descr': '<f4",
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(bad); i++)
		bad_npy(bad[i], 64, MR_EDATA, WORDS("x.npy", "header"));
}

static void test_npy_file_that_is_none_is_refused(void **state)
{
	(void)state;
	put("x.npy", "PK\x03\x04 not an array", 17);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "NUMPY"));
	put("x.npy", "\x93NUM", 4);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "4 bytes"));
	put("x.npy", "\x93NUMPY\x04\x00\x00\x00\x00\x00", 12);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EUNSUPPORTED,
		  WORDS("x.npy", "4.0"));
	put("x.npy", "\x93NUMPY\x01\x00\xff\xff{", 11);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "truncated", "65535"));
	put("x.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "truncated", "4294967295"));
	put("x.npy", "\x93NUMPY\x02\x00\x01\x00", 10);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "truncated"));
	put("x.npy", "\x93NUMPY\x01\x00\x02\x00{\0", 12);
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EDATA,
		  WORDS("x.npy", "zero byte"));
}

static void test_npy_refusals_tell_how_to_convert(void **state)
{
	(void)state;
	bad_npy(HEADER(">f4", "(1,)"), 4, MR_ETYPE,
		WORDS("'>f4'", "np.save(", "a.astype('<f4')"));
	bad_npy(HEADER("<u2", "(1,)"), 2, MR_ETYPE, WORDS("a.astype('<i4')"));
	bad_npy(HEADER("<u8", "(1,)"), 8, MR_ETYPE, WORDS("a.astype('<i8')"));
	bad_npy(HEADER("|i1", "(1,)"), 1, MR_ETYPE, WORDS("a.astype('<i2')"));
	bad_npy(HEADER("<c8", "(1,)"), 8, MR_ETYPE, WORDS("a.real, a.imag"));
	bad_npy(HEADER("|O", "(1,)"), 8, MR_ETYPE, WORDS("allow_pickle=True"));
	bad_npy(HEADER("<U5", "(1,)"), 20, MR_ETYPE, WORDS("'<U5'"));
	bad_npy(HEADER("", "(1,)"), 20, MR_ETYPE, WORDS("type ''"));
	bad_npy("{'descr': [('a', '<f4')], 'fortran_order': False, "
		"'shape': (1,)}",
		4, MR_EDATA, WORDS("np.load(file)['field']"));
	bad_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16,
		MR_ETYPE, WORDS("Fortran", "np.ascontiguousarray("));
}

static void test_npy_without_samples_is_an_error(void **state)
{
	(void)state;
	bad_npy(HEADER("<f4", "(0, 3)"), 0, MR_EDATA, WORDS("x.npy", "empty"));
	bad_npy(HEADER("<f4", "(3, 0)"), 0, MR_EDATA,
		WORDS("x.npy", "no elements"));
	bad_npy(HEADER("<f4", "()"), 4, MR_EDATA,
		WORDS("x.npy", "single number"));
}

static void test_npy_files_that_differ_are_refused(void **state)
{
	(void)state;
	put_npy("a.npy", 1, HEADER("<f4", "(1, 3)"), 12);
	put_npy("b.npy", 1, HEADER("<f4", "(1, 4)"), 16);
	must_fail(&mr_source_npy, "?.npy", NULL, NULL, MR_EDATA,
		  WORDS("a.npy", "b.npy", "f32[3]", "f32[4]"));
	put_npy("b.npy", 1, HEADER("<i4", "(1, 3)"), 12);
	must_fail(&mr_source_npy, "?.npy", NULL, NULL, MR_EDATA,
		  WORDS("i32[3]"));
}

static void test_npy_labels_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	put_npy("x.npy", 1, HEADER("|u1", "(3, 2)"), 6);
	put_npy("l.npy", 1, HEADER("<i8", "(2,)"), 16);
	must_fail(&mr_source_npy, "x.npy", "labels", "l.npy", MR_EDATA,
		  WORDS("l.npy", "2 labels", "3 samples"));
	put_npy("l.npy", 1, HEADER("<f4", "(3,)"), 12);
	must_fail(&mr_source_npy, "x.npy", "labels", "l.npy", MR_ETYPE,
		  WORDS("l.npy", "f32", "astype('<i8')"));
	put_npy("l.npy", 1, HEADER("<i8", "(3, 2)"), 48);
	must_fail(&mr_source_npy, "x.npy", "labels", "l.npy", MR_ETYPE,
		  WORDS("l.npy", "argmax"));
	must_fail(&mr_source_npy, "x.npy", "labels", "m.npy", MR_EIO,
		  WORDS("m.npy"));
}

static void test_npy_without_match_is_an_error(void **state)
{
	(void)state;
	must_fail(&mr_source_npy, "*.npy", NULL, NULL, MR_EIO,
		  WORDS(at("*.npy"), "no file matches"));
	must_fail(&mr_source_npy, "x.npy", NULL, NULL, MR_EIO,
		  WORDS(at("x.npy"), "no such file"));
	put_dir("d");
	must_fail(&mr_source_npy, "d", NULL, NULL, MR_EIO,
		  WORDS(at("d"), "not a file"));
}

static void test_npy_bytes_cut_off_later_are_noticed(void **state)
{
	struct opened o;
	struct loaded ld;

	(void)state;
	put_npy("x.npy", 1, HEADER("|u1", "(3, 2)"), 6);
	o = must_open(&mr_source_npy, "x.npy", NULL, NULL);
	loaded_init(&ld, o.src, o.self);
	loaded_begin(&ld, 2);
	assert_int_equal(o.src->unpack(&ld.ld, "a", 1, ld.f), MR_EDATA);
	assert_non_null(strstr(ld.err.text, "1 of 2 bytes"));
	loaded_fini(&ld, o.src);
	shut(&o);
}

/* ---- synthetic ---- */

/* Sample i of a source that makes them; returns its label. */
static int64_t made(const struct opened *o, uint64_t i, void *data, size_t n)
{
	struct loaded ld;
	int64_t label;

	loaded_init(&ld, o->src, o->self);
	loaded_begin(&ld, i);
	assert_int_equal(o->src->load(&ld.ld, ld.f), 0);
	memcpy(data, ld.f[0].data, n);
	memcpy(&label, ld.f[1].data, sizeof(label));
	loaded_fini(&ld, o->src);
	return label;
}

static void test_synthetic_content_depends_on_the_index_only(void **state)
{
	static unsigned char a[1001], b[1001];
	struct opened o =
		must_open(&mr_source_synthetic, "7x11x13", "classes", "3");
	int64_t label;

	(void)state;
	label = made(&o, 5, a, sizeof(a));
	assert_int_equal(label, 2);
	label = made(&o, 6, b, sizeof(b));
	assert_int_equal(label, 0);
	assert_memory_not_equal(a, b, sizeof(a));
	made(&o, 5, b, sizeof(b));
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(o.src->count(o.self), 10000);
	shut(&o);
}

static void test_synthetic_floats_are_in_0_to_1(void **state)
{
	static double d[1000];
	static float s[1000];
	static uint16_t h[1000];
	struct opened o;
	double sum = 0;

	(void)state;
	o = must_open(&mr_source_synthetic, "1000", "dtype", "f64");
	made(&o, 1, d, sizeof(d));
	shut(&o);
	o = must_open(&mr_source_synthetic, "1000", "dtype", "f32");
	made(&o, 1, s, sizeof(s));
	shut(&o);
	o = must_open(&mr_source_synthetic, "1000", "dtype", "f16");
	made(&o, 1, h, sizeof(h));
	shut(&o);
	for (int i = 0; i < 1000; i++) {
		assert_true(d[i] >= 0 && d[i] < 1);
		assert_true(s[i] >= 0 && s[i] < 1);
		assert_true(h[i] < 0x3c00);
		sum += d[i] + (double)s[i];
	}
	assert_true(sum > 900 && sum < 1100);
}

static void test_synthetic_cost_is_processor_time(void **state)
{
	struct opened o = must_open(&mr_source_synthetic, "8", "cost", "2ms");
	unsigned char data[8];
	struct timespec a, b;

	(void)state;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	for (uint64_t i = 0; i < 10; i++)
		made(&o, i, data, sizeof(data));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	assert_true((double)(b.tv_sec - a.tv_sec) * 1e3 +
			    (double)(b.tv_nsec - a.tv_nsec) / 1e6 >=
		    20);
	shut(&o);
}

static void test_synthetic_shapes_that_cannot_be_are_refused(void **state)
{
	(void)state;
	must_fail(&mr_source_synthetic, "1000000000000x1000000000000", NULL,
		  NULL, MR_EINVAL, WORDS("shape"));
	must_fail(&mr_source_synthetic, "1x1x1x1x1x1x1x1", NULL, NULL,
		  MR_EINVAL, WORDS("shape", "at most 7"));
}

/* ---- what they share ---- */

static void test_glob_sorts_by_bytes_and_takes_odd_names(void **state)
{
	struct mr_err err;
	char **p;
	size_t n;

	(void)state;
	put_text("b", "");
	put_text("B", "");
	put_text("a", "");
	put_text("x[1]", "");
	assert_int_equal(mr_input_list(at("?"), &p, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_string_equal(p[0], at("B"));
	assert_string_equal(p[2], at("b"));
	for (size_t i = 0; i < n; i++)
		free(p[i]);
	free(p);
	assert_int_equal(mr_input_list(at("x[1]"), &p, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(p[0], at("x[1]"));
	free(p[0]);
	free(p);
	assert_int_equal(mr_input_list(at("z*"), &p, &n, &err), MR_EIO);
	assert_non_null(strstr(err.text, at("z*")));
}

static void test_every_source_says_what_its_parameters_do(void **state)
{
	static const struct mr_source *const all[] = { &mr_source_files,
						       &mr_source_list,
						       &mr_source_npy,
						       &mr_source_synthetic };

	(void)state;
	for (size_t i = 0; i < MR_COUNT(all); i++) {
		void *self = calloc(1, all[i]->size);

		assert_non_null(all[i]->help);
		for (const struct mr_param *p = all[i]->params;
		     p->type != MR_P_END; p++) {
			assert_non_null(p->help);
			if (p->def)
				assert_int_equal(mr_param_set(p, self, p->def,
							      NULL, NULL),
						 0);
		}
		free(self);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_files_gives_a_class_per_folder),
		T(test_files_are_ordered_as_in_imagefolder),
		T(test_files_in_a_flat_folder_are_one_class),
		T(test_files_with_another_ending_are_left_out),
		T(test_files_keeps_empty_classes),
		T(test_files_follows_links_but_not_in_circles),
		T(test_files_locates_each_file_by_its_path),
		T(test_files_missing_directory_is_an_error),
		T(test_files_given_a_file_is_an_error),
		T(test_files_unreadable_directory_is_an_error),
		T(test_files_empty_data_set_is_an_error),
		T(test_files_are_the_same_with_1_2_and_7_threads),
		T(test_text_sort_agrees_with_strcmp),
		T(test_list_takes_tabs_with_integer_labels),
		T(test_list_takes_commas_with_quotes_and_class_names),
		T(test_list_with_one_word_label_has_only_class_names),
		T(test_list_without_labels_gives_label_0),
		T(test_list_paths_begin_at_its_folder_or_at_root),
		T(test_list_errors_name_file_and_line),
		T(test_list_that_is_missing_or_empty_is_an_error),
		T(test_list_with_an_endless_line_is_refused),
		T(test_list_with_many_classes_sorts_them),
		T(test_npy_locates_samples_across_files),
		T(test_npy_takes_every_type_it_promises),
		T(test_npy_labels_become_int64),
		T(test_npy_negative_labels_stay_negative),
		T(test_npy_header_with_overflowing_shape_is_refused),
		T(test_npy_truncated_file_names_both_sizes),
		T(test_npy_damaged_headers_are_refused),
		T(test_npy_file_that_is_none_is_refused),
		T(test_npy_refusals_tell_how_to_convert),
		T(test_npy_without_samples_is_an_error),
		T(test_npy_files_that_differ_are_refused),
		T(test_npy_labels_that_do_not_fit_are_refused),
		T(test_npy_without_match_is_an_error),
		T(test_npy_bytes_cut_off_later_are_noticed),
		T(test_synthetic_content_depends_on_the_index_only),
		T(test_synthetic_floats_are_in_0_to_1),
		T(test_synthetic_cost_is_processor_time),
		T(test_synthetic_shapes_that_cannot_be_are_refused),
		T(test_glob_sorts_by_bytes_and_takes_odd_names),
		T(test_every_source_says_what_its_parameters_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
