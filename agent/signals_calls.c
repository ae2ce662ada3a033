/* SPDX-License-Identifier: MIT */
/* signals_calls.c - the functions of libc that set handlers and masks, as signals.c has it. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "agent/guard/guard_next.h"
#include "guest/signals.h"

#define EXPORTED __attribute__((visibility("default")))

void *guard_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

EXPORTED int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	static signals_set_action next;

	/* The constructor of another object may come before Trapline's. */
	if (!next)
		next = (signals_set_action)dlsym(RTLD_NEXT, "sigaction");
	return signals_action(next, signal, action, old);
}

/* As glibc's: restarts system calls, and keeps the handler. */
static sighandler_t set_handler(int number, sighandler_t handler, int flags, int with_mask)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	struct sigaction old;

	if (handler == SIG_ERR || number < 1 || number >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (with_mask)
		sigaddset(&action.sa_mask, number);
	return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

EXPORTED sighandler_t signal(int number, sighandler_t handler)
{
	return set_handler(number, handler, SA_RESTART, 1);
}

EXPORTED sighandler_t bsd_signal(int number, sighandler_t handler);
EXPORTED sighandler_t bsd_signal(int number, sighandler_t handler)
{
	return signal(number, handler);
}

EXPORTED sighandler_t ssignal(int number, sighandler_t handler)
{
	return signal(number, handler);
}

EXPORTED sighandler_t sysv_signal(int number, sighandler_t handler)
{
	return set_handler(number, handler, SA_RESETHAND | SA_NODEFER, 0);
}

EXPORTED sighandler_t __sysv_signal(int number, sighandler_t handler);
EXPORTED sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return sysv_signal(number, handler);
}

EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	static signals_set_mask next;

	if (!next)
		next = (signals_set_mask)dlsym(RTLD_NEXT, "sigprocmask");
	return signals_mask(next, how, set, old);
}

EXPORTED int sigpending(sigset_t *set)
{
	static int (*next)(sigset_t *);

	if (!next)
		next = (int (*)(sigset_t *))dlsym(RTLD_NEXT, "sigpending");
	return signals_pending(next, set);
}

EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	static signals_set_mask next;

	if (!next)
		next = (signals_set_mask)dlsym(RTLD_NEXT, "pthread_sigmask");
	return signals_mask(next, how, set, old);
}
