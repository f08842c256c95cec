/* SPDX-License-Identifier: Apache-2.0 */
#include "op/bpefile.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_LINES = 1 << 22 };

/* ---- tokens ---- */

bool mr_bpe_take(uint8_t *taken, int64_t id)
{
	uint8_t *at = taken + id / 8, bit = (uint8_t)(1 << id % 8);

	if (*at & bit)
		return false;
	*at |= bit;
	return true;
}

int mr_bpe_bytes(struct mr_bpe *b, const struct mr_words *w, const char *path,
		 struct mr_err *err)
{
	for (int i = 0; i < 256; i++) {
		uint8_t byte = (uint8_t)i;

		b->byte[i] = mr_words_find(w, &byte, 1);
		if (b->byte[i] < 0)
			return mr_err_set(err, MR_EDATA,
					  "%s: no token for the byte 0x%02x; "
					  "a byte-level vocabulary has one "
					  "for each of 256",
					  path, i);
	}
	return 0;
}

/* ---- lines ---- */

int mr_lines_init(struct mr_lines *l, const char *path, char *text, size_t n,
		  size_t *max, struct mr_err *err)
{
	*l = (struct mr_lines){ .path = path, .at = text, .end = text + n };
	*max = 1;
	for (size_t i = 0; i < n; i++)
		*max += text[i] == '\n';
	if (*max > MAX_LINES)
		return mr_err_set(err, MR_ELIMIT, "%s: more than %d lines",
				  path, MAX_LINES);
	return 0;
}

char *mr_lines_next(struct mr_lines *l, size_t *length)
{
	char *line = l->at, *stop;

	if (line == l->end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(l->end - line));
	l->at = stop ? stop + 1 : l->end;
	l->number++;
	*length = (size_t)((stop ? stop : l->end) - line);
	if (*length && line[*length - 1] == '\r')
		--*length;
	return line;
}

int mr_lines_bad(const struct mr_lines *l, struct mr_err *err, const char *fmt,
		 ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return mr_err_set(err, MR_EDATA, "%s: line %zu: %s", l->path, l->number,
			  text);
}
