/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sink/folds.h"

#include "core/mem.h"

enum { PLACES = 1 << 18, FRAME = 240, SLOTS = 2 * PLACES };

struct place {
	char *name;
	uint32_t above;
	uint64_t ns;
};

struct mr_folds {
	struct place *at; /* [0] is the top */
	size_t count, cap;
	uint32_t *slot; /* by name and place above; 0: free */
	bool failed;	/* there was no memory for one */
};

int mr_folds_new(struct mr_folds **out, struct mr_err *err)
{
	struct mr_folds *f = mr_alloc(1, sizeof(*f), err);

	*out = NULL;
	if (!f)
		return MR_ENOMEM;
	f->slot = mr_map(SLOTS * sizeof(*f->slot), err);
	if (!f->slot ||
	    mr_grow(&f->at, &f->cap, 1, sizeof(*f->at), PLACES, err)) {
		mr_folds_free(f);
		return MR_ENOMEM;
	}
	f->at[f->count++] = (struct place){ 0 };
	*out = f;
	return 0;
}

void mr_folds_free(struct mr_folds *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++)
		free(f->at[i].name);
	free(f->at);
	mr_unmap(f->slot, SLOTS * sizeof(*f->slot));
	free(f);
}

static uint64_t hash(uint32_t above, const char *name)
{
	uint64_t h = 14695981039346656037u ^ above;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211u;
	return h ^ h >> 29;
}

/* A name as a frame: without what has a meaning in the file. */
static char *frame(const char *name)
{
	char *s = strndup(name, FRAME);

	for (char *p = s; p && *p; p++)
		if (*p == ';' || (unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '_';
	return s;
}

uint32_t mr_folds_below(struct mr_folds *f, uint32_t above, const char *name)
{
	char *text = frame(name);
	size_t i;

	if (!text) {
		f->failed = true;
		return above;
	}
	for (i = hash(above, text) % SLOTS; f->slot[i]; i = (i + 1) % SLOTS) {
		const struct place *p = &f->at[f->slot[i]];

		if (p->above == above && !strcmp(p->name, text)) {
			free(text);
			return f->slot[i];
		}
	}
	if (mr_grow(&f->at, &f->cap, f->count + 1, sizeof(*f->at), PLACES,
		    NULL)) {
		f->failed = f->count < PLACES;
		free(text);
		return above;
	}
	f->at[f->count] = (struct place){ .name = text, .above = above };
	f->slot[i] = (uint32_t)f->count;
	return (uint32_t)f->count++;
}

void mr_folds_add(struct mr_folds *f, uint32_t place, uint64_t ns)
{
	f->at[place].ns += ns;
}

static void write_names(const struct mr_folds *f, struct mr_out *o,
			uint32_t place)
{
	enum { DEEP = 512 };
	uint32_t path[DEEP];
	size_t n = 0;

	for (; place && n < DEEP; place = f->at[place].above)
		path[n++] = place;
	while (n--) {
		mr_out_text(o, f->at[path[n]].name);
		if (n)
			mr_out_add(o, ";", 1);
	}
}

void mr_folds_write(const struct mr_folds *f, struct mr_out *o)
{
	if (f->failed)
		o->failed = ENOMEM;
	for (uint32_t i = 1; i < f->count; i++) {
		uint64_t us = f->at[i].ns / 1000 + (f->at[i].ns % 1000 >= 500);

		if (!us)
			continue;
		write_names(f, o, i);
		mr_out_add(o, " ", 1);
		mr_out_uint(o, us);
		mr_out_add(o, "\n", 1);
	}
}
