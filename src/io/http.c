/* SPDX-License-Identifier: Apache-2.0 */
#include "io/http.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "io/exchange.h"
#include "io/xml.h"

enum { RETRIES_DEFAULT = 4, WAIT_MAX = 20, SILENCE_DEFAULT = 30 };

/* ---- settings ---- */

static int number_of(const char *name, double def, double max, double *v,
		     struct mr_err *err)
{
	const char *text = getenv(name);
	char *end;

	*v = def;
	if (!text || !*text)
		return 0;
	*v = strtod(text, &end);
	if (!*end && end != text && *v >= 0 && *v <= max)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "the variable %s is '%s'; want a number from 0 to %g",
			  name, text, max);
}

static int path_of(const char *name, char **to, struct mr_err *err)
{
	const char *text = getenv(name);

	if (*to || !text || !*text)
		return 0;
	*to = mr_strdup(text, err);
	return *to ? 0 : MR_ENOMEM;
}

int mr_http_settings_init(struct mr_http_settings *s, struct mr_err *err)
{
	double retries, wait, silence;
	int e = number_of("MILLRACE_HTTP_RETRIES", RETRIES_DEFAULT, 100,
			  &retries, err);

	*s = (struct mr_http_settings){ 0 };
	if (!e)
		e = number_of("MILLRACE_HTTP_BACKOFF", 0.4, 60, &wait, err);
	if (!e)
		e = number_of("MILLRACE_HTTP_TIMEOUT", SILENCE_DEFAULT, 3600,
			      &silence, err);
	if (e)
		return e;
	s->tries = 1 + (int)retries;
	s->first_wait = wait;
	s->silence = silence < 1 ? 1 : (long)silence;
	e = path_of("CURL_CA_BUNDLE", &s->ca_file, err);
	if (!e)
		e = path_of("SSL_CERT_FILE", &s->ca_file, err);
	if (!e)
		e = path_of("AWS_CA_BUNDLE", &s->ca_file, err);
	if (!e)
		e = path_of("SSL_CERT_DIR", &s->ca_dir, err);
	return e;
}

void mr_http_settings_fini(struct mr_http_settings *s)
{
	free(s->ca_file);
	free(s->ca_dir);
	s->ca_file = s->ca_dir = NULL;
}

/* ---- texts ---- */

/* What went wrong, in the server's or in libcurl's words. */
static void reason(const struct mr_exchange *x, char *buf, size_t cap)
{
	char code[64], message[300];
	struct mr_xml xml = { x->text, x->text + x->text_n };

	if (x->verdict != MR_HTTP_BUSY && x->verdict != MR_HTTP_DENIED) {
		snprintf(buf, cap, "%s",
			 x->code ? x->fault : "the answer was cut short");
		return;
	}
	if (!mr_xml_find(xml, "Code", code, sizeof(code)))
		snprintf(buf, cap, "%s", x->phrase);
	else if (!mr_xml_find(xml, "Message", message, sizeof(message)))
		snprintf(buf, cap, "%s (%s)", x->phrase, code);
	else
		snprintf(buf, cap, "%s (%s: %s)", x->phrase, code, message);
}

static int denied(const struct mr_exchange *x, struct mr_err *err)
{
	const struct mr_http_signer *s = x->q->signer;
	char why[512], hint[200] = "";

	reason(x, why, sizeof(why));
	if (s && *x->region && strcmp(x->region, s->region))
		snprintf(hint, sizeof(hint),
			 "; the bucket is in another region: set AWS_REGION=%s",
			 x->region);
	else if (s && !s->key && x->status >= 400 && x->status <= 403)
		snprintf(hint, sizeof(hint),
			 "; asked without keys: set AWS_ACCESS_KEY_ID and "
			 "AWS_SECRET_ACCESS_KEY");
	return mr_err_set(err, MR_EIO, "%s: the server says %s%s", x->q->name,
			  why, hint);
}

static int changed(const struct mr_exchange *x, struct mr_err *err)
{
	const struct mr_http_request *q = x->q;
	char was[MR_HTTP_ETAG * 2 + 40] = "";

	if (*x->etag && strcmp(x->etag, q->etag))
		snprintf(was, sizeof(was), " (its ETag was %s, is %s)", q->etag,
			 x->etag);
	return mr_err_set(
		err, MR_EDATA,
		"%s: has changed on the server since it was opened%s; "
		"start again",
		q->name, was);
}

static int wrong(const struct mr_exchange *x, struct mr_err *err)
{
	const struct mr_http_request *q = x->q;

	if (!q->n)
		return mr_err_set(err, MR_EDATA,
				  "%s: the server's answer is longer than %zu "
				  "bytes",
				  q->name, q->room);
	if (!x->ranged)
		return mr_err_set(err, MR_EDATA,
				  "%s: the server's answer does not say which "
				  "bytes it holds (%s)",
				  q->name, x->phrase);
	return mr_err_set(err, MR_EDATA,
			  "%s: asked for the bytes %llu to %llu, the server "
			  "sent %llu to %llu",
			  q->name, (unsigned long long)(q->from + x->a->got),
			  (unsigned long long)(q->from + q->n - 1),
			  (unsigned long long)x->first,
			  (unsigned long long)x->last);
}

static int whole(const struct mr_exchange *x, struct mr_err *err)
{
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "%s: the server sends only all of it, not parts "
			  "(Range); use another server, such as nginx, or "
			  "copy the file here",
			  x->q->name);
}

static int gave_up(const struct mr_exchange *x, int tries, struct mr_err *err)
{
	char why[512];

	reason(x, why, sizeof(why));
	if (tries == 1)
		return mr_err_set(err, MR_EIO, "%s: cannot read: %s",
				  x->q->name, why);
	return mr_err_set(err, MR_EIO, "%s: cannot read, tried %d times: %s",
			  x->q->name, tries, why);
}

/* ---- trying ---- */

/* A name that is not known now will not be when it is first used. */
static bool may_pass(const struct mr_exchange *x)
{
	switch (x->code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return x->q->total != UINT64_MAX;
	case CURLE_OK: /* a body that was too short */
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		return true;
	default:
		return false;
	}
}

enum next { DONE, AGAIN, FAILED };

static enum next settle(struct mr_exchange *x, struct mr_err *err)
{
	const struct mr_http_request *q = x->q;

	if (x->stopped) {
		mr_err_set(err, MR_ESTATE, "%s: stopped", q->name);
		return FAILED;
	}
	switch (x->verdict) {
	case MR_HTTP_BUSY:
		return AGAIN;
	case MR_HTTP_EMPTY:
		return DONE;
	case MR_HTTP_DENIED:
		denied(x, err);
		return FAILED;
	case MR_HTTP_CHANGED:
		changed(x, err);
		return FAILED;
	case MR_HTTP_WHOLE:
		whole(x, err);
		return FAILED;
	case MR_HTTP_WRONG:
		wrong(x, err);
		return FAILED;
	default:
		break;
	}
	/* All that was asked for counts, however the connection ended. */
	if (q->n ? x->a->got == q->n : !x->code)
		return DONE;
	if (may_pass(x))
		return AGAIN;
	gave_up(x, 1, err);
	return FAILED;
}

/* Three times as long each time, and not as long as others do. */
static double pause_after(const struct mr_exchange *x, int tries)
{
	double s = x->q->set->first_wait * pow(3, tries - 1);
	double part = (double)(mr_mix64(mr_clock_ns()) >> 11) * 0x1p-53;

	s *= 0.5 + 0.5 * part;
	if ((double)x->wait > s)
		s = (double)x->wait;
	return s < WAIT_MAX ? s : WAIT_MAX;
}

/* False when it was told to stop. */
static bool pause_for(double seconds, const atomic_bool *stop)
{
	const struct timespec slice = { 0, 20 * 1000 * 1000 };
	uint64_t end = mr_clock_ns() + (uint64_t)(seconds * 1e9);

	while (mr_clock_ns() < end) {
		if (stop && atomic_load(stop))
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

static int try_all(const struct mr_curl *c, struct mr_exchange *x, int tries,
		   struct mr_err *err)
{
	for (int k = 1;; k++) {
		if (!x->q->n)
			x->a->got = 0;
		mr_exchange_run(c, x);
		switch (settle(x, err)) {
		case DONE:
			return 0;
		case FAILED:
			return err->code;
		case AGAIN:
			break;
		}
		if (k >= tries)
			return gave_up(x, k, err);
		if (!pause_for(pause_after(x, k), x->stop))
			return mr_err_set(err, MR_ESTATE, "%s: stopped",
					  x->q->name);
	}
}

int mr_http_get(const struct mr_http_request *q, struct mr_http_answer *a,
		const struct mr_patience *p, struct mr_err *err)
{
	const struct mr_curl *c = mr_curl_get(err);
	struct mr_exchange x = { .q = q, .a = a, .stop = p ? p->stop : NULL };
	int e;

	*a = (struct mr_http_answer){ .total = UINT64_MAX, .modified = -1 };
	if (!c)
		return MR_EUNSUPPORTED;
	e = try_all(c, &x, p && p->once ? 1 : q->set->tries, err);
	if (e)
		return e;
	a->total = x.verdict == MR_HTTP_EMPTY ? 0 : x.total;
	a->modified = x.modified;
	memcpy(a->etag, x.etag, sizeof(a->etag));
	return 0;
}
