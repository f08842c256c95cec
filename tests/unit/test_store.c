/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared data sets in the small: records, shards, meta.json, the split. */
#include "scratch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "load.h"
#include "pipe/split.h"
#include "store/append.h"
#include "store/record.h"
#include "store/set.h"
#include "store/shard.h"

/* ---- files that grow ---- */

/* Pieces of any length, from one byte to more than the buffer; now and then
 * the file is closed, and gone on with at its end. */
static void grow_and_read_back(const char *path)
{
	enum { PIECE = 5 << 20, WHOLE = 20 << 20 };
	uint8_t *noise = test_malloc(WHOLE + PIECE), *back;
	struct mr_append a;
	uint64_t seed = 5;
	size_t n = 0, size;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);

	assert_true(fd >= 0);
	for (size_t i = 0; i < WHOLE + PIECE; i += 8)
		memcpy(noise + i, &(uint64_t){ draw(&seed) }, 8);
	assert_int_equal(mr_append_init(&a, NULL), 0);
	assert_int_equal(mr_append_begin(&a, fd, 0), 0);
	while (n < WHOLE) {
		size_t k = draw(&seed) % (draw(&seed) % 8 ? 9000 : PIECE);

		assert_int_equal(mr_append(&a, noise + n, k), 0);
		n += k;
		if (draw(&seed) % 50)
			continue;
		assert_int_equal(mr_append_end(&a), 0);
		close(fd);
		fd = open(path, O_RDWR);
		assert_int_equal(mr_append_begin(&a, fd, n), 0);
	}
	assert_int_equal(mr_append_end(&a), 0);
	mr_append_fini(&a);
	close(fd);
	assert_int_equal(
		mr_file_read(path, SIZE_MAX / 2, (char **)&back, &size, NULL),
		0);
	assert_int_equal(size, n);
	assert_memory_equal(back, noise, n);
	free(back);
	test_free(noise);
}

static void test_a_file_grows_by_what_is_given(void **state)
{
	(void)state;
	grow_and_read_back(textf("%s/grows", top));
	/* of memory, which has no way past itself */
	if (access("/dev/shm", W_OK) == 0) {
		const char *path = textf("/dev/shm/mr-%d", (int)getpid());

		grow_and_read_back(path);
		unlink(path);
	}
}

static void test_a_full_disk_is_told(void **state)
{
	struct mr_append a;
	char byte = 0;
	int fd = open("/dev/full", O_RDWR);

	(void)state;
	if (fd < 0)
		skip();
	assert_int_equal(mr_append_init(&a, NULL), 0);
	assert_int_equal(mr_append_begin(&a, fd, 0), 0);
	assert_int_equal(mr_append(&a, &byte, 1), 0);
	assert_int_equal(mr_append_end(&a), ENOSPC);
	mr_append_fini(&a);
	close(fd);
}

/* ---- records ---- */

enum { ROUNDS = 400 };

/* Fields of any type, with up to three dimensions, some open, some of 0. */
static void random_plan(struct mr_record_plan *p, uint64_t *seed)
{
	size_t codecs = 0;

	memset(p, 0, sizeof(*p));
	while (mr_codecs[codecs])
		codecs++;
	p->codec = mr_codecs[draw(seed) % codecs];
	p->level = p->codec->def;
	p->shuffle = draw(seed) % 2;
	p->fields.n = 1 + (int)(draw(seed) % 4);
	if (draw(seed) % 40 == 0)
		p->fields.n = MR_MAX_FIELDS;
	for (int i = 0; i < p->fields.n; i++) {
		struct mr_field_spec *f = &p->fields.item[i];

		snprintf(f->name, sizeof(f->name), "f%d", i);
		f->id = i;
		f->spec.dtype = (int)(draw(seed) % MR_DTYPES);
		f->spec.ndim = (int)(draw(seed) % 4);
		for (int d = 0; d < f->spec.ndim; d++)
			f->spec.shape[d] = draw(seed) % 3 ?
						   (int64_t)(draw(seed) % 9) :
						   MR_ANY;
		f->rated = draw(seed) % 3 == 0;
	}
	mr_record_plan_init(p);
}

static int64_t rate_of(int field)
{
	return field % 4 ? 16000 + ((int64_t)field << 30) : 0;
}

/* A value for each: noise, or much of the same. */
static void random_values(const struct mr_record_plan *p, struct mr_tensor *t,
			  uint64_t *seed)
{
	for (int i = 0; i < p->fields.n; i++) {
		uint64_t noise = draw(seed) % 2 ? 255 : 3;
		size_t n;

		t[i] = mr_tensor_of(&p->fields.item[i].spec);
		for (int d = 0; d < t[i].ndim; d++)
			if (t[i].shape[d] == MR_ANY)
				t[i].shape[d] = (int64_t)(draw(seed) % 20);
		n = mr_tensor_bytes(&t[i]);
		t[i].data = malloc(n ? n : 1);
		for (size_t k = 0; k < n; k++)
			((uint8_t *)t[i].data)[k] =
				(uint8_t)(draw(seed) & noise);
	}
}

static void free_values(const struct mr_record_plan *p, struct mr_tensor *t)
{
	for (int i = 0; i < p->fields.n; i++)
		free(t[i].data);
}

/* What unpack() is given. */
static void begin_load(struct loaded *o, const struct mr_record_plan *p)
{
	memset(o, 0, sizeof(*o));
	mr_arena_init(&o->scratch, (size_t)1 << 20);
	o->fields = p->fields;
	o->ld = (struct mr_load){ .scratch = &o->scratch,
				  .limit = (size_t)1 << 20,
				  .room = loaded_room,
				  .err = &o->err,
				  .rate = o->rate };
	loaded_begin(o, 0);
}

static void end_load(struct loaded *o)
{
	loaded_begin(o, 0);
	mr_arena_fini(&o->scratch);
}

static bool same_rates(const struct mr_record_plan *p, const int64_t *rate)
{
	for (int i = 0; i < p->fields.n; i++)
		if (rate[i] != (p->fields.item[i].rated ? rate_of(i) : 0))
			return false;
	return true;
}

static bool same_fields(const struct mr_record_plan *p,
			const struct mr_tensor *a, const struct mr_tensor *b)
{
	for (int i = 0; i < p->fields.n; i++) {
		size_t n = mr_tensor_bytes(&a[i]);

		if (memcmp(a[i].shape, b[i].shape,
			   (size_t)a[i].ndim * sizeof(int64_t)) ||
		    (n && memcmp(a[i].data, b[i].data, n)))
			return false;
	}
	return true;
}

/* A record in memory of exactly its size, so that ASan sees beyond. */
static uint8_t *make_record(const struct mr_record_plan *p,
			    const struct mr_tensor *t, size_t *size)
{
	size_t cap = mr_record_bound(p, t);
	struct mr_arena scratch;
	uint8_t *big = malloc(cap), *exact;
	int64_t rate[MR_MAX_FIELDS];
	void *state = NULL;
	struct mr_err err;

	for (int i = 0; i < MR_MAX_FIELDS; i++)
		rate[i] = rate_of(i);
	mr_arena_init(&scratch, (size_t)1 << 20);
	memset(big, 0xa5, cap);
	if (mr_record_pack(p, t, rate, &state, &scratch, big, cap, size, &err))
		fail_msg("%s", err.text);
	assert_true(*size <= cap && *size % MR_RECORD_ALIGN == 0);
	if (p->codec->drop_pack)
		p->codec->drop_pack(state);
	mr_arena_fini(&scratch);
	exact = malloc(*size ? *size : 1);
	memcpy(exact, big, *size);
	free(big);
	return exact;
}

static int unpack(const struct mr_record_plan *p, struct loaded *o,
		  const uint8_t *record, size_t size)
{
	void *state = NULL;
	int e;

	loaded_begin(o, 0);
	e = mr_record_unpack(p, &o->ld, &state, record, size, o->f);
	assert_true(e == 0 || (e == o->err.code && o->err.text[0]));
	if (p->codec->drop_unpack)
		p->codec->drop_unpack(state);
	return e;
}

static void test_records_come_back_as_they_were(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int r = 0; r < ROUNDS; r++) {
		struct mr_tensor t[MR_MAX_FIELDS];
		struct mr_record_plan p;
		struct loaded o;
		uint8_t *record, *again;
		size_t n, m;

		random_plan(&p, &seed);
		random_values(&p, t, &seed);
		record = make_record(&p, t, &n);
		again = make_record(&p, t, &m);
		assert_int_equal(n, m);
		assert_memory_equal(record, again, n);
		begin_load(&o, &p);
		if (unpack(&p, &o, record, n))
			fail_msg("round %d: %s", r, o.err.text);
		assert_true(same_fields(&p, t, o.f));
		assert_true(same_rates(&p, o.rate));
		/* And for who does not look for rates. */
		for (int i = 0; i < p.fields.n; i++)
			p.fields.item[i].rated = false;
		assert_int_equal(unpack(&p, &o, record, n), 0);
		assert_true(same_fields(&p, t, o.f));
		assert_true(same_rates(&p, o.rate));
		end_load(&o);
		free(record);
		free(again);
		free_values(&p, t);
	}
}

/* Where nothing is open nor packed, fields lie where they are used. */
static void test_fixed_records_have_no_head(void **state)
{
	struct mr_record_plan p = { .codec = mr_codec_find("none") };
	const int64_t image[] = { 7, 5, 3 };

	(void)state;
	mr_fields_add(&p.fields, "image", MR_U8, 3, image);
	mr_fields_add(&p.fields, "label", MR_I64, 0, NULL);
	mr_record_plan_init(&p);
	assert_int_equal(p.head, 0);
	assert_int_equal(p.field[0].align, 64);
	assert_int_equal(p.field[1].align, 8);
}

static void test_a_rate_below_zero_is_damage(void **state)
{
	struct mr_record_plan p = { .codec = mr_codec_find("none") };
	uint8_t record[MR_RECORD_ALIGN] = { [15] = 0x80 };
	struct loaded o;

	(void)state;
	mr_fields_add(&p.fields, "label", MR_I64, 0, NULL);
	p.fields.item[0].rated = true;
	mr_record_plan_init(&p);
	begin_load(&o, &p);
	assert_int_equal(unpack(&p, &o, record, sizeof(record)), MR_EDATA);
	assert_non_null(strstr(o.err.text, "rate"));
	record[15] = 0;
	assert_int_equal(unpack(&p, &o, record, sizeof(record)), 0);
	assert_int_equal(unpack(&p, &o, record, 15), MR_EDATA);
	end_load(&o);
}

/* Every byte that is read lies in the record: ASan looks on. */
static void test_damaged_records_are_refused_or_read_inside(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int r = 0; r < ROUNDS; r++) {
		struct mr_tensor t[MR_MAX_FIELDS];
		struct mr_record_plan p;
		struct loaded o;
		uint8_t *record;
		size_t n;

		random_plan(&p, &seed);
		random_values(&p, t, &seed);
		record = make_record(&p, t, &n);
		begin_load(&o, &p);
		for (int k = 0; k < 20; k++) {
			size_t cut = draw(&seed) % (n + 1);
			uint8_t *part = malloc(cut ? cut : 1);

			memcpy(part, record, cut);
			if (cut && draw(&seed) % 2)
				part[draw(&seed) % cut] ^=
					(uint8_t)(1 + draw(&seed) % 255);
			if (cut >= 8 && draw(&seed) % 2)
				memset(part + draw(&seed) % (cut / 8) * 8,
				       draw(&seed) % 2 ? 0xff : 0x7f, 8);
			if (!unpack(&p, &o, part, cut))
				same_fields(&p, o.f, o.f); /* touches all */
			free(part);
		}
		end_load(&o);
		free(record);
		free_values(&p, t);
	}
}

static void test_a_record_of_more_than_the_budget_is_refused(void **state)
{
	const int64_t any = MR_ANY;
	struct mr_record_plan p = { .codec = mr_codec_find("zstd"),
				    .level = 3 };
	struct mr_tensor t[1];
	struct loaded o;
	uint8_t *record;
	size_t n;

	(void)state;
	mr_fields_add(&p.fields, "data", MR_U8, 1, &any);
	mr_record_plan_init(&p);
	t[0] = mr_tensor_of(&p.fields.item[0].spec);
	t[0].shape[0] = 100000;
	t[0].data = calloc(1, 100000);
	record = make_record(&p, t, &n);
	begin_load(&o, &p);
	o.ld.limit = 99999;
	assert_int_equal(unpack(&p, &o, record, n), MR_ELIMIT);
	assert_non_null(strstr(o.err.text, "--memory"));
	o.ld.limit = 100000;
	assert_int_equal(unpack(&p, &o, record, n), 0);
	end_load(&o);
	free(record);
	free(t[0].data);
}

/* ---- shards ---- */

static void check_ranges(uint64_t samples, uint64_t shards)
{
	uint64_t next = 0;

	for (uint64_t k = 0; k < shards; k++) {
		uint64_t first, count;

		mr_shard_range(samples, shards, k, &first, &count);
		assert_int_equal(first, next);
		assert_true(count >= 1);
		assert_true(count == samples / shards ||
			    count == samples / shards + 1);
		assert_int_equal(mr_shard_of(samples, shards, first), k);
		assert_int_equal(
			mr_shard_of(samples, shards, first + count / 2), k);
		assert_int_equal(
			mr_shard_of(samples, shards, first + count - 1), k);
		next = first + count;
	}
	assert_int_equal(next, samples);
}

static void test_ranges_of_shards_follow_one_another(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (uint64_t n = 1; n < 40; n++)
		for (uint64_t s = 1; s <= n; s++)
			check_ranges(n, s);
	for (int r = 0; r < 200; r++) {
		uint64_t n = 1 + draw(&seed) % ((uint64_t)1 << 50);
		uint64_t most = n < 2000 ? n : 2000;

		check_ranges(n, 1 + draw(&seed) % most);
	}
	check_ranges(1000000, 1000000);
	check_ranges((uint64_t)1 << 60, 1);
}

static void test_headers_and_footers_come_back(void **state)
{
	struct mr_shard_header h = { 7, 1000, 30, 0x1234567890abcdef }, h2;
	struct mr_shard_footer f = { 640, 3, 10, 4, 5, 6 }, f2;
	uint8_t bytes[64];
	uint64_t size = 640 + 3 * MR_SHARD_ENTRY + 10 + 64;
	struct mr_err err;

	(void)state;
	mr_shard_put_header(bytes, &h);
	assert_int_equal(mr_shard_get_header(bytes, &h2, &err), 0);
	assert_true(h.number == h2.number && h.first == h2.first &&
		    h.count == h2.count && h.set == h2.set);
	for (size_t i = 0; i < 64; i++) {
		bytes[i] ^= 16;
		assert_true(mr_shard_get_header(bytes, &h2, &err) < 0);
		bytes[i] ^= 16;
	}
	mr_shard_put_footer(bytes, &f);
	assert_int_equal(mr_shard_get_footer(bytes, size, &f2, &err), 0);
	assert_memory_equal(&f, &f2, sizeof(f));
	assert_true(mr_shard_get_footer(bytes, size + 1, &f2, &err) < 0);
	assert_true(mr_shard_get_footer(bytes, 128, &f2, &err) < 0);
	for (size_t i = 0; i < 64; i++) {
		bytes[i] ^= 16;
		assert_true(mr_shard_get_footer(bytes, size, &f2, &err) < 0);
		bytes[i] ^= 16;
	}
}

/* A footer that somebody made, with a checksum that is right. */
static void test_footers_that_point_outside_are_refused(void **state)
{
	static const uint64_t wild[] = { 0,	     1,
					 63,	     64,
					 1000,	     (uint64_t)1 << 59,
					 UINT64_MAX, UINT64_MAX - 31 };
	enum { W = sizeof(wild) / sizeof(*wild), SIZE = 1000 };
	struct mr_err err;

	(void)state;
	for (int i = 0; i < W * W * W; i++) {
		struct mr_shard_footer f = { .index = wild[i % W],
					     .count = wild[i / W % W],
					     .keys = wild[i / W / W] },
				       g;
		uint8_t bytes[64];

		mr_shard_put_footer(bytes, &f);
		if (mr_shard_get_footer(bytes, SIZE, &g, &err))
			continue;
		assert_true(g.index >= 64 && g.index <= SIZE - 64 &&
			    g.count <= SIZE / MR_SHARD_ENTRY &&
			    g.index + g.count * MR_SHARD_ENTRY + g.keys ==
				    SIZE - 64);
	}
}

/* ---- meta.json ---- */

static const char *const strange[] = { "plain",
				       "with 'quotes' and \"double\" ones",
				       "a\nline\tand a tab",
				       "ünïcödé 漢字 🐈",
				       "back\\slash",
				       "\"checksum\": \"0000000000000000\"",
				       "{}[],:",
				       " " };
enum { STRANGE = sizeof(strange) / sizeof(*strange) };

static void strange_meta(struct mr_meta *m)
{
	const int64_t shape[] = { 3, MR_ANY };

	memset(m, 0, sizeof(*m));
	m->pipeline = mr_strdup("files \"a b\" | cast f32", NULL);
	m->stages = 2;
	m->deferred = mr_strdup("cast f32", NULL);
	mr_fields_add(&m->record.fields, "checksum", MR_F32, 2, shape);
	mr_fields_add(&m->record.fields, "label", MR_I64, 0, NULL);
	m->record.fields.item[0].rated = true;
	m->record.codec = mr_codec_find("zstd");
	m->record.level = 3;
	mr_record_plan_init(&m->record);
	m->samples = 10;
	m->shards = 2;
	m->class_count = m->stamps = STRANGE;
	m->classes = mr_alloc(STRANGE, sizeof(*m->classes), NULL);
	m->stamp = mr_alloc(STRANGE, sizeof(*m->stamp), NULL);
	for (int i = 0; i < STRANGE; i++) {
		m->classes[i] = mr_strdup(strange[i], NULL);
		m->stamp[i] = (struct mr_stamp){
			mr_strdup(textf("/nowhere/%s", strange[i]), NULL),
			(uint64_t)i << 40, -1 - i
		};
	}
	m->shard = mr_alloc(2, sizeof(*m->shard), NULL);
	m->shard[0] = (struct mr_meta_shard){ 1000, UINT64_MAX };
	m->shard[1] = (struct mr_meta_shard){ 2000, 1 };
	m->bad = 3;
}

static void test_strange_names_come_back_from_meta(void **state)
{
	struct mr_meta m, n;
	struct mr_err err;
	char why[800];

	(void)state;
	strange_meta(&m);
	assert_int_equal(mr_meta_identify(&m, &err), 0);
	for (int part = 0; part < 2; part++) {
		assert_int_equal(mr_meta_write(&m, top, part, &err), 0);
		if (mr_meta_read(&n, top, part, &err))
			fail_msg("%s", err.text);
		mr_meta_compare(&m, &n, why, sizeof(why));
		assert_string_equal(why, "");
		assert_string_equal(n.pipeline, m.pipeline);
		assert_string_equal(n.deferred, m.deferred);
		for (int i = 0; i < STRANGE; i++) {
			assert_string_equal(n.classes[i], m.classes[i]);
			assert_string_equal(n.stamp[i].path, m.stamp[i].path);
			assert_true(n.stamp[i].size == m.stamp[i].size &&
				    n.stamp[i].changed == m.stamp[i].changed);
		}
		assert_int_equal(n.record.fields.n, 2);
		assert_true(n.record.fields.item[0].rated &&
			    !n.record.fields.item[1].rated);
		assert_int_equal(n.record.head, m.record.head);
		assert_true(!part == !!n.shard);
		if (!part)
			assert_true(n.bad == 3 && n.shard[1].bytes == 2000 &&
				    n.shard[0].records == UINT64_MAX);
		mr_meta_fini(&n);
	}
	mr_meta_fini(&m);
}

static void test_a_meta_is_refused_after_any_change(void **state)
{
	struct mr_meta m, n;
	struct mr_err err;
	char *text;
	size_t size;

	(void)state;
	strange_meta(&m);
	assert_int_equal(mr_meta_identify(&m, &err), 0);
	assert_int_equal(mr_meta_write(&m, top, false, &err), 0);
	assert_int_equal(mr_file_read(textf("%s/meta.json", top), 1 << 20,
				      &text, &size, &err),
			 0);
	for (size_t i = 0; i < size; i++) {
		text[i] ^= 1;
		put("meta.json", text, size);
		text[i] ^= 1;
		/* What comes after the checksum says nothing. */
		if (!mr_meta_read(&n, top, false, &err)) {
			mr_meta_fini(&n);
			assert_true(i >= size - 2);
		}
		put("meta.json", text, i);
		if (!mr_meta_read(&n, top, false, &err)) {
			mr_meta_fini(&n);
			assert_true(i >= size - 1);
		}
	}
	free(text);
	mr_meta_fini(&m);
}

/* Texts whose end is where a reader of checksums might go on: ASan. */
static void test_a_meta_that_ends_early_is_read_inside(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"{\"format\": \"millrace records\", \"version\": 1} "
		"\"checksum\"",
		"{\"format\": \"millrace records\", \"version\": 1} "
		"\"checksum\":",
		"{\"format\": \"millrace records\", \"version\": 1} "
		"\"checksum\": \"",
		"\"checksum\"",
		"{\"format\": \"millrace records\", \"version\": 1, "
		"\"checksum\": \"0\"}",
	};
	struct mr_meta m;
	struct mr_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		put("meta.json", texts[i], strlen(texts[i]));
		assert_int_equal(mr_meta_read(&m, top, false, &err), MR_EDATA);
		assert_non_null(strstr(err.text, "meta.json"));
	}
}

static void test_a_path_that_is_too_long_is_not_another(void **state)
{
	char dir[4090];
	struct mr_meta m;
	struct mr_err err;

	(void)state;
	memset(dir, 'x', sizeof(dir));
	for (size_t i = 0; i < sizeof(dir); i += 100)
		dir[i] = '/';
	dir[sizeof(dir) - 1] = 0;
	assert_int_equal(mr_meta_read(&m, dir, false, &err), MR_EIO);
	strange_meta(&m);
	assert_int_equal(mr_meta_write(&m, dir, false, &err), MR_EIO);
	mr_meta_fini(&m);
}

/* ---- the split ---- */

struct planned {
	struct mr_pipeline *p;
	struct mr_plan plan;
};

static void must_plan(struct planned *d, const char *text)
{
	struct mr_err err;

	if (mr_pipeline_parse(&d->p, text, NULL, &err) ||
	    mr_plan_make(&d->plan, d->p, 1, &err))
		fail_msg("%s", err.text);
}

/* Stages that the set stands for, and that are done before. */
static void expect_split(const char *text, const char *until, int stages,
			 int stored)
{
	struct planned d;
	struct mr_split s;
	struct mr_err err;

	must_plan(&d, text);
	if (mr_split_find(&s, &d.plan, until, false, &err))
		fail_msg("%s", err.text);
	if (s.stages != stages || s.stored != stored)
		fail_msg("%s, until '%s': %d stages, %d stored; want %d, %d",
			 text, until, s.stages, s.stored, stages, stored);
	assert_int_equal(mr_split_find(&s, &d.plan, until, true, &err), 0);
	assert_int_equal(s.stored, stages);
	mr_pipeline_free(d.p);
}

static void test_what_only_widens_is_left_for_later(void **state)
{
	const char *u8 = "synthetic 8,8,3 u8 count=9";

	(void)state;
	expect_split(u8, "", 1, 1);
	expect_split(textf("%s | cast f32", u8), "", 2, 1);
	expect_split(textf("%s | cast f32 | batch 2", u8), "", 2, 1);
	expect_split(textf("%s | cast f32 | cast f64", u8), "", 3, 1);
	/* Narrower at the end: all is done before. */
	expect_split("synthetic 8,8,3 f32 count=9 | cast u8", "", 2, 2);
	/* The latest place of several that are as narrow. */
	expect_split(textf("%s | cast f32 | cast u8 | cast f16", u8), "", 4, 3);
	expect_split(textf("%s | cast f32 | cast f16 | cast f64", u8), "", 4,
		     1);
	/* What is not of elements alone ends the run of such steps. */
	expect_split(
		textf("%s | cast f32 | cast u8 | center_crop 4 | cast f64", u8),
		"", 5, 4);
}

static void test_a_random_step_ends_what_can_be_stored(void **state)
{
	const char *text = "synthetic 8,8,3 u8 count=9 | center_crop 6 | flip "
			   "| normalize imagenet | batch 3";
	struct planned d;
	struct mr_split s;
	struct mr_err err;

	(void)state;
	expect_split(text, "", 2, 2);
	expect_split(text, "1", 1, 1);
	expect_split(text, "center_crop", 2, 2);
	must_plan(&d, text);
	assert_int_equal(mr_split_find(&s, &d.plan, "flip", false, &err),
			 MR_EINVAL);
	assert_int_equal(mr_split_find(&s, &d.plan, "batch", false, &err),
			 MR_EINVAL);
	assert_int_equal(mr_split_find(&s, &d.plan, "0", false, &err),
			 MR_EINVAL);
	assert_int_equal(mr_split_find(&s, &d.plan, "-1", false, &err),
			 MR_EINVAL);
	assert_int_equal(
		mr_split_find(&s, &d.plan, "99999999999999999999", false, &err),
		MR_EINVAL);
	mr_pipeline_free(d.p);
}

/* ---- whole sets ---- */

static int store(const char *pipeline, const char *out, struct mr_err *err)
{
	struct mr_store_options opt;
	struct mr_store_report report;

	mr_store_options_init(&opt);
	opt.out = out;
	opt.loader.threads = 1;
	return mr_store(pipeline, &opt, &report, err);
}

static bool opens(const char *dir, struct mr_err *err)
{
	struct mr_set s;
	int e = mr_set_open(&s, dir, 1, false, err);

	if (!e)
		e = mr_meta_check_source(&s.meta, err);
	mr_set_close(&s);
	return !e;
}

/* JSON cannot hold their names: they are not looked at again. */
static void test_files_whose_names_are_no_utf8_are_prepared(void **state)
{
	const char *out = textf("%s/set", top);
	struct mr_err err;

	(void)state;
	assert_int_equal(mkdir(textf("%s/in", top), 0755), 0);
	assert_int_equal(mkdir(textf("%s/in/b\xff", top), 0755), 0);
	assert_int_equal(mkdir(textf("%s/in/c\xff", top), 0755), 0);
	put("in/b\xff/\xe9t\xe9", "1", 1);
	put("in/c\xff/plain", "22", 2);
	if (store(textf("files %s/in", top), out, &err))
		fail_msg("%s", err.text);
	if (!opens(out, &err))
		fail_msg("%s", err.text);
}

/* A set of a set of a set: more stages than one pipeline may have. */
static void test_sets_of_sets_stand_for_any_number_of_stages(void **state)
{
	char text[4096];
	struct mr_err err;

	(void)state;
	snprintf(text, sizeof(text), "synthetic 4,4,1 u8 count=5");
	for (int i = 0; i < 4; i++) {
		const char *out = textf("%s/of%d", top, i);

		for (int k = 0; k < 20; k++)
			strcat(text, " | center_crop 4");
		if (store(text, out, &err))
			fail_msg("%d: %s", i, err.text);
		if (!opens(out, &err))
			fail_msg("%d: %s", i, err.text);
		snprintf(text, sizeof(text), "records %s", out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_grows_by_what_is_given),
		cmocka_unit_test(test_a_full_disk_is_told),
		cmocka_unit_test(test_records_come_back_as_they_were),
		cmocka_unit_test(test_fixed_records_have_no_head),
		cmocka_unit_test(test_a_rate_below_zero_is_damage),
		cmocka_unit_test(
			test_damaged_records_are_refused_or_read_inside),
		cmocka_unit_test(
			test_a_record_of_more_than_the_budget_is_refused),
		cmocka_unit_test(test_ranges_of_shards_follow_one_another),
		cmocka_unit_test(test_headers_and_footers_come_back),
		cmocka_unit_test(test_footers_that_point_outside_are_refused),
		cmocka_unit_test(test_strange_names_come_back_from_meta),
		cmocka_unit_test(test_a_meta_is_refused_after_any_change),
		cmocka_unit_test(test_a_meta_that_ends_early_is_read_inside),
		cmocka_unit_test(test_a_path_that_is_too_long_is_not_another),
		cmocka_unit_test(test_what_only_widens_is_left_for_later),
		cmocka_unit_test(test_a_random_step_ends_what_can_be_stored),
		cmocka_unit_test(
			test_files_whose_names_are_no_utf8_are_prepared),
		cmocka_unit_test(
			test_sets_of_sets_stand_for_any_number_of_stages),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
