/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/ram.h"

#include <sys/mman.h>

#include "core/mem.h"

enum {
	SMALL = 8,    /* alignment of fields below MR_ALIGN bytes */
	SLACK = 4096, /* that a loop may read beyond the last sample */
};

/* What a word says; from HELD on: the place, in units of MR_ALIGN bytes. */
enum { MISSING, ASKED, BUSY, REFUSED, HELD };

/* ---- the layout of a sample: rates, shapes that are open, fields ---- */

static size_t head_bytes(const struct mr_fields *fs)
{
	size_t n = 0;

	for (int i = 0; i < fs->n; i++)
		n += mr_spec_fixed(&fs->item[i].spec) ?
			     1 :
			     1 + (size_t)fs->item[i].spec.ndim;
	return n * sizeof(int64_t);
}

static size_t field_at(size_t at, size_t bytes)
{
	return mr_round_up(at, bytes < MR_ALIGN ? SMALL : MR_ALIGN);
}

static size_t sample_bytes(const struct mr_ram *c, const struct mr_tensor *t)
{
	size_t at = c->head;

	for (int i = 0; i < c->fields.n; i++) {
		size_t n = mr_tensor_bytes(&t[c->fields.item[i].id]);

		at = field_at(at, n) + n;
	}
	return mr_round_up(at, MR_ALIGN);
}

size_t mr_ram_sample(const struct mr_fields *fs)
{
	size_t at = head_bytes(fs);

	for (int i = 0; i < fs->n; i++) {
		struct mr_tensor t = mr_tensor_of(&fs->item[i].spec);
		size_t n = mr_tensor_bytes(&t);

		if (!mr_spec_fixed(&fs->item[i].spec))
			return 0;
		at = field_at(at, n) + n;
	}
	return mr_round_up(at, MR_ALIGN);
}

static void store(const struct mr_ram *c, uint8_t *entry,
		  const struct mr_tensor *t, const int64_t *rate)
{
	int64_t *head = (int64_t *)(void *)entry;
	size_t at = c->head;

	for (int i = 0; i < c->fields.n; i++) {
		const struct mr_field_spec *f = &c->fields.item[i];
		const struct mr_tensor *from = &t[f->id];
		size_t n = mr_tensor_bytes(from);

		*head++ = rate[f->id];
		for (int d = 0; !mr_spec_fixed(&f->spec) && d < f->spec.ndim;
		     d++)
			*head++ = from->shape[d];
		at = field_at(at, n);
		if (n)
			memcpy(entry + at, from->data, n);
		at += n;
	}
}

static void view(const struct mr_ram *c, uint8_t *entry, struct mr_tensor *t,
		 int64_t *rate)
{
	const int64_t *head = (const int64_t *)(const void *)entry;
	size_t at = c->head;

	for (int i = 0; i < c->fields.n; i++) {
		const struct mr_field_spec *f = &c->fields.item[i];
		struct mr_tensor *to = &t[f->id];
		size_t n;

		*to = mr_tensor_of(&f->spec);
		rate[f->id] = *head++;
		for (int d = 0; !mr_spec_fixed(&f->spec) && d < f->spec.ndim;
		     d++)
			to->shape[d] = *head++;
		n = mr_tensor_bytes(to);
		at = field_at(at, n);
		to->data = entry + at;
		at += n;
	}
}

/* ---- life ---- */

int mr_ram_open(struct mr_ram *c, size_t size, uint64_t samples,
		const struct mr_fields *fields, struct mr_err *err)
{
	void *p;

	*c = (struct mr_ram){ .fields = *fields, .samples = samples };
	c->head = head_bytes(fields);
	c->word = mr_map(samples * sizeof(*c->word), err);
	if (!c->word)
		return MR_ENOMEM;
	p = mmap(NULL, size + SLACK, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		mr_ram_close(c);
		return mr_err_nomem(err, size);
	}
	c->data = p;
	c->size = size;
	return 0;
}

void mr_ram_close(struct mr_ram *c)
{
	mr_unmap(c->data, c->size + SLACK);
	mr_unmap(c->word, c->samples * sizeof(*c->word));
	c->data = NULL;
	c->word = NULL;
}

/* ---- samples ---- */

enum mr_ram_found mr_ram_get(struct mr_ram *c, uint64_t index,
			     struct mr_tensor *t, int64_t *rate)
{
	_Atomic uint64_t *w = &c->word[index];
	uint64_t v = atomic_load_explicit(w, memory_order_acquire);

	for (;;) {
		if (v >= HELD) {
			view(c, c->data + (v - HELD) * MR_ALIGN, t, rate);
			return MR_RAM_HELD;
		}
		if (v == BUSY)
			return MR_RAM_BUSY;
		if (v == REFUSED)
			return MR_RAM_REFUSED;
		if (atomic_compare_exchange_weak(w, &v, BUSY))
			return MR_RAM_YOURS;
	}
}

/* Room for n bytes; false when there is none left. */
static bool take(struct mr_ram *c, size_t n, size_t *at)
{
	*at = atomic_load_explicit(&c->used, memory_order_relaxed);
	do {
		if (n > c->size - *at)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&c->used, at, *at + n,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

bool mr_ram_put(struct mr_ram *c, uint64_t index, const struct mr_tensor *t,
		const int64_t *rate)
{
	size_t n = sample_bytes(c, t), at;

	if (!take(c, n, &at)) {
		atomic_store(&c->full, true);
		atomic_store(&c->word[index], REFUSED);
		return false;
	}
	store(c, c->data + at, t, rate);
	atomic_fetch_add_explicit(&c->held, 1, memory_order_relaxed);
	atomic_store_explicit(&c->word[index], HELD + at / MR_ALIGN,
			      memory_order_release);
	return true;
}

void mr_ram_drop(struct mr_ram *c, uint64_t index)
{
	atomic_store(&c->word[index], MISSING);
}

bool mr_ram_holds(const struct mr_ram *c, uint64_t index)
{
	return atomic_load_explicit(&c->word[index], memory_order_relaxed) >=
	       HELD;
}

/* ---- reading ahead ---- */

enum mr_ram_ahead mr_ram_ask(struct mr_ram *c, uint64_t index)
{
	uint64_t v = MISSING;

	if (atomic_compare_exchange_strong(&c->word[index], &v, ASKED) ||
	    v == REFUSED)
		return MR_RAM_READ;
	return v >= HELD ? MR_RAM_SKIP : MR_RAM_LATER;
}

void mr_ram_unask(struct mr_ram *c, uint64_t index)
{
	uint64_t v = ASKED;

	atomic_compare_exchange_strong(&c->word[index], &v, MISSING);
}

void mr_ram_settle(struct mr_ram *c)
{
	for (uint64_t i = 0; i < c->samples; i++) {
		uint64_t v = atomic_load(&c->word[i]);

		if (v == ASKED || v == BUSY)
			atomic_store(&c->word[i], MISSING);
	}
}
