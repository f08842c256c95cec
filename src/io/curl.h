/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's functions. They are looked up when the first URL is opened: the
 * 30 libraries behind libcurl would add 5 ms to each start of the command.
 */
#ifndef MR_IO_CURL_H
#define MR_IO_CURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "core/err.h"

/* clang-format off */
#define MR_CURL_FUNCTIONS(f) \
	f(global_init) f(easy_init) f(easy_cleanup) f(easy_reset) \
	f(easy_setopt) f(easy_perform) f(easy_getinfo) f(easy_strerror) \
	f(slist_append) f(slist_free_all) f(getdate)
/* clang-format on */

struct mr_curl {
#define MR_CURL_MEMBER(name) __typeof__(&(curl_##name)) name;
	MR_CURL_FUNCTIONS(MR_CURL_MEMBER)
#undef MR_CURL_MEMBER
};

/* Loaded once for the process; NULL: *err says why not. */
const struct mr_curl *mr_curl_get(struct mr_err *err);

/* A handle, and giving it back: with its connections, for others to use. */
CURL *mr_curl_take(const struct mr_curl *c);
void mr_curl_give(const struct mr_curl *c, CURL *h);

#endif
