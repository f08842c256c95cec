/* SPDX-License-Identifier: Apache-2.0 */
#include "io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

struct mr_input {
	char *path;
	int fd;
	uint64_t size;
	int64_t changed;
	void *map;
};

int mr_input_open(struct mr_input **out, const char *path, struct mr_err *err)
{
	struct mr_input *in = mr_alloc(1, sizeof(*in), err);
	struct stat st;
	int e = MR_ENOMEM;

	*out = NULL;
	if (!in)
		return MR_ENOMEM;
	in->fd = -1;
	in->path = mr_strdup(path, err);
	if (!in->path)
		goto fail;
	in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->fd < 0 || fstat(in->fd, &st)) {
		e = mr_err_sys(err, errno, path, "cannot open");
		goto fail;
	}
	if (!S_ISREG(st.st_mode)) {
		e = mr_err_set(err, MR_EIO, "%s: is not a file", path);
		goto fail;
	}
	in->size = (uint64_t)st.st_size;
	in->changed =
		(int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	*out = in;
	return 0;
fail:
	mr_input_close(in);
	return e;
}

void mr_input_close(struct mr_input *in)
{
	if (!in)
		return;
	if (in->map)
		munmap(in->map, in->size);
	if (in->fd >= 0)
		close(in->fd);
	free(in->path);
	free(in);
}

const char *mr_input_path(const struct mr_input *in)
{
	return in->path;
}

uint64_t mr_input_size(const struct mr_input *in)
{
	return in->size;
}

int mr_input_fd(const struct mr_input *in)
{
	return in->fd;
}

int64_t mr_input_changed(const struct mr_input *in)
{
	return in->changed;
}

int mr_input_read(struct mr_input *in, void *to, size_t n, uint64_t offset,
		  struct mr_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(in->fd, (char *)to + got, n - got,
				  (off_t)(offset + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return mr_err_sys(err, errno, in->path, "cannot read");
		if (k == 0)
			return mr_err_set(err, MR_EDATA,
					  "%s: ends at byte %llu, %zu short of "
					  "what must be there",
					  in->path,
					  (unsigned long long)(offset + got),
					  n - got);
		got += (size_t)k;
	}
	return 0;
}

void mr_input_extent(const struct mr_input *in, uint64_t offset,
		     uint64_t length, struct mr_extent *e)
{
	*e = (struct mr_extent){ .path = in->path,
				 .fd = in->fd,
				 .offset = offset,
				 .length = length,
				 .mapped = in->map ? (char *)in->map + offset :
						     NULL };
}

const void *mr_input_map(struct mr_input *in)
{
	void *p;

	if (in->map || in->fd < 0 || !in->size)
		return in->map;
	p = mmap(NULL, in->size, PROT_READ, MAP_SHARED, in->fd, 0);
	if (p != MAP_FAILED)
		in->map = p;
	return in->map;
}
