/* SPDX-License-Identifier: Apache-2.0 */
#include "io/s3.h"

#include <fnmatch.h>
#include <stdio.h>

#include "core/mem.h"
#include "core/str.h"
#include "io/aws.h"
#include "io/url.h"
#include "io/xml.h"

enum {
	KEY_MAX = 1024, /* bytes, by S3's own rule */
	BUCKET_MAX = 255,
	PAGE_MAX = 16 << 20, /* bytes for 1,000 names */
	TOKEN_MAX = 4096,
	EMPTY_MAX = 1000, /* pages one after another */
};

/* ---- names ---- */

struct place {
	char bucket[BUCKET_MAX + 1];
	const char *key; /* in the name */
};

static int split(const char *name, struct place *p, struct mr_err *err)
{
	const char *bucket = name + strlen("s3://");
	size_t n = strcspn(bucket, "/");

	if (!n || n > BUCKET_MAX || bucket[n] != '/' || !bucket[n + 1])
		return mr_err_set(err, MR_EINVAL, "%s: want s3://BUCKET/KEY",
				  name);
	memcpy(p->bucket, bucket, n);
	p->bucket[n] = 0;
	p->key = bucket + n + 1;
	if (strspn(p->bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
			      "VWXYZ0123456789.-_") != n)
		return mr_err_set(err, MR_EINVAL,
				  "%s: no bucket is called '%s'", name,
				  p->bucket);
	return 0;
}

static int endpoint_of(const char **url, struct mr_err *err)
{
	static const char *const names[] = { "AWS_ENDPOINT_URL_S3",
					     "AWS_ENDPOINT_URL" };

	*url = NULL;
	for (size_t i = 0; i < MR_COUNT(names); i++) {
		const char *text = getenv(names[i]);

		if (!text || !*text)
			continue;
		if (strncmp(text, "http://", 7) && strncmp(text, "https://", 8))
			return mr_err_set(err, MR_EINVAL,
					  "the variable %s is '%s'; want a URL "
					  "such as http://localhost:9000",
					  names[i], text);
		*url = text;
		return 0;
	}
	return 0;
}

/* The bucket's URL, without a slash at its end. */
static int bucket_url(struct mr_str *s, const char *bucket, const char *region,
		      struct mr_err *err)
{
	const char *end, *dot_cn = strncmp(region, "cn-", 3) ? "" : ".cn";
	int e = endpoint_of(&end, err);

	if (e)
		return e;
	if (end) {
		size_t n = strlen(end);

		while (n && end[n - 1] == '/')
			n--;
		mr_str_addn(s, end, n);
		mr_str_addf(s, "/%s", bucket);
	} else if (strpbrk(bucket, "._")) {
		/* Amazon's certificates hold for one label only. */
		mr_str_addf(s, "https://s3.%s.amazonaws.com%s/%s", region,
			    dot_cn, bucket);
	} else {
		mr_str_addf(s, "https://%s.s3.%s.amazonaws.com%s", bucket,
			    region, dot_cn);
	}
	return 0;
}

int mr_s3_locate(const char *name, const struct mr_http_signer *signer,
		 char **url, struct mr_err *err)
{
	struct mr_str s = { 0 };
	struct place p;
	int e = split(name, &p, err);

	*url = NULL;
	if (!e)
		e = bucket_url(&s, p.bucket, signer->region, err);
	if (e) {
		mr_str_fini(&s);
		return e;
	}
	mr_str_add(&s, "/");
	mr_url_escape(&s, p.key, "/");
	*url = mr_str_take(&s);
	return *url ? 0 : mr_err_nomem(err, 0);
}

/* ---- who asks ---- */

int mr_s3_signer_init(struct mr_http_signer *s, struct mr_err *err)
{
	*s = (struct mr_http_signer){ 0 };
	return mr_aws_find(s, err);
}

void mr_s3_signer_fini(struct mr_http_signer *s)
{
	free(s->key);
	free(s->secret);
	free(s->token);
	*s = (struct mr_http_signer){ 0 };
}

/* ---- lists ---- */

struct listing {
	struct mr_name_list *out;
	const char *pattern; /* with s3:// */
	struct place place;
	size_t literal; /* bytes of the key before the first wildcard */
	struct mr_http_signer signer;
	struct mr_http_settings set;
	char *page;
	char token[TOKEN_MAX];
	size_t keys; /* of the page */
};

/* The parameters must be sorted, which libcurl 7.88 leaves to us. */
static int page_url(const struct listing *g, char **url, struct mr_err *err)
{
	const char *key = g->place.key;
	struct mr_str s = { 0 };
	char prefix[KEY_MAX + 1];
	int e = bucket_url(&s, g->place.bucket, g->signer.region, err);

	if (e) {
		mr_str_fini(&s);
		return e;
	}
	memcpy(prefix, key, g->literal);
	prefix[g->literal] = 0;
	mr_str_add(&s, "/?");
	if (*g->token) {
		mr_str_add(&s, "continuation-token=");
		mr_url_escape(&s, g->token, "");
		mr_str_add(&s, "&");
	}
	/* What lies deeper than the pattern is not even listed. */
	if (!strchr(key + g->literal, '/'))
		mr_str_add(&s, "delimiter=%2F&");
	mr_str_add(&s, "list-type=2&prefix=");
	mr_url_escape(&s, prefix, "");
	*url = mr_str_take(&s);
	return *url ? 0 : mr_err_nomem(err, 0);
}

static int get_page(struct listing *g, size_t *n, struct mr_err *err)
{
	struct mr_http_answer a;
	char *url = NULL;
	int e = page_url(g, &url, err);
	struct mr_http_request q = { .url = url,
				     .name = g->pattern,
				     .signer = &g->signer,
				     .set = &g->set,
				     .to = g->page,
				     .room = PAGE_MAX,
				     .etag = "",
				     .modified = -1,
				     .total = UINT64_MAX };

	if (e)
		return e;
	e = mr_http_get(&q, &a, NULL, err);
	*n = a.got;
	free(url);
	return e;
}

static int damaged(const struct listing *g, const char *what,
		   struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "%s: the server's list of the bucket is damaged: %s",
			  g->pattern, what);
}

static int add_name(struct listing *g, const char *key, struct mr_err *err)
{
	struct mr_str s = { 0 };
	char *name;

	mr_str_addf(&s, "s3://%s/%s", g->place.bucket, key);
	name = mr_str_take(&s);
	return name ? mr_name_list_take(g->out, name, err) :
		      mr_err_nomem(err, 0);
}

static int take_page(struct listing *g, size_t n, bool *more,
		     struct mr_err *err)
{
	struct mr_xml x = { g->page, g->page + n }, all = x;
	char key[KEY_MAX + 1], last[TOKEN_MAX], flag[8] = "";
	int k, e = 0;

	while (!e && (k = mr_xml_next(&x, "Key", key, sizeof(key))) > 0) {
		bool same = !strcmp(key, g->place.key);

		g->keys++;
		if (same ||
		    !fnmatch(g->place.key, key, FNM_PATHNAME | FNM_PERIOD))
			e = add_name(g, key, err);
	}
	if (e)
		return e;
	if (k < 0)
		return damaged(g, "a key", err);
	if (!mr_xml_find(all, "IsTruncated", flag, sizeof(flag)))
		return damaged(g, "no IsTruncated", err);
	*more = !strcmp(flag, "true");
	memcpy(last, g->token, sizeof(last));
	if (*more && (!mr_xml_find(all, "NextContinuationToken", g->token,
				   sizeof(g->token)) ||
		      !strcmp(last, g->token)))
		return damaged(g, "no way to go on", err);
	return 0;
}

static int list_all(struct listing *g, struct mr_err *err)
{
	bool more = true;
	int empty = 0;
	size_t n;
	int e = mr_http_settings_init(&g->set, err);

	if (!e)
		e = mr_s3_signer_init(&g->signer, err);
	if (!e)
		g->page = mr_map(PAGE_MAX, err);
	if (!e && !g->page)
		e = MR_ENOMEM;
	while (!e && more) {
		g->keys = 0;
		e = get_page(g, &n, err);
		if (!e)
			e = take_page(g, n, &more, err);
		empty = g->keys ? 0 : empty + 1;
		if (!e && empty > EMPTY_MAX)
			e = damaged(g, "page after page without a key", err);
	}
	mr_unmap(g->page, PAGE_MAX);
	mr_s3_signer_fini(&g->signer);
	mr_http_settings_fini(&g->set);
	return e;
}

int mr_s3_list(struct mr_name_list *l, const char *pattern, struct mr_err *err)
{
	struct listing g = { .out = l, .pattern = pattern };
	int e = split(pattern, &g.place, err);

	if (e)
		return e;
	g.literal = strcspn(g.place.key, "*?[");
	if (g.literal > KEY_MAX)
		return mr_err_set(err, MR_EINVAL,
				  "%s: a key of more than %d bytes", pattern,
				  KEY_MAX);
	e = mr_http_ref(err);
	if (e)
		return e;
	e = list_all(&g, err);
	mr_http_unref();
	return e;
}
