/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, and the machine's limits that files tell. */
#ifndef MR_CORE_FILE_H
#define MR_CORE_FILE_H

#include <sys/stat.h>

#include "core/err.h"

/*
 * The file's bytes with a zero after them, to be freed by the caller.
 * MR_ELIMIT over max bytes.
 */
int mr_file_read(const char *path, size_t max, char **data, size_t *size,
		 struct mr_err *err);

/* A new file for what is to be renamed to `path` when it is whole, open for
 * writing: nobody else's, and no link that somebody has put there. Its name
 * goes to tmp. -1, and errno: there is none. */
int mr_file_beside(const char *path, char *tmp, size_t cap);

/* Replace or make the file; readers see the old or the new, never a part:
 * temporary name, fsync, rename. What is there and no file, as /dev/stdout, is
 * written to. */
int mr_file_write(const char *path, const void *data, size_t size,
		  struct mr_err *err);

/* write() until all is written; 0 or an errno. */
int mr_write_all(int fd, const void *data, size_t size);
/* The same at a place in the file. */
int mr_pwrite_all(int fd, const void *data, size_t size, uint64_t at);
/* false: the file ends before, or cannot be read. */
bool mr_pread_all(int fd, void *to, size_t size, uint64_t at);

/* When it was changed, in nanoseconds since 1970. */
int64_t mr_file_changed(const struct stat *st);

/* Cores this process may use: affinity and the cgroup's quota. */
int mr_machine_cores(void);
/* Memory this process may use: the machine's or the cgroup's limit. */
uint64_t mr_machine_memory(void);

#endif
