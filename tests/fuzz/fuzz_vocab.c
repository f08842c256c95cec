/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a vocabulary: the first says of which kind. What can be opened
 * encodes. */
#include "source.h"

#include "op/bpe.h"

/* Both files of GPT-2's kind, with the bytes' tokens made here, so that the
 * fuzzer need not find them: 'e' the encoder's other tokens, 'm' merges. */
static const char *whole(int file, const char *head, const uint8_t *data,
			 size_t size, const char *tail)
{
	static int fd[2] = { -1, -1 };
	static char path[2][40];
	size_t h = strlen(head), t = strlen(tail);

	if (fd[file] < 0)
		fd[file] = memfd_create("fuzz", 0);
	snprintf(path[file], sizeof(path[file]), "/proc/self/fd/%d", fd[file]);
	if (ftruncate(fd[file], 0) ||
	    pwrite(fd[file], head, h, 0) != (ssize_t)h ||
	    pwrite(fd[file], data, size, (off_t)h) != (ssize_t)size ||
	    pwrite(fd[file], tail, t, (off_t)(h + size)) != (ssize_t)t)
		abort();
	return path[file];
}

/* `"!": 33, ...` for all bytes, as GPT-2 prints them. */
static const char *byte_tokens(void)
{
	static char text[8192] = "{";
	size_t n = 1;
	int more = 256;

	if (text[1])
		return text;
	for (int i = 0; i < 256; i++) {
		bool own = (i > 32 && i < 127) || (i > 160 && i != 173);

		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "\"\\u%04x\": %d, ", own ? i : more++, i);
	}
	return text;
}

static const char *byte_ranks(void)
{
	static const char d[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"abcdefghijklmnopqrstuvwxyz0123456789+/";
	static char text[8192];
	size_t n = 0;

	for (int i = 0; i < 256 && !(i == 0 && text[0]); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%c%c== %d\n",
				      d[i >> 2], d[(i & 3) << 4], i);
	return text;
}

static void use(struct mr_bpe *b)
{
	static const uint8_t text[] = "the theme's  abababab aaaaaaaaaaaaaaaaaa"
				      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				      "aaaaaaaaaaaaaaaaa \xc3\xa9\xff 12 !!";
	struct mr_arena scratch;
	int32_t id[sizeof(text)];
	struct mr_err err;
	size_t n;

	mr_arena_init(&scratch, 1 << 20);
	if (mr_bpe_encode(b, NULL, &scratch, text, sizeof(text), id, &n, &err))
		abort();
	mr_arena_fini(&scratch);
	mr_bpe_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char some[] =
		"\"th\": 300, \"the\": 301, \"aa\": 302, \"aaa\": 303, "
		"\"aaaa\": 304, \"ab\": 305, \"abab\": 306 }";
	struct mr_bpe b;
	struct mr_err err = { 0 };
	uint8_t kind = size ? *data : 0;
	int e;

	if (!size)
		return 0;
	data++;
	size--;
	if (kind == 'e')
		e = mr_bpe_open(&b, whole(0, byte_tokens(), data, size, ""),
				whole(1, "a a\nt h\n", data, 0, ""), &err);
	else if (kind == 'm')
		e = mr_bpe_open(&b, whole(0, byte_tokens(), data, 0, some),
				whole(1, "", data, size, ""), &err);
	else if (kind == 'r')
		e = mr_bpe_open_ranks(
			&b, whole(0, byte_ranks(), data, size, ""), &err);
	else
		e = mr_bpe_open_ranks(&b, whole(0, "", data, size, ""), &err);
	if (!e)
		use(&b);
	else if (err.code >= 0 || !err.text[0])
		abort();
	return 0;
}
