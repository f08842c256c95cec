/* SPDX-License-Identifier: Apache-2.0 */
/* One try of a request: what the server says is judged before any of its
 * bytes are taken. */
#ifndef MR_IO_EXCHANGE_H
#define MR_IO_EXCHANGE_H

#include "io/curl.h"
#include "io/http.h"

enum mr_verdict {
	MR_HTTP_OPEN = 0, /* not judged yet */
	MR_HTTP_GOOD,	  /* the bytes that were asked for follow */
	MR_HTTP_EMPTY,	  /* the object has no bytes */
	MR_HTTP_BUSY,	  /* an error that may pass */
	MR_HTTP_DENIED,	  /* one that does not */
	MR_HTTP_CHANGED,  /* it is another object now */
	MR_HTTP_WHOLE,	  /* the server sends no parts */
	MR_HTTP_WRONG,	  /* the server sends other bytes */
};

struct mr_exchange {
	const struct mr_http_request *q;
	struct mr_http_answer *a;
	const atomic_bool *stop; /* or NULL */
	enum mr_verdict verdict;
	bool stopped;
	CURLcode code;
	char fault[CURL_ERROR_SIZE]; /* libcurl's words for code */
	/* the answer's headers */
	long status;
	char phrase[64]; /* "404 Not Found" */
	bool ranged;
	uint64_t first, last, total; /* of Content-Range */
	uint64_t length;	     /* of the body; UINT64_MAX: not told */
	char etag[MR_HTTP_ETAG];
	int64_t modified;	   /* or -1 */
	char region[64];	   /* that S3 would rather be asked in */
	int64_t wait;		   /* seconds, by Retry-After */
	char text[MR_HTTP_REASON]; /* the begin of what explains an error */
	size_t text_n;
};

/* Asks for what a->got has not got yet, and adds what comes. x->q, a and
 * stop are set by the caller, the rest by this. */
void mr_exchange_run(const struct mr_curl *c, struct mr_exchange *x);

#endif
