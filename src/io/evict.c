/* SPDX-License-Identifier: Apache-2.0 */
#include "io/evict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* cachestat(2) came with Linux 6.5; C libraries do not have it yet. */
#define CACHESTAT 451

struct cache_range {
	uint64_t off, len;
};

struct cache_stat {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* Pages of [from, from + n) of a file, from on a page's border. */
struct range {
	int fd;
	uid_t owner;
	uint64_t from, n, page;
};

/* By mincore(), which needs a mapping. A piece at a time bounds the memory;
 * false when it cannot be told. */
static bool resident_mapped(const struct range *r, uint64_t *pages)
{
	enum { PIECE = 4096 };
	unsigned char in[PIECE];
	uint64_t most = PIECE * r->page;

	*pages = 0;
	for (uint64_t at = 0; at < r->n; at += most) {
		uint64_t n = r->n - at < most ? r->n - at : most;
		void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, r->fd,
			       (off_t)(r->from + at));
		bool good;

		if (p == MAP_FAILED)
			return false;
		good = mincore(p, n, in) == 0;
		munmap(p, n);
		if (!good)
			return false;
		for (uint64_t i = 0; i < (n + r->page - 1) / r->page; i++)
			*pages += in[i] & 1;
	}
	return true;
}

/* How many of them are in memory; false when the kernel does not tell: it
 * does so only to the file's owner, to who may write it, and to root.
 * mincore() would say to others that all are. */
static bool resident(const struct range *r, uint64_t *pages)
{
	struct cache_range part = { r->from, r->n };
	struct cache_stat got;
	uid_t me = geteuid();

	if (syscall(CACHESTAT, (unsigned)r->fd, &part, &got, 0u) == 0) {
		*pages = got.cached;
		return true;
	}
	if (errno == EPERM || (me != 0 && me != r->owner))
		return false;
	return resident_mapped(r, pages);
}

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void evict(int fd, const struct stat *st, struct mr_evicted *sum)
{
	uint64_t size = (uint64_t)st->st_size, pages = 0, bytes;
	struct range all = { fd, st->st_uid, 0, size, page_size() };
	bool known = resident(&all, &pages);

	sum->files++;
	sum->bytes += size;
	if (known && !pages)
		return;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (known && resident(&all, &pages) && !pages)
		return;
	/* What is not on the disk yet cannot be dropped; and writing out is
	 * too slow to be done for all. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (!resident(&all, &pages)) {
		sum->unknown++;
		return;
	}
	bytes = pages * all.page;
	sum->stayed += bytes < size ? bytes : size;
}

void mr_evict_file(const char *path, struct mr_evicted *sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		evict(fd, &st, sum);
	close(fd);
}

/* The extent within the file, whole pages of it; what is beyond its end is
 * nothing. */
static int count_extent(int fd, const struct stat *st, uint64_t offset,
			uint64_t length, uint64_t *bytes, uint64_t *in)
{
	uint64_t end = (uint64_t)st->st_size, pages;
	struct range r = { fd, st->st_uid, 0, 0, page_size() };

	if (length < end && offset < end - length)
		end = offset + length;
	r.from = offset / r.page * r.page;
	if (r.from >= end)
		return 0;
	r.n = end - r.from;
	if (!resident(&r, &pages))
		return -1;
	*bytes += (r.n + r.page - 1) / r.page * r.page;
	*in += pages * r.page;
	return 0;
}

int mr_resident_extent(const char *path, uint64_t offset, uint64_t length,
		       uint64_t *bytes, uint64_t *resident)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), e = -1;
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		e = count_extent(fd, &st, offset, length, bytes, resident);
	close(fd);
	return e;
}
