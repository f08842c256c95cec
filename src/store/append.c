/* SPDX-License-Identifier: Apache-2.0 */
#include "store/append.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "kernel/stream.h"

enum {
	/* What no disk's blocks are larger than, and no file system's. */
	BLOCK = 4096,
	BUFFER = 4 << 20,
};

int mr_append_init(struct mr_append *a, struct mr_err *err)
{
	*a = (struct mr_append){ .fd = -1 };
	/* two huge pages to pin for each write, not a thousand */
	a->buf = mr_buf_memory(BUFFER);
	return a->buf ? 0 : mr_err_nomem(err, BUFFER);
}

void mr_append_fini(struct mr_append *a)
{
	free(a->buf);
	*a = (struct mr_append){ .fd = -1 };
}

static bool set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 &&
	       !fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

int mr_append_begin(struct mr_append *a, int fd, uint64_t offset)
{
	a->fd = fd;
	a->len = offset % BLOCK;
	a->at = offset - a->len;
	if (!mr_pread_all(fd, a->buf, a->len, a->at))
		return EIO;
	a->direct = set_direct(fd, true);
	return 0;
}

/* The first n bytes of the buffer, of which only whole blocks may go past the
 * page cache. Some file systems say only now that they cannot. */
static int put(struct mr_append *a, size_t n)
{
	int e;

	if (!n)
		return 0;
	mr_stream_end();
	e = mr_pwrite_all(a->fd, a->buf, n, a->at);
	if (e == EINVAL && a->direct && set_direct(a->fd, false)) {
		a->direct = false;
		e = mr_pwrite_all(a->fd, a->buf, n, a->at);
	}
	if (e)
		return e;
	/* The disk begins while more is made. */
	if (!a->direct)
		sync_file_range(a->fd, (off_t)a->at, (off_t)n,
				SYNC_FILE_RANGE_WRITE);
	a->at += n;
	a->len -= n;
	memmove(a->buf, a->buf + n, a->len);
	return 0;
}

int mr_append(struct mr_append *a, const void *data, size_t n)
{
	const uint8_t *p = data;
	int e = 0;

	while (n && !e) {
		size_t k = n < BUFFER - a->len ? n : BUFFER - a->len;

		/* no CPU looks at it again */
		mr_stream_copy(a->buf + a->len, p, k);
		a->len += k;
		p += k;
		n -= k;
		if (a->len == BUFFER)
			e = put(a, BUFFER);
	}
	return e;
}

int mr_append_end(struct mr_append *a)
{
	int e = put(a, a->len / BLOCK * BLOCK);

	if (a->direct && !set_direct(a->fd, false))
		e = e ? e : errno;
	a->direct = false;
	return e ? e : put(a, a->len);
}
