/* SPDX-License-Identifier: Apache-2.0 */
#include "store/shard.h"

#include <math.h>
#include <stdio.h>

#include "core/hash.h"
#include "core/le.h"

#define BAD (1u << 31)

/* Of a shard, about. The index of its samples is in memory while it is
 * written. */
#define BYTES	536870912.0
#define SAMPLES 262144.0

static const char header_magic[8] = { 'M', 'R', 'S', 'H', 'A', 'R', 'D', '1' };
static const char footer_magic[8] = { 'M', 'R', 'I', 'N', 'D', 'E', 'X', '1' };

static void seal(uint8_t *p)
{
	mr_le64_put(p + 56, XXH3_64bits(p, 56));
}

static bool sealed(const uint8_t *p)
{
	return mr_le64(p + 56) == XXH3_64bits(p, 56);
}

void mr_shard_put_header(uint8_t *to, const struct mr_shard_header *h)
{
	memset(to, 0, MR_SHARD_HEADER);
	memcpy(to, header_magic, 8);
	mr_le32_put(to + 8, MR_SHARD_VERSION);
	mr_le32_put(to + 12, h->number);
	mr_le64_put(to + 16, h->first);
	mr_le64_put(to + 24, h->count);
	mr_le64_put(to + 32, h->set);
	seal(to);
}

int mr_shard_get_header(const uint8_t *from, struct mr_shard_header *h,
			struct mr_err *err)
{
	if (memcmp(from, header_magic, 8))
		return mr_err_set(err, MR_EDATA,
				  "not a shard: it does not begin with "
				  "MRSHARD1");
	if (!sealed(from))
		return mr_err_set(err, MR_EDATA,
				  "damaged header (bytes 0 to 63)");
	if (mr_le32(from + 8) != MR_SHARD_VERSION)
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "a shard of version %u; this program knows "
				  "%d",
				  mr_le32(from + 8), MR_SHARD_VERSION);
	h->number = mr_le32(from + 12);
	h->first = mr_le64(from + 16);
	h->count = mr_le64(from + 24);
	h->set = mr_le64(from + 32);
	return 0;
}

void mr_shard_put_entry(uint8_t *to, const struct mr_shard_entry *e)
{
	mr_le64_put(to, e->offset);
	mr_le64_put(to + 8, e->length);
	mr_le64_put(to + 16, e->checksum);
	mr_le32_put(to + 24, e->key);
	mr_le32_put(to + 28, e->bad ? BAD : 0);
}

void mr_shard_get_entry(const uint8_t *from, struct mr_shard_entry *e)
{
	e->offset = mr_le64(from);
	e->length = mr_le64(from + 8);
	e->checksum = mr_le64(from + 16);
	e->key = mr_le32(from + 24);
	e->bad = mr_le32(from + 28) & BAD;
}

void mr_shard_put_footer(uint8_t *to, const struct mr_shard_footer *f)
{
	memset(to, 0, MR_SHARD_FOOTER);
	memcpy(to, footer_magic, 8);
	mr_le64_put(to + 8, f->index);
	mr_le64_put(to + 16, f->count);
	mr_le64_put(to + 24, f->keys);
	mr_le64_put(to + 32, f->checksum);
	mr_le64_put(to + 40, f->keys_checksum);
	mr_le64_put(to + 48, f->records);
	seal(to);
}

int mr_shard_get_footer(const uint8_t *from, uint64_t size,
			struct mr_shard_footer *f, struct mr_err *err)
{
	uint64_t room;

	if (memcmp(from, footer_magic, 8) || !sealed(from))
		return mr_err_set(err, MR_EDATA,
				  "truncated, or its footer is damaged (bytes "
				  "%llu to %llu)",
				  (unsigned long long)(size - MR_SHARD_FOOTER),
				  (unsigned long long)size - 1);
	f->index = mr_le64(from + 8);
	f->count = mr_le64(from + 16);
	f->keys = mr_le64(from + 24);
	f->checksum = mr_le64(from + 32);
	f->keys_checksum = mr_le64(from + 40);
	f->records = mr_le64(from + 48);
	room = size - MR_SHARD_FOOTER;
	if (f->index < MR_SHARD_HEADER || f->index > room ||
	    f->count > (room - f->index) / MR_SHARD_ENTRY ||
	    f->keys != room - f->index - f->count * MR_SHARD_ENTRY)
		return mr_err_set(err, MR_EDATA,
				  "its footer names an index of %llu samples "
				  "at byte %llu, which does not fit the file's "
				  "%llu bytes",
				  (unsigned long long)f->count,
				  (unsigned long long)f->index,
				  (unsigned long long)size);
	return 0;
}

void mr_shard_name(char *to, size_t cap, uint64_t number)
{
	snprintf(to, cap, "shard-%05llu.mrs", (unsigned long long)number);
}

uint64_t mr_shard_number(uint64_t samples, double bytes)
{
	double n = fmax(ceil(bytes / BYTES), ceil((double)samples / SAMPLES));

	return n >= 1 ? (uint64_t)n : 1;
}

void mr_shard_range(uint64_t samples, uint64_t n, uint64_t k, uint64_t *first,
		    uint64_t *count)
{
	uint64_t base = samples / n, extra = samples % n;

	*first = k * base + (k < extra ? k : extra);
	*count = base + (k < extra);
}

uint64_t mr_shard_of(uint64_t samples, uint64_t n, uint64_t index)
{
	uint64_t base = samples / n, extra = samples % n;

	if (index < extra * (base + 1))
		return index / (base + 1);
	return extra + (index - extra * (base + 1)) / base;
}
