/* SPDX-License-Identifier: Apache-2.0 */
#include "io/evict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
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

/* By mincore(), which needs a mapping. A piece at a time bounds the memory;
 * false when it cannot be told. */
static bool resident_mapped(int fd, uint64_t size, uint64_t page,
			    uint64_t *pages)
{
	enum { PIECE = 4096 };
	unsigned char in[PIECE];

	*pages = 0;
	for (uint64_t at = 0; at < size; at += PIECE * page) {
		uint64_t n =
			size - at < PIECE * page ? size - at : PIECE * page;
		void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)at);
		bool good;

		if (p == MAP_FAILED)
			return false;
		good = mincore(p, n, in) == 0;
		munmap(p, n);
		if (!good)
			return false;
		for (uint64_t i = 0; i < (n + page - 1) / page; i++)
			*pages += in[i] & 1;
	}
	return true;
}

/* Pages of a file in memory; false when the kernel does not tell: it does
 * so only to the file's owner, to who may write it, and to root. */
static bool resident(int fd, const struct stat *st, uint64_t page,
		     uint64_t *pages)
{
	struct cache_range all = { 0, 0 };
	struct cache_stat got;
	uid_t me = geteuid();

	if (syscall(CACHESTAT, (unsigned)fd, &all, &got, 0u) == 0) {
		*pages = got.cached;
		return true;
	}
	if (errno == EPERM || (me != 0 && me != st->st_uid))
		return false;
	return resident_mapped(fd, (uint64_t)st->st_size, page, pages);
}

static void evict(int fd, const struct stat *st, struct mr_evicted *sum)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = 0, bytes;
	bool known = resident(fd, st, page, &pages);

	sum->files++;
	sum->bytes += (uint64_t)st->st_size;
	if (known && !pages)
		return;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (known && resident(fd, st, page, &pages) && !pages)
		return;
	/* What is not on the disk yet cannot be dropped; and writing out is
	 * too slow to be done for all. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (!resident(fd, st, page, &pages)) {
		sum->unknown++;
		return;
	}
	bytes = pages * page;
	sum->stayed +=
		bytes < (uint64_t)st->st_size ? bytes : (uint64_t)st->st_size;
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

/* [from, from + n) of a file, from on a page's border. */
static int count_pages(int fd, uint64_t from, uint64_t n, uint64_t page,
		       uint64_t *resident)
{
	struct cache_range part = { from, n };
	struct cache_stat got;
	unsigned char *in;
	void *p;
	int e;

	if (syscall(CACHESTAT, (unsigned)fd, &part, &got, 0u) == 0) {
		*resident += got.cached * page;
		return 0;
	}
	in = malloc((n + page - 1) / page);
	p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)from);
	e = !in || p == MAP_FAILED || mincore(p, n, in) ? -1 : 0;
	for (uint64_t i = 0; !e && i < (n + page - 1) / page; i++)
		*resident += in[i] & 1 ? page : 0;
	if (p != MAP_FAILED)
		munmap(p, n);
	free(in);
	return e;
}

int mr_resident_extent(const char *path, uint64_t offset, uint64_t length,
		       uint64_t *bytes, uint64_t *resident)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end, from;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), e = -1;
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (geteuid() == 0 || geteuid() == st.st_uid)) {
		end = (uint64_t)st.st_size;
		if (length < end && offset < end - length)
			end = offset + length;
		from = offset / page * page;
		if (from < end) {
			*bytes += (end - from + page - 1) / page * page;
			e = count_pages(fd, from, end - from, page, resident);
		} else {
			e = 0;
		}
	}
	close(fd);
	return e;
}
