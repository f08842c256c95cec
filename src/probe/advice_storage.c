/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on storage, by ratios of its figures: those hold on any disk. */
#include <math.h>
#include <stdio.h>

#include "probe/rules.h"

/* Bytes per second of a kind, with several threads; NaN. */
static double speed(const struct mr_facts *f, enum mr_storage_kind k)
{
	const struct mr_storage_run *run = &f->storage.run[2 * k];
	double one = run[0].r.bytes_per_s, many = run[1].r.bytes_per_s;

	return isnan(many) || one > many ? one : many;
}

void mr_rule_place(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_storage *s = &f->storage;
	struct mr_finding *x;

	if (*s->reason) {
		x = mr_found_add(l, s->full ? MR_FOUND_WARNING : MR_FOUND_NOTE,
				 "storage", "not measured: %.200s", s->reason);
		mr_why(x, "whether storage keeps training waiting stays open");
		mr_remedy(x, "millrace doctor DIR, where DIR can be written%s",
			  s->full ? " and has some MB free; df -h shows where" :
				    "");
	}
	if (s->memory && !*s->reason) {
		x = mr_found_add(l, MR_FOUND_NOTE, "storage",
				 "%.150s is memory (%s)", s->dir, s->fs);
		mr_why(x,
		       "the figures are those of memory, and what lies there "
		       "is not there for the job");
		mr_remedy(x, "millrace doctor DIR, of the disk that holds the "
			     "data");
	}
}

/* The page cache kept some of it: not cold. */
void mr_rule_warmth(const struct mr_facts *f, struct mr_found *l)
{
	double most = 0;
	struct mr_finding *x;

	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		if (f->storage.run[i].resident > most)
			most = f->storage.run[i].resident;
	if (most <= 0.05 || f->storage.memory || f->storage.direct)
		return;
	x = mr_found_add(l, MR_FOUND_NOTE, "storage",
			 "%.0f %% of the files stayed in the page cache",
			 most * 100);
	mr_why(x, "the figures are better than the storage is");
	mr_remedy(x, "millrace doctor --direct");
}

void mr_rule_many_files(const struct mr_facts *f, struct mr_found *l)
{
	double one = speed(f, MR_STORAGE_SEQUENTIAL);
	double many = speed(f, MR_STORAGE_FILES), ratio = one / many;
	struct mr_finding *x;

	if (isnan(ratio) || f->storage.memory)
		return;
	if (ratio < 3) {
		mr_found_add(l, MR_FOUND_OK, "small files",
			     "%.0f MB/s, where one large file has %.0f",
			     many / 1e6, one / 1e6);
		return;
	}
	x = mr_found_add(
		l, ratio >= 10 ? MR_FOUND_WARNING : MR_FOUND_NOTE,
		"small files",
		"%.0f times slower per byte than one large file: %.0f and %.0f "
		"MB/s",
		ratio, many / 1e6, one / 1e6);
	mr_why(x,
	       "a file per sample pays for each open; a few large shards are "
	       "read at the storage's full rate");
	mr_remedy(x, "millrace prepare 'files DIR | decode_image | resize 256' "
		     "--out OUT, then 'records OUT'");
}

/* A sample has about 100 KB, so requests of 128 KB say what shuffling
 * costs. */
void mr_rule_random_reads(const struct mr_facts *f, struct mr_found *l)
{
	double one = speed(f, MR_STORAGE_SEQUENTIAL);
	double big = one / speed(f, MR_STORAGE_RANDOM_128K);
	double small = one / speed(f, MR_STORAGE_RANDOM_4K);
	struct mr_finding *x;

	if (isnan(big) || isnan(small) || f->storage.memory)
		return;
	if (big < 3 && small < 20) {
		mr_found_add(l, MR_FOUND_OK, "random reads",
			     "fast enough to shuffle");
		return;
	}
	if (big >= 3) {
		x = mr_found_add(
			l, big >= 6 ? MR_FOUND_WARNING : MR_FOUND_NOTE,
			"random reads",
			"of 128 KB are %.0f times slower per byte than "
			"sequential ones",
			big);
		mr_why(x,
		       "a full shuffle reads each sample by itself, and gets "
		       "that much less out of this storage");
	} else {
		x = mr_found_add(l, MR_FOUND_NOTE, "random reads",
				 "of 4 KB are %.0f times slower per byte than "
				 "sequential ones",
				 small);
		mr_why(x,
		       "samples of some KB, as texts and sensor windows are, "
		       "are not read at the storage's full rate when shuffled "
		       "one by one");
	}
	mr_remedy(x, "millrace run --order block");
}

void mr_rule_bandwidth(const struct mr_facts *f, struct mr_found *l)
{
	double v = speed(f, MR_STORAGE_SEQUENTIAL);
	struct mr_finding *x;

	if (isnan(v) || v >= 100e6)
		return;
	x = mr_found_add(l, MR_FOUND_WARNING, "storage",
			 "%.3g MB/s, even in sequence", v / 1e6);
	mr_why(x,
	       "photos of 110 KB come at %.0f a second at most, where one "
	       "accelerator takes 1,000 and more",
	       v / 110e3);
	mr_remedy(x,
		  "copy the data to a local disk, or keep it small: millrace "
		  "prepare --codec zstd");
}

/* What a codec makes of the storage's rate, on numbers that pack well, while
 * it leaves half of the cores to others. */
void mr_rule_packing(const struct mr_facts *f, struct mr_found *l)
{
	double bw = speed(f, MR_STORAGE_SEQUENTIAL), best = bw;
	const struct mr_codec_speed *by = NULL;
	struct mr_finding *x;

	if (isnan(bw) || f->storage.memory)
		return;
	for (int i = 0; i < f->codecs.n; i++) {
		const struct mr_codec_speed *c = &f->codecs.speed[i];
		double v = fmin(bw * c->ratio, c->unpack * f->limits.cores / 2);

		if (strcmp(c->data, "signal_f32") != 0 || isnan(c->ratio) ||
		    v <= best)
			continue;
		best = v;
		by = c;
	}
	if (!by || best < 1.5 * bw)
		return;
	x = mr_found_add(
		l, MR_FOUND_NOTE, "codecs",
		"with %s, %.0f MB/s of the storage become %.0f MB/s of "
		"smooth f32",
		by->codec, bw / 1e6, best / 1e6);
	mr_why(x, "unpacking is faster than reading what packing saves; JPEG, "
		  "PNG and MP3 do not pack");
	mr_remedy(x, "millrace prepare PIPELINE --out OUT --codec %s",
		  by->codec);
}
