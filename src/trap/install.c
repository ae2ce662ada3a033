/* SPDX-License-Identifier: MIT */
/* install.c - becoming the process's action for SIGTRAP. Not on the trap path. */
#include <errno.h>
#include <string.h>

#include "trap/trap.h"

int trap_on_thread_stack;

int trap_is_installed(void)
{
	struct sigaction now;

	return sigaction(SIGTRAP, NULL, &now) == 0 && now.sa_sigaction == trap_on_sigtrap;
}

/*
 * Never taken out again: a signal may be pending in a thread that has SIGTRAP blocked, and the
 * default action would kill the process. A handler that was put over ours since gets what is
 * not ours, as the one before it did.
 */
int trap_install(void)
{
	static int installed;
	static int on_thread_stack;
	struct sigaction action;
	int saved = errno;
	int err = 0;

	if (trap_is_installed() && on_thread_stack == trap_on_thread_stack)
		return 0;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = trap_on_sigtrap;
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
	action.sa_flags |= trap_on_thread_stack ? 0 : SA_ONSTACK;
	/* Known before ours is in place: a foreign trap may come at once. */
	if (!trap_is_installed() && sigaction(SIGTRAP, NULL, &trap_previous))
		err = -EBUSY;
	if (!err && !installed)
		trap_first_previous = trap_previous;
	if (!err && sigaction(SIGTRAP, &action, NULL))
		err = -EBUSY;
	installed |= !err;
	on_thread_stack = trap_on_thread_stack;
	errno = saved;
	return err;
}

void trap_set_previous(const struct sigaction *action, struct sigaction *old)
{
	if (old)
		*old = trap_previous;
	if (action)
		trap_previous = *action;
}
