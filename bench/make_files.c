/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make a data set of files: DIR/c0000/s000000.bin and so on.
 *
 * usage: make_files DIR FOLDERS PER_FOLDER MIN_BYTES MAX_BYTES [link]
 * Sizes lie evenly between MIN and MAX. With `link` a folder's files are one
 * file with many names: a million entries that are quick to make.
 */
#include "bare.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLACK 4096 /* files begin at different bytes of the same noise */

static void fill(char *p, size_t n)
{
	uint64_t s = 0x9e3779b97f4a7c15ULL;

	for (size_t i = 0; i < n; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		p[i] = (char)(s >> 32);
	}
}

static void write_file(int dir, const char *name, const char *data, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0644);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd))
		err(1, "%s", name);
}

/* What the command line asks for. */
struct plan {
	size_t folders, per_folder, min, max;
	bool links;
	char *data; /* max + SLACK bytes */
};

static void make_folder(const struct plan *p, int root, size_t f)
{
	char name[64], first[64];
	int dir;

	snprintf(name, sizeof(name), "c%04zu", f);
	if (mkdirat(root, name, 0755) && errno != EEXIST)
		err(1, "%s", name);
	dir = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		err(1, "%s", name);
	for (size_t i = 0; i < p->per_folder; i++) {
		size_t k = f * p->per_folder + i;
		size_t n = p->min + k * 7919 % (p->max - p->min + 1);

		snprintf(name, sizeof(name), "s%06zu.bin", k);
		if (p->links && i > 0) {
			if (linkat(dir, first, dir, name, 0))
				err(1, "%s", name);
			continue;
		}
		write_file(dir, name, p->data + k % SLACK, n);
		memcpy(first, name, sizeof(first));
	}
	close(dir);
}

int main(int argc, char **argv)
{
	struct plan p;
	int root;

	if (argc < 6 || argc > 7)
		errx(2, "usage: make_files DIR FOLDERS PER_FOLDER MIN_BYTES "
			"MAX_BYTES [link]");
	p.folders = bare_number(argv[2]);
	p.per_folder = bare_number(argv[3]);
	p.min = bare_number(argv[4]);
	p.max = bare_number(argv[5]);
	p.links = argc == 7 && strcmp(argv[6], "link") == 0;
	if (p.min > p.max)
		errx(2, "MIN_BYTES is more than MAX_BYTES");
	p.data = bare_buffer(p.max + SLACK);
	fill(p.data, p.max + SLACK);
	if (mkdir(argv[1], 0755) && errno != EEXIST)
		err(1, "%s", argv[1]);
	root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		err(1, "%s", argv[1]);
	for (size_t f = 0; f < p.folders; f++)
		make_folder(&p, root, f);
	return 0;
}
