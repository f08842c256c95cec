/* SPDX-License-Identifier: Apache-2.0 */
#include "store/table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"

enum { PART = 1 << 20 };

/* What a set names may be anything by now, also what has no end. */
static int open_regular(const char *path, struct mr_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return mr_err_sys(err, errno, path, "cannot open");
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return mr_err_set(err, MR_EDATA, "%s: not a regular file", path);
}

static int hash_all(struct mr_table *t, int fd, void *buf, XXH3_state_t *state,
		    struct mr_err *err)
{
	ssize_t n;

	t->size = 0;
	XXH3_64bits_reset(state);
	while ((n = read(fd, buf, PART)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mr_err_sys(err, errno, t->path, "cannot read");
		XXH3_64bits_update(state, buf, (size_t)n);
		t->size += (uint64_t)n;
	}
	t->hash = XXH3_64bits_digest(state);
	return 0;
}

int mr_table_read(struct mr_table *t, struct mr_err *err)
{
	int e, fd = open_regular(t->path, err);
	XXH3_state_t *state;
	void *buf;

	if (fd < 0)
		return fd;
	state = XXH3_createState();
	buf = mr_alloc(PART, 1, err);
	if (state && buf)
		e = hash_all(t, fd, buf, state, err);
	else
		e = mr_err_nomem(err, PART);
	free(buf);
	XXH3_freeState(state);
	close(fd);
	return e;
}

int mr_table_check(const struct mr_table *then, struct mr_err *err)
{
	struct mr_table now = { .path = then->path };
	struct stat st;
	int e = 0;

	if (stat(then->path, &st))
		return 0;
	/* of another size it need not be read, however large it has become */
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size != then->size)
		now.size = (uint64_t)st.st_size;
	else
		e = mr_table_read(&now, err);
	if (e || (now.size == then->size && now.hash == then->hash))
		return e;
	return mr_err_set(err, MR_EDATA,
			  "%s: has other contents than when the data set was "
			  "prepared with it (%llu bytes then, %llu now); "
			  "prepare again, or say check=no to use the set as it "
			  "is",
			  then->path, (unsigned long long)then->size,
			  (unsigned long long)now.size);
}
