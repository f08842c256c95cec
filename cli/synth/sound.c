/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flac, mp3, wav: clips of speech in class folders. FLAC and WAV at 16 kHz and
 * 12.7 s on average, as LibriSpeech has them; MP3 at 48 kHz, 64 kbit/s and
 * 2.5 s, as Common Voice.
 */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "synth/encode.h"
#include "synth/speech.h"

struct format {
	const char *name;
	int rate;
	double duration; /* s, when none is given */
	int (*encode)(const int16_t *x, size_t n, int rate, struct encoded *out,
		      struct mr_err *err);
};

struct worker {
	int16_t *x;
	size_t cap;
	struct encoded out;
};

struct sound {
	struct synth *s;
	const struct format *format;
	double duration;
	struct worker *worker;
};

/* Half as long to half as long again. */
static size_t draw_length(const struct sound *g, struct synth_rng *rng)
{
	double share = (double)synth_real(rng, 0.5f, 1.5f);
	size_t n = (size_t)(g->duration * share * g->format->rate);

	return n ? n : 1;
}

static int make_clip(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct sound *g = data;
	const struct synth_options *opt = g->s->opt;
	struct worker *w = &g->worker[worker];
	struct synth_rng rng = synth_rng_for((uint64_t)opt->seed, i);
	struct synth_file f = { .fd = -1 };
	size_t n = draw_length(g, &rng);
	int e = mr_grow(&w->x, &w->cap, n, sizeof(*w->x), SIZE_MAX, err);

	if (e)
		return e;
	speech_make(w->x, n, g->format->rate, &rng);
	w->out.size = w->out.at = 0;
	e = g->format->encode(w->x, n, g->format->rate, &w->out, err);
	if (!e)
		e = synth_file_open(&f, err, "%s/class-%03d/clip-%06llu.%s",
				    g->s->dir,
				    (int)(i % (uint64_t)opt->classes),
				    (unsigned long long)i, g->format->name);
	if (!e)
		e = synth_file_write(&f, w->out.data, w->out.size, 0, err);
	if (!e)
		e = synth_file_done(g->s, &f, w->out.size, err);
	synth_file_drop(&f);
	return e;
}

static int run(struct synth *s, const struct format *format, struct mr_err *err)
{
	uint64_t n = (uint64_t)s->opt->count;
	struct sound g = { .s = s,
			   .format = format,
			   .duration = s->opt->duration > 0 ?
					       s->opt->duration :
					       format->duration };
	int e = 0;

	s->next = "files %s | decode_audio | batch 16 pad=0";
	g.worker = mr_alloc((size_t)s->threads, sizeof(*g.worker), err);
	if (!g.worker)
		e = MR_ENOMEM;
	if (!e)
		e = synth_class_dirs(s, err);
	if (!e)
		e = synth_each(s, n, (double)n, make_clip, &g, err);
	for (int i = 0; g.worker && i < s->threads; i++) {
		free(g.worker[i].x);
		free(g.worker[i].out.data);
	}
	free(g.worker);
	return e;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	if (opt->duration <= 3600)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "--duration: clips of an hour at most");
}

/* ---- the kinds ---- */

static int run_flac(struct synth *s, struct mr_err *err)
{
	static const struct format f = { "flac", 16000, 12.66, encode_flac };

	return run(s, &f, err);
}

static int run_wav(struct synth *s, struct mr_err *err)
{
	static const struct format f = { "wav", 16000, 12.66, encode_wav };

	return run(s, &f, err);
}

static int check_mp3(const struct synth_options *opt, struct mr_err *err)
{
	int e = encode_mp3_available(err);

	return e ? e : check(opt, err);
}

static int run_mp3(struct synth *s, struct mr_err *err)
{
	static const struct format f = { "mp3", 48000, 2.46, encode_mp3 };

	return run(s, &f, err);
}

const struct synth_kind synth_kind_flac = {
	.name = "flac",
	.help = "speech-like clips, 16 kHz, in class folders",
	.options = " duration ",
	.check = check,
	.run = run_flac,
};

const struct synth_kind synth_kind_wav = {
	.name = "wav",
	.help = "the same clips as flac, not packed",
	.options = " duration ",
	.check = check,
	.run = run_wav,
};

const struct synth_kind synth_kind_mp3 = {
	.name = "mp3",
	.help = "speech-like clips, 48 kHz (needs libmp3lame at run time)",
	.options = " duration ",
	.check = check_mp3,
	.run = run_mp3,
};
