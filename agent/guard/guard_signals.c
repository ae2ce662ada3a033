/* SPDX-License-Identifier: MIT */
/*
 * guard_signals.c - SIGSEGV stays with the detector, and unblocked, although the program seems to have
 * it. So does SIGTRAP where debug registers are used: agent/signals.c.
 *
 * The kernel kills a thread that faults while it has SIGSEGV blocked. So calls that block all signals
 * leave it out. A program that asks for its mask reads that SIGSEGV is not blocked: it can only be
 * sent to it then, by kill(2).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "agent/guard/guard.h"
#include "guest/signals.h"
#include "heap/heap_death.h"
#include "heap/heap_fault.h"

static signals_set_action next_sigaction(void)
{
	static signals_set_action found;

	if (!found)
		found = (signals_set_action)guard_next("sigaction");
	return found;
}

static const sigset_t *without_segv(int how, const sigset_t *set, sigset_t *changed)
{
	if (!heap_range.bytes || heap_is_over || !set || how == SIG_UNBLOCK)
		return set;
	*changed = *set;
	sigdelset(changed, SIGSEGV);
	return changed;
}

/* The detector begins or ends: its own handlers may be there. */
static int change_between(int signal, const struct sigaction *action, struct sigaction *old)
{
	int result = signals_action(next_sigaction(), signal, action, old);

	if (!result && old) {
		heap_fault_from_kernel(signal, old);
		heap_death_from_kernel(signal, old);
	}
	return result;
}

GUARD(int, sigaction, (int signal, const struct sigaction *action, struct sigaction *old))
{
	struct sigaction changed;

	if (!heap_range.bytes || heap_is_over)
		return change_between(signal, action, old);
	if (signal == SIGSEGV) {
		heap_fault_set_action(action, old);
		return 0;
	}
	if (action) {
		changed = *action;
		sigdelset(&changed.sa_mask, SIGSEGV);
		heap_death_to_kernel(signal, &changed);
		action = &changed;
	}
	int result = signals_action(next_sigaction(), signal, action, old);
	if (!result && old)
		heap_death_from_kernel(signal, old);
	return result;
}

/* As glibc's: restarts system calls, and keeps the handler. */
static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	struct sigaction old;

	if (handler == SIG_ERR || number < 1 || number >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (!(flags & SA_NODEFER))
		sigaddset(&action.sa_mask, number);
	return GUARD_NAME(sigaction)(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

GUARD(sighandler_t, signal, (int number, sighandler_t handler))
{
	return set_handler(number, handler, SA_RESTART);
}

GUARD(sighandler_t, bsd_signal, (int number, sighandler_t handler))
{
	return set_handler(number, handler, SA_RESTART);
}

GUARD(sighandler_t, ssignal, (int number, sighandler_t handler))
{
	return set_handler(number, handler, SA_RESTART);
}

GUARD(sighandler_t, sysv_signal, (int number, sighandler_t handler))
{
	return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}

GUARD(sighandler_t, __sysv_signal, (int number, sighandler_t handler))
{
	return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}

GUARD(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old))
{
	static signals_set_mask found;
	sigset_t changed;

	if (!found)
		found = (signals_set_mask)guard_next("sigprocmask");
	return signals_mask(found, how, without_segv(how, set, &changed), old);
}

GUARD(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old))
{
	static signals_set_mask found;
	sigset_t changed;

	if (!found)
		found = (signals_set_mask)guard_next("pthread_sigmask");
	return signals_mask(found, how, without_segv(how, set, &changed), old);
}
