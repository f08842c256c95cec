/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a loader of PNGs with libspng must do: N threads decode PNG
 * files to 8-bit RGB, a whole picture at once. All files are in memory before
 * the clock starts; a thread uses one buffer of pixels again and again.
 *
 * usage: bare_png THREADS EPOCHS FILE...
 */
#include "bare.h"

#include <sys/stat.h>

#include <spng.h>

struct file {
	const char *path;
	char *data;
	size_t size;
};

struct worker {
	struct bare_deck *deck;
	const struct file *file;
	char *pixels;
	size_t room, done, bytes;
};

static void slurp(struct file *f, const char *path)
{
	FILE *in = fopen(path, "rbe");
	struct stat st;

	if (!in || fstat(fileno(in), &st))
		err(1, "%s", path);
	f->path = path;
	f->size = (size_t)st.st_size;
	f->data = bare_alloc(f->size, 1);
	if (fread(f->data, 1, f->size, in) != f->size)
		err(1, "%s", path);
	fclose(in);
}

static void decode(struct worker *w, const struct file *f)
{
	spng_ctx *c = spng_ctx_new(0);
	size_t n;

	if (!c || spng_set_png_buffer(c, f->data, f->size) ||
	    spng_decoded_image_size(c, SPNG_FMT_RGB8, &n))
		errx(1, "%s: not a PNG", f->path);
	if (n > w->room) {
		free(w->pixels);
		w->pixels = bare_buffer(n);
		w->room = n;
	}
	if (spng_decode_image(c, w->pixels, n, SPNG_FMT_RGB8, 0))
		errx(1, "%s: does not decode", f->path);
	spng_ctx_free(c);
	w->bytes += n;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const uint32_t *at;
	size_t n;

	while ((n = bare_deal(w->deck, &at))) {
		for (size_t i = 0; i < n; i++)
			decode(w, &w->file[at[i]]);
		w->done += n;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct bare_deck deck = { .batch = 1 };
	struct worker *w;
	struct file *file;
	size_t done = 0, bytes = 0;
	double seconds;
	int threads;

	if (argc < 4)
		errx(2, "usage: bare_png THREADS EPOCHS FILE...");
	threads = bare_threads(argv[1]);
	deck.epochs = bare_number(argv[2]);
	deck.samples = (size_t)argc - 3;
	deck.order = bare_order(deck.samples);
	file = bare_alloc(deck.samples, sizeof(*file));
	for (size_t i = 0; i < deck.samples; i++)
		slurp(&file[i], argv[3 + i]);
	w = bare_alloc((size_t)threads, sizeof(*w));
	for (int i = 0; i < threads; i++)
		w[i] = (struct worker){ .deck = &deck, .file = file };
	seconds = bare_run(threads, work, w, sizeof(*w));
	for (int i = 0; i < threads; i++) {
		done += w[i].done;
		bytes += w[i].bytes;
	}
	bare_report(done, bytes, threads, seconds);
	return 0;
}
