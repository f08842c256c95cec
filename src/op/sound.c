/* SPDX-License-Identifier: Apache-2.0 */
#include "op/sound.h"

#include "op/frames.h"

int mr_rate_check(const struct mr_opctx *cx, const char *name, int64_t rate)
{
	if (!rate || !cx->rate || !*cx->rate || *cx->rate == rate)
		return 0;
	return mr_err_set(cx->err, MR_EDATA,
			  "the sound has %lld samples per second, and %s was "
			  "told rate=%lld; `resample %lld` before it makes "
			  "them alike",
			  (long long)*cx->rate, name, (long long)rate,
			  (long long)rate);
}

size_t mr_pcm_size(const struct mr_pcm *p)
{
	return (p->as.f32 ? 4 : 2) * (size_t)p->channels;
}

static int grow(struct mr_pcm *p, size_t need, struct mr_err *err)
{
	size_t cap = need + need / 2 < p->max ? need + need / 2 : p->max;
	void *q;

	if (need > p->max)
		return mr_err_set(
			err, MR_ELIMIT,
			"the sound has more than the %zu bytes that a "
			"sample may take; raise --memory",
			p->max);
	q = realloc(p->data, cap);
	if (!q)
		return mr_err_set(err, MR_ENOMEM, "out of memory for %zu bytes",
				  cap);
	p->data = q;
	p->cap = cap;
	return 0;
}

/* What the next frame will be written to is there when that is decoded. */
static void ask_for(char *p, size_t bytes)
{
	for (size_t k = 0; k < bytes; k += 64)
		__builtin_prefetch(p + k, 1);
}

void *mr_pcm_room(struct mr_pcm *p, size_t n, struct mr_err *err)
{
	size_t size = mr_pcm_size(p), need = (p->used + n) * size, left;
	char *to;

	if (need > p->cap && !p->max) {
		mr_err_set(err, MR_EDATA,
			   "the sound has more than the %zu samples that its "
			   "head claims",
			   p->cap / size);
		return NULL;
	}
	if (need > p->cap && grow(p, need, err))
		return NULL;
	to = (char *)p->data + p->used * size;
	p->used += n;
	left = p->cap - need;
	ask_for((char *)p->data + need, n * size < left ? n * size : left);
	return to;
}

size_t mr_id3_size(const uint8_t *b, size_t n)
{
	size_t at = 0;

	while (n - at >= 10 && !memcmp(b + at, "ID3", 3)) {
		const uint8_t *s = b + at + 6;
		size_t size = 10 + (s[3] & 0x7fu) + ((s[2] & 0x7fu) << 7) +
			      ((s[1] & 0x7fu) << 14) + ((s[0] & 0x7fu) << 21);

		if (b[at + 5] & 0x10) /* a footer */
			size += 10;
		if (size > n - at)
			return n;
		at += size;
	}
	return at;
}
