/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps whose cost is known: burn us=N takes N microseconds of CPU time, touch
 * bytes=N makes one page fault per page. Other than that they copy.
 */
#include <millrace/plugin.h>

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct work {
	int64_t us;
	uint64_t bytes;
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	(void)err;
	*out = *in;
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Exported, so that its name outlives strip; never inlined. */
__attribute__((visibility("default"), noinline)) uint64_t work_spin(uint64_t n);
uint64_t work_spin(uint64_t n)
{
	volatile uint64_t x = n;

	for (uint64_t i = 0; i < n; i++)
		x = x * 3 + i;
	return x;
}

static __attribute__((noinline)) uint64_t hidden_spin(uint64_t n)
{
	volatile uint64_t x = n;

	for (uint64_t i = 0; i < n; i++)
		x = x * 5 + i;
	return x;
}

static int burn(const struct mr_opctx *cx, const struct mr_tensor *in,
		struct mr_tensor *out)
{
	const struct work *w = cx->self;
	uint64_t until = cpu_ns() + (uint64_t)w->us * 1000;

	memcpy(out->data, in->data, mr_tensor_bytes(in));
	while (cpu_ns() < until)
		work_spin(500);
	return 0;
}

static int hide(const struct mr_opctx *cx, const struct mr_tensor *in,
		struct mr_tensor *out)
{
	const struct work *w = cx->self;
	uint64_t until = cpu_ns() + (uint64_t)w->us * 1000;

	memcpy(out->data, in->data, mr_tensor_bytes(in));
	while (cpu_ns() < until)
		hidden_spin(500);
	return 0;
}

static int touch(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct work *w = cx->self;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return mr_err_set(cx->err, MR_ENOMEM, "no memory");
	madvise(p, w->bytes, MADV_NOHUGEPAGE);
	memcpy(out->data, in->data, mr_tensor_bytes(in));
	for (size_t i = 0; i < w->bytes; i += page)
		((volatile char *)p)[i] = 1;
	munmap(p, w->bytes);
	return 0;
}

static const struct mr_param burn_params[] = {
	MR_INT(struct work, us, "1000", 0, 1e9, "microseconds of CPU time"),
	MR_PARAM_END
};
static const struct mr_param touch_params[] = {
	MR_SIZE(struct work, bytes, "1M", 1, 1e12, "that are touched"),
	MR_PARAM_END
};

#define STEP(n, h, p)                        \
	static const struct mr_op op_##n = { \
		.name = #n,                  \
		.help = h,                   \
		.flags = MR_OP_SHAPE_KEEP,   \
		.size = sizeof(struct work), \
		.params = p,                 \
		.infer = infer,              \
		.run = n,                    \
	}

STEP(burn, "takes CPU time", burn_params);
STEP(hide, "the same in a function without an exported name", burn_params);
STEP(touch, "makes page faults", touch_params);

static const struct mr_op *const ops[] = { &op_burn, &op_hide, &op_touch,
					   NULL };
extern const struct mr_plugin mr_plugin;
__attribute__((visibility("default")))
const struct mr_plugin mr_plugin = { .abi = MR_PLUGIN_ABI, .ops = ops };
