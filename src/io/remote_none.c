/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of remote.c in a build without libcurl. */
#include "io/remote.h"

static int lacks(const char *url, struct mr_err *err)
{
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "%s: this build lacks libcurl; install its headers "
			  "and build again, or copy the file here",
			  url);
}

int mr_remote_open(struct mr_remote **r, const char *url,
		   const struct mr_patience *p, struct mr_err *err)
{
	(void)p;
	*r = NULL;
	return lacks(url, err);
}

void mr_remote_close(struct mr_remote *r)
{
	(void)r;
}

uint64_t mr_remote_size(const struct mr_remote *r)
{
	(void)r;
	return 0;
}

int64_t mr_remote_changed(const struct mr_remote *r)
{
	(void)r;
	return 0;
}

const char *mr_remote_etag(const struct mr_remote *r)
{
	(void)r;
	return "";
}

int mr_remote_read(const struct mr_remote *r, void *to, size_t n,
		   uint64_t offset, const struct mr_patience *p,
		   struct mr_err *err)
{
	(void)r;
	(void)to;
	(void)n;
	(void)offset;
	(void)p;
	return lacks("URL", err);
}

int mr_remote_list(struct mr_name_list *l, const char *pattern,
		   struct mr_err *err)
{
	(void)l;
	return lacks(pattern, err);
}
