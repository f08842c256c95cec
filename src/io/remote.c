/* SPDX-License-Identifier: Apache-2.0 */
#include "io/remote.h"

#include "core/mem.h"
#include "core/str.h"
#include "io/http.h"
#include "io/s3.h"
#include "io/url.h"

struct mr_remote {
	char *name; /* as the user wrote it */
	char *url;
	bool s3, counted;
	struct mr_http_signer signer; /* when s3 */
	struct mr_http_settings set;
	uint64_t size;
	int64_t modified; /* seconds since 1970, or -1 */
	char etag[MR_HTTP_ETAG];
};

static bool is_s3(const char *name)
{
	return !strncmp(name, "s3://", 5);
}

/* A password would stand in every message and report. */
static int check_url(const char *url, struct mr_err *err)
{
	const char *host = strstr(url, "://") + 3;
	size_t n = strcspn(host, "/?#");

	if (memchr(host, '@', n))
		return mr_err_set(err, MR_EINVAL,
				  "a URL with a user or password in it; put "
				  "them into ~/.netrc instead");
	if (!n)
		return mr_err_set(err, MR_EINVAL, "%s: names no server", url);
	return 0;
}

static int find_url(struct mr_remote *r, struct mr_err *err)
{
	struct mr_str s = { 0 };
	int e;

	r->s3 = is_s3(r->name);
	if (r->s3) {
		e = mr_s3_signer_init(&r->signer, err);
		return e ? e : mr_s3_locate(r->name, &r->signer, &r->url, err);
	}
	e = check_url(r->name, err);
	if (e)
		return e;
	mr_url_mend(&s, r->name);
	r->url = mr_str_take(&s);
	return r->url ? 0 : mr_err_nomem(err, 0);
}

static struct mr_http_request request(const struct mr_remote *r)
{
	return (struct mr_http_request){ .url = r->url,
					 .name = r->name,
					 .signer = r->s3 ? &r->signer : NULL,
					 .set = &r->set,
					 .etag = r->etag,
					 .modified = r->modified,
					 .total = UINT64_MAX };
}

/*
 * A GET of the first byte instead of a HEAD: it tells as much, and also
 * whether parts can be had, why not if it fails, and it is what a signed URL
 * is good for.
 */
static int ask_size(struct mr_remote *r, const struct mr_patience *p,
		    struct mr_err *err)
{
	struct mr_http_request q = request(r);
	struct mr_http_answer a;
	char first;
	int e;

	q.to = &first;
	q.n = q.room = 1;
	e = mr_http_get(&q, &a, p, err);
	if (e)
		return e;
	if (a.total > INT64_MAX)
		return mr_err_set(err, MR_EDATA,
				  "%s: the server does not tell its size",
				  r->name);
	r->size = a.total;
	r->modified = a.modified;
	memcpy(r->etag, a.etag, sizeof(r->etag));
	return 0;
}

int mr_remote_open(struct mr_remote **out, const char *url,
		   const struct mr_patience *p, struct mr_err *err)
{
	struct mr_remote *r = mr_alloc(1, sizeof(*r), err);
	int e;

	*out = NULL;
	if (!r)
		return MR_ENOMEM;
	r->modified = -1;
	r->name = mr_strdup(url, err);
	e = r->name ? mr_http_ref(err) : MR_ENOMEM;
	r->counted = !e;
	if (!e)
		e = mr_http_settings_init(&r->set, err);
	if (!e)
		e = find_url(r, err);
	if (!e)
		e = ask_size(r, p, err);
	if (e)
		mr_remote_close(r);
	else
		*out = r;
	return e;
}

void mr_remote_close(struct mr_remote *r)
{
	if (!r)
		return;
	if (r->counted)
		mr_http_unref();
	mr_s3_signer_fini(&r->signer);
	mr_http_settings_fini(&r->set);
	free(r->url);
	free(r->name);
	free(r);
}

uint64_t mr_remote_size(const struct mr_remote *r)
{
	return r->size;
}

int64_t mr_remote_changed(const struct mr_remote *r)
{
	return r->modified > 0 ? r->modified * 1000000000 : 0;
}

const char *mr_remote_etag(const struct mr_remote *r)
{
	return r->etag;
}

int mr_remote_read(const struct mr_remote *r, void *to, size_t n,
		   uint64_t offset, const struct mr_patience *p,
		   struct mr_err *err)
{
	struct mr_http_request q = request(r);
	struct mr_http_answer a;

	q.from = offset;
	q.n = q.room = n;
	q.to = to;
	q.total = r->size;
	return mr_http_get(&q, &a, p, err);
}

int mr_remote_list(struct mr_name_list *l, const char *pattern,
		   struct mr_err *err)
{
	const char *path = strchr(strstr(pattern, "://") + 3, '/');

	if (is_s3(pattern) && path && strpbrk(path, "*?["))
		return mr_s3_list(l, pattern, err);
	/* In a URL, ? begins parameters, in which all may stand. */
	if (!is_s3(pattern) && path &&
	    strcspn(path, "*[") < strcspn(path, "?#"))
		return mr_err_set(err, MR_EINVAL,
				  "%s: a web server does not list its files; "
				  "write braces instead of wildcards, such as "
				  "{000..147}",
				  pattern);
	return mr_name_list_take(l, mr_strdup(pattern, err), err);
}
