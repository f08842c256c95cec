/* SPDX-License-Identifier: Apache-2.0 */
#include "io/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
	REDIRECTS_MAX = 5,
	CONNECT_MAX = 30,	   /* seconds */
	RECEIVE_BYTES = 128 << 10, /* at once: 16 KB would be 7 calls per
				    * sample of 100 KB */
};

/* SHA-256 of nothing, which is what a GET sends; libcurl 7.88 does not give
 * it by itself. */
#define NOTHING_HASHED           \
	"x-amz-content-sha256: " \
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- headers ---- */

static void copy_text(char *to, size_t cap, const char *from, size_t n)
{
	if (n >= cap)
		n = 0; /* a part of it would be misleading */
	memcpy(to, from, n);
	to[n] = 0;
}

static bool digits(const char **s, uint64_t *v)
{
	char *end;

	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	*v = strtoull(*s, &end, 10);
	*s = end;
	return !errno;
}

/* "bytes 0-99/1234"; either half may be "*". */
static void content_range(struct mr_exchange *x, const char *s)
{
	x->total = UINT64_MAX;
	if (strncasecmp(s, "bytes ", 6))
		return;
	s += 6;
	if (*s == '*')
		s++;
	else if (digits(&s, &x->first) && *s++ == '-' && digits(&s, &x->last))
		x->ranged = true;
	else
		return;
	if (*s++ == '/' && *s != '*' && !digits(&s, &x->total))
		x->total = UINT64_MAX;
}

static void forget_headers(struct mr_exchange *x)
{
	x->status = 0;
	x->phrase[0] = x->etag[0] = x->region[0] = 0;
	x->ranged = false;
	x->total = x->length = UINT64_MAX;
	x->modified = -1;
}

/* "HTTP/1.1 404 Not Found" */
static void status_line(struct mr_exchange *x, const char *line)
{
	const char *s = strchr(line, ' ');

	forget_headers(x);
	if (!s)
		return;
	s += strspn(s, " ");
	x->status = strtol(s, NULL, 10);
	snprintf(x->phrase, sizeof(x->phrase), "%s", s);
}

static void header(const struct mr_curl *c, struct mr_exchange *x,
		   const char *name, const char *value)
{
	const char *s = value;

	if (!strcasecmp(name, "content-range"))
		content_range(x, value);
	else if (!strcasecmp(name, "content-length") && !digits(&s, &x->length))
		x->length = UINT64_MAX;
	else if (!strcasecmp(name, "etag"))
		copy_text(x->etag, sizeof(x->etag), value, strlen(value));
	else if (!strcasecmp(name, "last-modified"))
		x->modified = c->getdate(value, NULL);
	else if (!strcasecmp(name, "x-amz-bucket-region"))
		copy_text(x->region, sizeof(x->region), value, strlen(value));
}

struct call {
	const struct mr_curl *c;
	struct mr_exchange *x;
};

static size_t take_header(char *data, size_t one, size_t n, void *arg)
{
	struct call *call = arg;
	char line[1024], *value;
	size_t len = n * one;

	while (len && strchr("\r\n \t", data[len - 1]))
		len--;
	if (len >= sizeof(line))
		return n * one; /* none of ours */
	copy_text(line, sizeof(line), data, len);
	value = strchr(line, ':');
	if (!strncmp(line, "HTTP/", 5)) {
		status_line(call->x, line);
	} else if (value) {
		*value++ = 0;
		value += strspn(value, " \t");
		header(call->c, call->x, line, value);
	}
	return n * one;
}

/* ---- judging ---- */

static bool may_pass(long status)
{
	return status == 408 || status == 429 || status == 500 ||
	       status == 502 || status == 503 || status == 504;
}

static uint64_t wanted_first(const struct mr_exchange *x)
{
	return x->q->from + x->a->got;
}

static enum mr_verdict judge_part(const struct mr_exchange *x)
{
	const struct mr_http_request *q = x->q;
	bool known = q->total != UINT64_MAX;

	if (x->status == 200 && x->length == 0 && !known)
		return MR_HTTP_EMPTY;
	if (x->status == 200)
		return MR_HTTP_WHOLE;
	if (*q->etag && *x->etag && strcmp(q->etag, x->etag))
		return MR_HTTP_CHANGED;
	if (!*q->etag && q->modified >= 0 && x->modified >= 0 &&
	    q->modified != x->modified)
		return MR_HTTP_CHANGED;
	if (known && x->total != UINT64_MAX && x->total != q->total)
		return MR_HTTP_CHANGED;
	if (!x->ranged || x->first != wanted_first(x) ||
	    x->last != q->from + q->n - 1)
		return MR_HTTP_WRONG;
	return MR_HTTP_GOOD;
}

static enum mr_verdict judge(const struct mr_exchange *x)
{
	bool known = x->q->total != UINT64_MAX;

	if (may_pass(x->status))
		return MR_HTTP_BUSY;
	if (x->status == 412)
		return MR_HTTP_CHANGED;
	if (x->status == 416 && x->q->n && known)
		return MR_HTTP_CHANGED;
	if (x->status == 416 && x->q->n && x->total == 0)
		return MR_HTTP_EMPTY;
	if (x->status != 200 && x->status != 206)
		return MR_HTTP_DENIED;
	return x->q->n ? judge_part(x) : MR_HTTP_GOOD;
}

/* ---- the body ---- */

static size_t keep_text(struct mr_exchange *x, const char *data, size_t n)
{
	size_t room = sizeof(x->text) - 1 - x->text_n;
	size_t k = n < room ? n : room;

	memcpy(x->text + x->text_n, data, k);
	x->text_n += k;
	return k == n ? n : 0; /* enough: end it */
}

static size_t take_body(char *data, size_t one, size_t n, void *arg)
{
	struct mr_exchange *x = ((struct call *)arg)->x;
	size_t most = x->q->n ? x->q->n : x->q->room;

	n *= one;
	if (!x->verdict)
		x->verdict = judge(x);
	if (x->verdict == MR_HTTP_BUSY || x->verdict == MR_HTTP_DENIED)
		return keep_text(x, data, n);
	if (x->verdict == MR_HTTP_GOOD && n > most - x->a->got)
		x->verdict = MR_HTTP_WRONG;
	if (x->verdict != MR_HTTP_GOOD)
		return 0;
	memcpy((char *)x->q->to + x->a->got, data, n);
	x->a->got += n;
	return n;
}

/* ---- asking ---- */

static int asked_to_stop(void *arg, curl_off_t a, curl_off_t b, curl_off_t c,
			 curl_off_t d)
{
	struct mr_exchange *x = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	x->stopped = x->stop && atomic_load(x->stop);
	return x->stopped;
}

static void add_header(const struct mr_curl *c, struct curl_slist **list,
		       const char *name, const char *value)
{
	char line[4096];
	struct curl_slist *more;
	int n = snprintf(line, sizeof(line), "%s%s", name, value);

	more = n < (int)sizeof(line) ? c->slist_append(*list, line) : NULL;
	if (more)
		*list = more;
}

/* A redirect would take the token to another server; S3 has no need of it. */
static void sign(const struct mr_curl *c, CURL *h,
		 const struct mr_http_signer *s, struct curl_slist **list)
{
	char how[96];

	c->easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
	if (!s->key)
		return;
	snprintf(how, sizeof(how), "aws:amz:%s:s3", s->region);
	c->easy_setopt(h, CURLOPT_AWS_SIGV4, how);
	c->easy_setopt(h, CURLOPT_USERNAME, s->key);
	c->easy_setopt(h, CURLOPT_PASSWORD, s->secret);
	add_header(c, list, NOTHING_HASHED, "");
	if (s->token)
		add_header(c, list, "x-amz-security-token: ", s->token);
}

static void follow(const struct mr_curl *c, CURL *h, const char *url)
{
	bool tls = !strncmp(url, "https:", 6);

	c->easy_setopt(h, CURLOPT_FOLLOWLOCATION, 1L);
	c->easy_setopt(h, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
	c->easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR,
		       tls ? "https" : "http,https");
	c->easy_setopt(h, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
}

static void set_network(const struct mr_curl *c, CURL *h,
			const struct mr_http_settings *set)
{
	long connect = set->silence < CONNECT_MAX ? set->silence : CONNECT_MAX;

	c->easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	/* Many connections, one request at a time on each: version 2 has
	 * nothing to add. */
	c->easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	c->easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	c->easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	c->easy_setopt(h, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
	c->easy_setopt(h, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	c->easy_setopt(h, CURLOPT_USERAGENT, "millrace/" MR_VERSION);
	c->easy_setopt(h, CURLOPT_CONNECTTIMEOUT, connect);
	c->easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
	c->easy_setopt(h, CURLOPT_LOW_SPEED_TIME, set->silence);
	if (set->ca_file)
		c->easy_setopt(h, CURLOPT_CAINFO, set->ca_file);
	if (set->ca_dir)
		c->easy_setopt(h, CURLOPT_CAPATH, set->ca_dir);
}

static void set_callbacks(const struct mr_curl *c, CURL *h, struct call *call)
{
	c->easy_setopt(h, CURLOPT_ERRORBUFFER, call->x->fault);
	c->easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
	c->easy_setopt(h, CURLOPT_HEADERDATA, call);
	c->easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	c->easy_setopt(h, CURLOPT_WRITEDATA, call);
	c->easy_setopt(h, CURLOPT_XFERINFOFUNCTION, asked_to_stop);
	c->easy_setopt(h, CURLOPT_XFERINFODATA, call->x);
	c->easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
}

static void set_request(const struct mr_curl *c, CURL *h,
			const struct mr_exchange *x, struct curl_slist **list)
{
	const struct mr_http_request *q = x->q;
	char range[64];

	c->easy_setopt(h, CURLOPT_URL, q->url);
	if (q->signer)
		sign(c, h, q->signer, list);
	else
		follow(c, h, q->url);
	if (q->n) {
		snprintf(range, sizeof(range), "%llu-%llu",
			 (unsigned long long)wanted_first(x),
			 (unsigned long long)(q->from + q->n - 1));
		c->easy_setopt(h, CURLOPT_RANGE, range);
	}
	/* A weak ETag matches nothing. */
	if (*q->etag == '"')
		add_header(c, list, "If-Match: ", q->etag);
	if (*list)
		c->easy_setopt(h, CURLOPT_HTTPHEADER, *list);
}

void mr_exchange_run(const struct mr_curl *c, struct mr_exchange *x)
{
	CURL *h = mr_curl_take(c);
	struct curl_slist *list = NULL;
	struct call call = { c, x };
	curl_off_t wait = 0;

	forget_headers(x);
	x->verdict = MR_HTTP_OPEN;
	x->stopped = false;
	x->text_n = 0;
	x->fault[0] = 0;
	x->code = CURLE_OUT_OF_MEMORY;
	if (h) {
		set_network(c, h, x->q->set);
		set_callbacks(c, h, &call);
		set_request(c, h, x, &list);
		x->code = c->easy_perform(h);
		c->easy_getinfo(h, CURLINFO_RETRY_AFTER, &wait);
		c->slist_free_all(list);
		mr_curl_give(c, h);
	}
	x->wait = wait;
	x->text[x->text_n] = 0;
	if (!*x->fault)
		snprintf(x->fault, sizeof(x->fault), "%s",
			 c->easy_strerror(x->code));
	if (x->code == CURLE_OK && !x->verdict)
		x->verdict = judge(x);
}
