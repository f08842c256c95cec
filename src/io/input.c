/* SPDX-License-Identifier: Apache-2.0 */
#include "io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/guard.h"
#include "core/hash.h"
#include "core/mem.h"
#include "io/remote.h"
#include "io/window.h"

struct mr_input {
	char *path;
	int fd;			  /* -1: remote */
	struct mr_remote *remote; /* or NULL */
	struct mr_window window;  /* of it, while it is indexed */
	uint64_t size;
	int64_t changed;
	void *map;
};

bool mr_input_is_url(const char *path)
{
	return !strncmp(path, "http://", 7) || !strncmp(path, "https://", 8) ||
	       !strncmp(path, "s3://", 5);
}

/* Each waits for an answer most of the time. */
int mr_input_threads(const char *path, int threads)
{
	return mr_input_is_url(path) && threads < 16 ? 16 : threads;
}

static int open_remote(struct mr_input *in, const struct mr_patience *p,
		       struct mr_err *err)
{
	int e = mr_remote_open(&in->remote, in->path, p, err);

	if (e)
		return e;
	in->size = mr_remote_size(in->remote);
	in->changed = mr_remote_changed(in->remote);
	return 0;
}

static int open_local(struct mr_input *in, struct mr_err *err)
{
	struct stat st;

	in->fd = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->fd < 0 && (errno == EMFILE || errno == ENFILE))
		return mr_err_set(err, MR_EIO,
				  "%s: cannot open: too many open files; raise "
				  "the limit (ulimit -n), or use fewer, larger "
				  "files",
				  in->path);
	if (in->fd < 0 || fstat(in->fd, &st))
		return mr_err_sys(err, errno, in->path, "cannot open");
	if (!S_ISREG(st.st_mode))
		return mr_err_set(err, MR_EIO, "%s: is not a file", in->path);
	in->size = (uint64_t)st.st_size;
	in->changed = mr_file_changed(&st);
	return 0;
}

static int open_any(struct mr_input **out, const char *path,
		    const struct mr_patience *p, struct mr_err *err)
{
	struct mr_input *in = mr_alloc(1, sizeof(*in), err);
	int e = MR_ENOMEM;

	*out = NULL;
	if (!in)
		return MR_ENOMEM;
	in->fd = -1;
	mr_window_init(&in->window);
	in->path = mr_strdup(path, err);
	if (in->path)
		e = mr_input_is_url(path) ? open_remote(in, p, err) :
					    open_local(in, err);
	if (e)
		mr_input_close(in);
	else
		*out = in;
	return e;
}

int mr_input_open(struct mr_input **in, const char *path, struct mr_err *err)
{
	return open_any(in, path, NULL, err);
}

int mr_input_glance(struct mr_input **in, const char *path, struct mr_err *err)
{
	const struct mr_patience once = { .once = true };

	return open_any(in, path, &once, err);
}

void mr_input_close(struct mr_input *in)
{
	if (!in)
		return;
	if (in->map)
		munmap(in->map, in->size);
	if (in->fd >= 0)
		close(in->fd);
	mr_window_fini(&in->window);
	mr_remote_close(in->remote);
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

const char *mr_input_etag(const struct mr_input *in)
{
	return in->remote ? mr_remote_etag(in->remote) : "";
}

uint64_t mr_input_state(const struct mr_input *in)
{
	const char *etag = mr_input_etag(in);
	uint64_t h;

	if (!in->remote || (!*etag && !in->changed))
		return 0;
	h = *etag ? XXH3_64bits(etag, strlen(etag)) : (uint64_t)in->changed;
	return h >> 1 | 1; /* a number that JSON has, and not 0 */
}

static int too_short(const struct mr_input *in, uint64_t end, size_t missing,
		     struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "%s: ends at byte %llu, %zu short of what must be "
			  "there",
			  in->path, (unsigned long long)end, missing);
}

static int read_local(const struct mr_input *in, void *to, size_t n,
		      uint64_t offset, struct mr_err *err)
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
			return too_short(in, offset + got, n - got, err);
		got += (size_t)k;
	}
	return 0;
}

/* Are those bytes there, as far as is known? */
static int check_end(const struct mr_input *in, size_t n, uint64_t offset,
		     struct mr_err *err)
{
	if (offset <= in->size && n <= in->size - offset)
		return 0;
	return too_short(in, in->size, (size_t)(offset + n - in->size), err);
}

int mr_input_read_patiently(struct mr_input *in, void *to, size_t n,
			    uint64_t offset, const struct mr_patience *p,
			    struct mr_err *err)
{
	int e;

	if (!in->remote)
		return read_local(in, to, n, offset, err);
	mr_window_drop(&in->window);
	e = check_end(in, n, offset, err);
	return e || !n ? e : mr_remote_read(in->remote, to, n, offset, p, err);
}

static _Thread_local uint64_t thread_bytes;

uint64_t mr_input_thread_bytes(void)
{
	return thread_bytes;
}

int mr_input_read(struct mr_input *in, void *to, size_t n, uint64_t offset,
		  struct mr_err *err)
{
	int e;

	thread_bytes += n;
	if (!in->remote)
		return read_local(in, to, n, offset, err);
	e = check_end(in, n, offset, err);
	return e || !n ? e :
			 mr_window_read(&in->window, in->remote, to, n, offset,
					err);
}

void mr_input_extent(const struct mr_input *in, uint64_t offset,
		     uint64_t length, struct mr_extent *e)
{
	*e = (struct mr_extent){ .path = in->path,
				 .fd = in->fd,
				 .offset = offset,
				 .length = length };
	if (in->map)
		e->mapped = (char *)in->map + offset;
	if (in->remote)
		e->input = (struct mr_input *)(uintptr_t)in;
	if (in->remote && length == MR_TO_END)
		e->length = offset < in->size ? in->size - offset : 0;
}

int mr_input_map(struct mr_input *in, struct mr_err *err)
{
	int e = mr_guard_take(err);
	void *p;

	if (e || in->map || (in->fd >= 0 && !in->size))
		return e;
	if (in->fd < 0)
		return mr_err_set(err, MR_EIO,
				  "%s: cannot map a file on a server; say "
				  "map=no",
				  in->path);
	p = mmap(NULL, in->size, PROT_READ, MAP_SHARED, in->fd, 0);
	if (p == MAP_FAILED)
		return mr_err_sys(err, errno, in->path,
				  "cannot map; say map=no");
	in->map = p;
	return 0;
}
