/* SPDX-License-Identifier: MIT */
/*
 * signals.c - SIGTRAP stays ours, and unblocked, while the program believes it has it.
 *
 * Programs that block all signals in their threads would make those threads invisible; one with a
 * handler for SIGTRAP of its own (a debugger's helper, a sanitizer, a JIT) would get our signals,
 * which it does not know, and die. So the calls that do it are passed on without SIGTRAP; what is
 * not ours reaches the program's handler from ours.
 */
#include "agent/signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "trap/trap.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int (*action_function)(int, const struct sigaction *, struct sigaction *);
typedef int (*mask_function)(int, const sigset_t *, sigset_t *);

static int is_ours; /* the search runs: SIGTRAP is taken */
static action_function next_sigaction;
static mask_function next_sigprocmask;
static mask_function next_pthread_sigmask;

/* The constructor of another object may come before ours. */
static void find_next(void)
{
	if (next_sigaction)
		return;
	next_sigprocmask = (mask_function)dlsym(RTLD_NEXT, "sigprocmask");
	next_pthread_sigmask = (mask_function)dlsym(RTLD_NEXT, "pthread_sigmask");
	next_sigaction = (action_function)dlsym(RTLD_NEXT, "sigaction");
}

void signals_prepare(void)
{
	sigset_t trap;

	find_next();
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	next_pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
}

void signals_are_ours(int are)
{
	is_ours = are;
}

EXPORTED int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction without;

	find_next();
	if (!is_ours)
		return next_sigaction(signal, action, old);
	if (signal == SIGTRAP) {
		trap_set_previous(action, old);
		return 0;
	}
	if (!action || !sigismember(&action->sa_mask, SIGTRAP))
		return next_sigaction(signal, action, old);
	without = *action;
	sigdelset(&without.sa_mask, SIGTRAP);
	return next_sigaction(signal, &without, old);
}

/* As glibc's: restarts system calls, and keeps the handler. */
EXPORTED sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct sigaction old;

	if (handler == SIG_ERR || number < 1 || number >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigaddset(&action.sa_mask, number);
	return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

const sigset_t *signals_without_trap(const sigset_t *set, sigset_t *without)
{
	if (!is_ours || !set || !sigismember(set, SIGTRAP))
		return set;
	*without = *set;
	sigdelset(without, SIGTRAP);
	return without;
}

static int change_mask(mask_function next, int how, const sigset_t *set, sigset_t *old)
{
	sigset_t without;

	return next(how, how == SIG_UNBLOCK ? set : signals_without_trap(set, &without), old);
}

EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	find_next();
	return change_mask(next_sigprocmask, how, set, old);
}

EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	find_next();
	return change_mask(next_pthread_sigmask, how, set, old);
}
