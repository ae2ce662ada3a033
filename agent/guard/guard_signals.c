/* SPDX-License-Identifier: MIT */
/*
 * guard_signals.c - the functions of libc that set handlers and masks, as guest/signals.c has it.
 * SIGSEGV stays with the detector, and so does SIGTRAP where debug registers are used.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "agent/guard/guard.h"
#include "guest/action_gate.h"
#include "guest/late_trap.h"
#include "guest/segv.h"
#include "guest/signals.h"
#include "heap/heap_death.h"

static signals_set_action next_sigaction(void)
{
	static signals_set_action found;

	if (!found)
		found = (signals_set_action)guard_next("sigaction");
	return found;
}

/* Where the detector begins or ends at this moment, its own handlers may be there. */
static int change(int signal, const struct sigaction *action, struct sigaction *old)
{
	int result = late_trap_action(next_sigaction(), signal, action, old);

	if (!result && old) {
		segv_from_kernel(signal, old);
		heap_death_from_kernel(signal, old);
	}
	return result;
}

GUARD(int, sigaction, (int signal, const struct sigaction *action, struct sigaction *old))
{
	struct sigaction changed;

	action_gate_enter(signal);
	if (action && heap_range.bytes && !heap_is_over) {
		changed = *action;
		heap_death_to_kernel(signal, &changed);
		action = &changed;
	}
	int result = change(signal, action, old);
	action_gate_exit(signal);
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

GUARD(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old))
{
	static signals_set_mask found;

	if (!found)
		found = (signals_set_mask)guard_next("pthread_sigmask");
	return signals_mask(found, how, set, old);
}

/* Not by that of libc: it calls pthread_sigmask(), where a process that ran before has a jump. */
GUARD(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old))
{
	int err = GUARD_NAME(pthread_sigmask)(how, set, old);

	if (!err)
		return 0;
	errno = err;
	return -1;
}
