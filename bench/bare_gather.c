/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table by number, copied with memcpy and nothing else.
 *
 * usage: bare_gather TABLE HEAD ROW_BYTES IDS BATCH ROUNDS
 * TABLE: a file of rows after HEAD bytes; IDS: a file of int32; BATCH: ids
 * that share a buffer, of which there are two.
 */
#include "bare.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char *map(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *p;

	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", path);
	*bytes = (size_t)st.st_size;
	p = mmap(NULL, *bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		err(1, "%s", path);
	return p;
}

int main(int argc, char **argv)
{
	size_t table_bytes, id_bytes, head, row, batch, rounds, n;
	const char *table;
	const int32_t *id;
	double start;
	char *to;

	if (argc != 7)
		errx(2, "usage: bare_gather TABLE HEAD ROW_BYTES IDS BATCH "
			"ROUNDS");
	head = bare_number(argv[2]);
	row = bare_number(argv[3]);
	batch = bare_number(argv[5]);
	rounds = bare_number(argv[6]);
	table = map(argv[1], &table_bytes);
	id = (const int32_t *)map(argv[4], &id_bytes);
	n = id_bytes / sizeof(*id);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || head + ((size_t)id[i] + 1) * row > table_bytes)
			errx(1, "no row %d", id[i]);
	to = bare_buffer(2 * batch * row);
	start = bare_now();
	for (size_t r = 0; r < rounds; r++)
		for (size_t i = 0; i < n; i++)
			memcpy(to + i % (2 * batch) * row,
			       table + head + (size_t)id[i] * row, row);
	bare_report(n * rounds, n * rounds * row, 1, bare_now() - start);
	return 0;
}
