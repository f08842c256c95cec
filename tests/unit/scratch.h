/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the engine share: a directory of the test's own with
 * files in it, and random numbers that are the same in each run.
 */
#ifndef MR_TEST_SCRATCH_H
#define MR_TEST_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/rng.h"
#include "millrace/millrace.h"

static char top[64];

/* ---- files ---- */

static inline int make_top(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/mr-unit-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static inline int remove_top(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", top);
	return system(cmd);
}

/* A text in one of eight buffers; "%s" of a path is usually `top`. */
__attribute__((format(printf, 1, 2))) static inline const char *
textf(const char *fmt, ...)
{
	static char text[8][8192];
	static int turn;
	char *to = text[turn++ % 8];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(to, sizeof(text[0]), fmt, ap);
	va_end(ap);
	return to;
}

static inline void put(const char *name, const void *data, size_t n)
{
	FILE *f = fopen(textf("%s/%s", top, name), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* A NumPy file, format 1.0. */
static inline void put_npy(const char *name, const char *descr, int ndim,
			   const int64_t *shape, const void *data, size_t bytes)
{
	char head[256] = "\x93NUMPY\x01";
	size_t n = 10, cap = sizeof(head);
	FILE *f = fopen(textf("%s/%s", top, name), "wb");

	n += (size_t)snprintf(head + n, cap - n,
			      "{'descr': '%s', 'fortran_order': False, "
			      "'shape': (",
			      descr);
	for (int i = 0; i < ndim; i++)
		n += (size_t)snprintf(head + n, cap - n, "%lld,",
				      (long long)shape[i]);
	n += (size_t)snprintf(head + n, cap - n, "), }");
	while (n % 64 != 63)
		head[n++] = ' ';
	head[n++] = '\n';
	head[8] = (char)(n - 10);
	assert_true(n - 10 < 256);
	assert_non_null(f);
	assert_int_equal(fwrite(head, 1, n, f), n);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

/* ---- loaders ---- */

static inline struct mr_loader *must_open(const char *text,
					  const struct mr_options *opt)
{
	struct mr_loader *l;
	struct mr_err err;

	if (mr_loader_open_with(&l, text, opt, &err))
		fail_msg("%s", err.text);
	return l;
}

/* The next batch, or NULL at the end of an epoch. */
static inline struct mr_batch *must_next(struct mr_loader *l)
{
	struct mr_batch *b = NULL;
	struct mr_err err;
	int e = mr_loader_next(l, &b, &err);

	if (e < 0)
		fail_msg("%s", err.text);
	assert_true(e == MR_OK || e == MR_END);
	return e == MR_OK ? b : NULL;
}

/* ---- random numbers ---- */

static inline uint64_t draw(uint64_t *seed)
{
	*seed += 0x9e3779b97f4a7c15ULL;
	return mr_mix64(*seed);
}

#endif
