/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of XML as the answers of S3 need: elements that hold only text,
 * found by their name. No more than that: the answers are flat, and come
 * from a server that was asked for them.
 */
#ifndef MR_IO_XML_H
#define MR_IO_XML_H

#include <stdbool.h>
#include <stddef.h>

struct mr_xml {
	const char *at, *end; /* need not end with a zero */
};

/*
 * 1: the text of the next element `name` after x->at, entities decoded and
 * with a zero at its end, is in buf; x->at stands behind it. 0: there is none.
 * -1: it is not closed, is damaged, has a zero in it or does not fit.
 */
int mr_xml_next(struct mr_xml *x, const char *name, char *buf, size_t cap);

/* Is the first one there, and good? */
bool mr_xml_find(struct mr_xml x, const char *name, char *buf, size_t cap);

#endif
