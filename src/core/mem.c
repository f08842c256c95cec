/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mem.h"

#include <sys/mman.h>

void *mr_alloc(size_t n, size_t size, struct mr_err *err)
{
	bool fits = !size || n <= PTRDIFF_MAX / size;
	void *p = fits ? calloc(n ? n : 1, size ? size : 1) : NULL;

	if (!p)
		mr_err_nomem(err, fits ? n * size : SIZE_MAX);
	return p;
}

int mr_grow(void *p, size_t *cap, size_t need, size_t size, size_t max,
	    struct mr_err *err)
{
	size_t n = *cap + *cap / 2 + 16;
	void *old, *q;

	if (need <= *cap)
		return 0;
	if (need > max || need > SIZE_MAX / size / 2)
		return mr_err_set(err, MR_ELIMIT,
				  "%zu entries are over the limit of %zu", need,
				  max);
	if (n < need)
		n = need;
	if (n > max)
		n = max;
	memcpy(&old, p, sizeof(old));
	q = realloc(old, n * size);
	if (!q)
		return mr_err_nomem(err, n * size);
	memcpy(p, &q, sizeof(q));
	*cap = n;
	return 0;
}

char *mr_strdup(const char *s, struct mr_err *err)
{
	size_t n = strlen(s) + 1;
	char *p = mr_alloc(n, 1, err);

	return p ? memcpy(p, s, n) : NULL;
}

void *mr_alloc_aligned(size_t bytes, struct mr_err *err)
{
	size_t n = mr_round_up(bytes ? bytes : 1, MR_ALIGN);
	void *p = aligned_alloc(MR_ALIGN, n);

	if (!p) {
		mr_err_nomem(err, n);
		return NULL;
	}
	return memset(p, 0, n);
}

void *mr_map(size_t bytes, struct mr_err *err)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED)
		return p;
	mr_err_nomem(err, bytes);
	return NULL;
}

void mr_unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}
