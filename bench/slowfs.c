/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read-only file system whose reads take long, for what a throttled disk
 * cannot show: latency. It speaks the kernel's FUSE protocol itself and keeps
 * no data: folders c0000.. with files s000000.bin.. of one size.
 *
 * usage: slowfs DIR FOLDERS PER_FOLDER BYTES LATENCY_US BYTES_PER_S
 * Mounts on DIR (needs root) and serves until it is unmounted. A read is
 * answered LATENCY_US after it came, any number at a time, and their bytes go
 * through one line of BYTES_PER_S. Names and attributes cost nothing.
 */
#include "bare.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define WORKERS	    128
#define REQUEST_MAX (64 << 10)
#define READ_MAX    (1 << 20)
#define FOREVER	    100000 /* seconds that the kernel may keep what we said */

/* Nodes: 1 is the root, then the folders, then the files. */
struct slowfs {
	int fd;
	size_t folders, per_folder, bytes;
	double latency, rate;
	pthread_mutex_t lock;
	double free_at; /* when the line is free */
	char *noise;
};

static bool is_dir(const struct slowfs *fs, uint64_t node)
{
	return node <= fs->folders + 1;
}

static void answer(const struct slowfs *fs, uint64_t unique, int error,
		   const void *data, size_t n)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n),
				     .error = error,
				     .unique = unique };
	struct iovec v[2] = { { &h, sizeof(h) }, { (void *)data, n } };

	/* fails when the request was interrupted or all is unmounted */
	if (writev(fs->fd, v, n ? 2 : 1) < 0 && errno != ENOENT &&
	    errno != ENODEV)
		warn("answer");
}

static struct fuse_attr attr_of(const struct slowfs *fs, uint64_t node)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096 };

	a.mode = is_dir(fs, node) ? S_IFDIR | 0755 : S_IFREG | 0444;
	if (!is_dir(fs, node)) {
		a.size = fs->bytes;
		a.blocks = (fs->bytes + 511) / 512;
	}
	return a;
}

/* The n-th entry of a folder: its node and name; 0 past the end. */
static uint64_t entry(const struct slowfs *fs, uint64_t dir, uint64_t n,
		      char *name, size_t cap)
{
	uint64_t k;

	if (dir == 1) {
		if (n >= fs->folders)
			return 0;
		snprintf(name, cap, "c%04u", (unsigned)n);
		return 2 + n;
	}
	if (n >= fs->per_folder)
		return 0;
	k = (dir - 2) * fs->per_folder + n;
	snprintf(name, cap, "s%06u.bin", (unsigned)k);
	return 2 + fs->folders + k;
}

static void lookup(const struct slowfs *fs, uint64_t unique, uint64_t dir,
		   const char *name)
{
	struct fuse_entry_out out = { .entry_valid = FOREVER,
				      .attr_valid = FOREVER };
	char *end, want[64];
	uint64_t n = name[0] ? strtoull(name + 1, &end, 10) : 0;

	if (dir != 1)
		n -= (dir - 2) * fs->per_folder;
	out.nodeid =
		is_dir(fs, dir) ? entry(fs, dir, n, want, sizeof(want)) : 0;
	if (!out.nodeid || strcmp(name, want) != 0) {
		answer(fs, unique, -ENOENT, NULL, 0);
		return;
	}
	out.attr = attr_of(fs, out.nodeid);
	answer(fs, unique, 0, &out, sizeof(out));
}

static void list(const struct slowfs *fs, uint64_t unique, uint64_t dir,
		 const struct fuse_read_in *in)
{
	_Alignas(8) char buf[8192];
	size_t used = 0;
	uint64_t n = in->offset;

	for (;; n++) {
		struct fuse_dirent *d = (void *)(buf + used);
		char name[64];
		uint64_t node = entry(fs, dir, n, name, sizeof(name));
		size_t len = node ? strlen(name) : 0;
		size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);

		if (!node || used + size > sizeof(buf) ||
		    used + size > in->size)
			break;
		memset(d, 0, size);
		d->ino = node;
		d->off = n + 1;
		d->namelen = (uint32_t)len;
		d->type = is_dir(fs, node) ? S_IFDIR >> 12 : S_IFREG >> 12;
		memcpy(d->name, name, len);
		used += size;
	}
	answer(fs, unique, 0, buf, used);
}

static void sleep_until(double when)
{
	struct timespec t = { .tv_sec = (time_t)when };

	t.tv_nsec = (long)((when - (double)t.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) ==
	       EINTR)
		;
}

static void read_slowly(struct slowfs *fs, uint64_t unique,
			const struct fuse_read_in *in)
{
	double ready = bare_now() + fs->latency;
	size_t n = in->size < READ_MAX ? in->size : READ_MAX;

	if (in->offset >= fs->bytes)
		n = 0;
	else if (n > fs->bytes - in->offset)
		n = fs->bytes - in->offset;
	pthread_mutex_lock(&fs->lock);
	if (fs->free_at > ready)
		ready = fs->free_at;
	ready += (double)n / fs->rate;
	fs->free_at = ready;
	pthread_mutex_unlock(&fs->lock);
	sleep_until(ready);
	answer(fs, unique, 0, fs->noise, n);
}

static void start(const struct slowfs *fs, uint64_t unique,
		  const struct fuse_init_in *in)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = 31,
		.max_readahead = in->max_readahead,
		.flags =
			FUSE_ASYNC_READ | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS,
		.max_background = WORKERS,
		.congestion_threshold = WORKERS,
		.max_write = 4096,
		.max_pages = READ_MAX / 4096,
	};

	answer(fs, unique, 0, &out, sizeof(out));
}

static void serve(struct slowfs *fs, const struct fuse_in_header *h,
		  const void *arg)
{
	struct fuse_attr_out attr = { .attr_valid = FOREVER };
	struct fuse_open_out opened = { 0 };
	struct fuse_statfs_out st = {
		.st = { .bsize = 4096, .frsize = 4096, .namelen = 255 }
	};

	switch (h->opcode) {
	case FUSE_INIT:
		start(fs, h->unique, arg);
		break;
	case FUSE_LOOKUP:
		lookup(fs, h->unique, h->nodeid, arg);
		break;
	case FUSE_GETATTR:
		attr.attr = attr_of(fs, h->nodeid);
		answer(fs, h->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(fs, h->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READDIR:
		list(fs, h->unique, h->nodeid, arg);
		break;
	case FUSE_READ:
		read_slowly(fs, h->unique, arg);
		break;
	case FUSE_STATFS:
		answer(fs, h->unique, 0, &st, sizeof(st));
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
	case FUSE_ACCESS:
	case FUSE_DESTROY:
		answer(fs, h->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* these want no answer */
	default:
		answer(fs, h->unique, -ENOSYS, NULL, 0);
	}
}

static void *work(void *arg)
{
	struct slowfs *fs = arg;
	char *buf = bare_buffer(REQUEST_MAX);

	for (;;) {
		ssize_t n = read(fs->fd, buf, REQUEST_MAX - 1);

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			break; /* ENODEV: unmounted */
		buf[n] = '\0';
		serve(fs, (const void *)buf,
		      buf + sizeof(struct fuse_in_header));
	}
	free(buf);
	return NULL;
}

int main(int argc, char **argv)
{
	struct slowfs fs = { .lock = PTHREAD_MUTEX_INITIALIZER };
	char options[128];

	if (argc != 7)
		errx(2, "usage: slowfs DIR FOLDERS PER_FOLDER BYTES "
			"LATENCY_US BYTES_PER_S");
	fs.folders = bare_number(argv[2]);
	fs.per_folder = bare_number(argv[3]);
	fs.bytes = bare_number(argv[4]);
	fs.latency = (double)bare_number(argv[5]) * 1e-6;
	fs.rate = (double)bare_number(argv[6]);
	fs.noise = bare_buffer(READ_MAX);
	fs.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fs.fd < 0)
		err(1, "/dev/fuse");
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other",
		 fs.fd);
	if (mount("slowfs", argv[1], "fuse.slowfs",
		  MS_RDONLY | MS_NOSUID | MS_NODEV, options))
		err(1, "mount on %s", argv[1]);
	bare_run(WORKERS, work, &fs, 0);
	return 0;
}
