/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sink/out.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"

static int make(struct mr_out *o, struct mr_err *err)
{
	struct stat st;
	char temp[4096];

	bool special = !stat(o->path, &st) && !S_ISREG(st.st_mode);

	o->fd = special ? open(o->path, O_WRONLY | O_CLOEXEC) :
			  mr_file_beside(o->path, temp, sizeof(temp));
	if (o->fd < 0)
		return mr_err_sys(err, errno, o->path, "cannot create");
	if (special)
		return 0;
	o->temp = mr_strdup(temp, err);
	if (o->temp)
		return 0;
	unlink(temp);
	return MR_ENOMEM;
}

int mr_out_open(struct mr_out *o, const char *path, struct mr_err *err)
{
	int e;

	*o = (struct mr_out){ .fd = -1, .path = path };
	o->buf = mr_alloc(1, MR_OUT_ROOM, err);
	e = o->buf ? make(o, err) : MR_ENOMEM;
	if (e)
		mr_out_drop(o);
	return e;
}

static void flush(struct mr_out *o)
{
	if (!o->failed)
		o->failed = mr_write_all(o->fd, o->buf, o->used);
	o->used = 0;
}

/* Over the end of the buffer. */
void mr_out_long(struct mr_out *o, const char *text, size_t n)
{
	while (n > MR_OUT_ROOM - o->used) {
		size_t k = MR_OUT_ROOM - o->used;

		memcpy(o->buf + o->used, text, k);
		o->used += k;
		text += k;
		n -= k;
		flush(o);
	}
	mr_out_add(o, text, n);
}

void mr_out_text(struct mr_out *o, const char *text)
{
	mr_out_add(o, text, strlen(text));
}

/* The digits end before `end`; returns where they begin. */
static char *digits(char *end, uint64_t v)
{
	static const char pairs[] = "00010203040506070809"
				    "10111213141516171819"
				    "20212223242526272829"
				    "30313233343536373839"
				    "40414243444546474849"
				    "50515253545556575859"
				    "60616263646566676869"
				    "70717273747576777879"
				    "80818283848586878889"
				    "90919293949596979899";

	for (; v >= 100; v /= 100) {
		end -= 2;
		memcpy(end, pairs + 2 * (v % 100), 2);
	}
	if (v >= 10)
		*--end = pairs[2 * v + 1];
	*--end = v >= 10 ? pairs[2 * v] : (char)('0' + v);
	return end;
}

void mr_out_uint(struct mr_out *o, uint64_t v)
{
	char text[24], *end = text + sizeof(text), *p = digits(end, v);

	mr_out_add(o, p, (size_t)(end - p));
}

void mr_out_us(struct mr_out *o, uint64_t ns)
{
	char text[32], *end = text + sizeof(text), *p = end;

	for (int i = 0; i < 3; i++, ns /= 10)
		*--p = (char)('0' + ns % 10);
	*--p = '.';
	p = digits(p, ns);
	mr_out_add(o, p, (size_t)(end - p));
}

void mr_out_quoted(struct mr_out *o, const char *text)
{
	struct mr_json j = { 0 };

	mr_json_text(&j, NULL, text);
	if (j.out.failed)
		o->failed = ENOMEM;
	else
		mr_out_add(o, j.out.text, j.out.len);
	mr_str_fini(&j.out);
}

int mr_out_close(struct mr_out *o, struct mr_err *err)
{
	int e, code = 0;

	flush(o);
	e = o->failed;
	if (close(o->fd) && !e)
		e = errno;
	o->fd = -1;
	if (!e && o->temp && rename(o->temp, o->path))
		e = errno;
	if (e)
		code = mr_err_sys(err, e, o->path, "cannot write");
	if (!e) {
		free(o->temp);
		o->temp = NULL;
	}
	mr_out_drop(o);
	return code;
}

void mr_out_drop(struct mr_out *o)
{
	if (o->fd >= 0)
		close(o->fd);
	if (o->temp)
		unlink(o->temp);
	free(o->temp);
	free(o->buf);
	*o = (struct mr_out){ .fd = -1 };
}
