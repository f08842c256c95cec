/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to a server and its answer, by libcurl, which is loaded when
 * the first URL is opened. Connections are kept for the next request, by
 * whichever thread.
 */
#ifndef MR_IO_HTTP_H
#define MR_IO_HTTP_H

#include "io/input.h"

enum { MR_HTTP_ETAG = 200, MR_HTTP_REASON = 2048 };

/* Who asks, for servers that speak S3. */
struct mr_http_signer {
	char region[64];
	char *key, *secret; /* NULL: requests are not signed */
	char *token;	    /* or NULL */
};

/* What holds for all requests to an object. */
struct mr_http_settings {
	char *ca_file, *ca_dir; /* or NULL: libcurl's own */
	int tries;
	double first_wait; /* seconds before the second try */
	long silence;	   /* seconds without a byte that are a failure */
};

struct mr_http_request {
	const char *url;		     /* escaped */
	const char *name;		     /* of the object, for messages */
	const struct mr_http_signer *signer; /* or NULL: no S3 */
	const struct mr_http_settings *set;
	/* Bytes [from, from + n) are wanted; n = 0: all of an answer of at
	 * most `room` bytes. */
	uint64_t from;
	size_t n;
	void *to; /* where they go, `room` bytes */
	size_t room;
	/* What it must still be: */
	const char *etag; /* empty: not known */
	int64_t modified; /* for servers without ETags; -1: not known */
	uint64_t total;	  /* UINT64_MAX: not known */
};

struct mr_http_answer {
	size_t got;	  /* bytes at request.to */
	uint64_t total;	  /* bytes of the object, UINT64_MAX: not told */
	int64_t modified; /* seconds since 1970, or -1 */
	char etag[MR_HTTP_ETAG];
};

/*
 * Ask, and ask again where that may help; a part that has come is not asked
 * for again. MR_EDATA when the object is no longer what it was.
 */
int mr_http_get(const struct mr_http_request *q, struct mr_http_answer *a,
		const struct mr_patience *p, struct mr_err *err);

/* From the environment. fini() also for one that was only zeroed. */
int mr_http_settings_init(struct mr_http_settings *s, struct mr_err *err);
void mr_http_settings_fini(struct mr_http_settings *s);

/* Whoever uses this counts itself; with the last one connections close.
 * MR_EUNSUPPORTED when libcurl cannot be loaded. */
int mr_http_ref(struct mr_err *err);
void mr_http_unref(void);

#endif
