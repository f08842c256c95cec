/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* Of the copy that this thread is at. In static memory, since a handler
 * must not be the first to touch it. */
static _Thread_local struct mr_guard guard
	__attribute__((tls_model("initial-exec")));

static struct sigaction before;
static int failed;

static void on_bus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;

	if (at >= guard.from && at < guard.to) {
		/* Not blocked by us; ThreadSanitizer blocks all signals. */
		sigset_t bus;

		sigemptyset(&bus);
		sigaddset(&bus, SIGBUS);
		pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
		siglongjmp(guard.back, 1);
	}
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(sig, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
	else /* happens again, and then as if we were not here */
		sigaction(SIGBUS, &before, NULL);
}

static void take(void)
{
	struct sigaction ours = { .sa_sigaction = on_bus,
				  .sa_flags = SA_SIGINFO | SA_NODEFER |
					      SA_ONSTACK };

	sigemptyset(&ours.sa_mask);
	failed = sigaction(SIGBUS, &ours, &before) ? errno : 0;
}

int mr_guard_take(struct mr_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, take);
	return failed ? mr_err_set(err, MR_ESTATE, "cannot take SIGBUS: %s",
				   strerror(failed)) :
			0;
}

sigjmp_buf *mr_guard_point(void)
{
	return &guard.back;
}

void mr_guard_save(struct mr_guard *outer)
{
	memcpy(outer, &guard, sizeof(guard));
}

void mr_guard_restore(const struct mr_guard *outer)
{
	mr_guard_disarm();
	memcpy(guard.back, outer->back, sizeof(guard.back));
	guard.to = outer->to;
	guard.from = outer->from;
}

void mr_guard_arm(const void *from, size_t n)
{
	guard.from = (uintptr_t)from;
	guard.to = (uintptr_t)from + n;
}

void mr_guard_disarm(void)
{
	guard.from = guard.to = 0;
}

bool mr_guard_copy(void *dst, const void *src, size_t n)
{
	/* No signal mask to restore: the handler runs with SA_NODEFER. */
	if (mr_guard_set()) {
		mr_guard_disarm();
		return false;
	}
	mr_guard_arm(src, n);
	memcpy(dst, src, n);
	mr_guard_disarm();
	return true;
}
