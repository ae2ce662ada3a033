/* SPDX-License-Identifier: MIT */
/* install.c - becoming the process's action for SIGTRAP. Not on the trap path. */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/shared_signal.h"
#include "base/sys.h"
#include "code/poke/poke_trap.h"
#include "code/window/window_under.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/install.h"
#include "trap/room.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 /* Linux commit 1c33bb0507508 (v5.14) */
#endif
#define SIGNAL_BYTES 4096u /* where the kernel does not report it */
#define RED_ZONE_BYTES 128u
#define NESTED_BYTES 384u /* of Trapline's handler, to find out that it is on top of itself */
/* the part of the first thread's stack that is inspected as growing when it is needed */
#define FIRST_BYTES (8u << 20)

/* As the kernel has it: the agent is before sigaction(). */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static int kernel_action(const struct kernel_action *action, struct kernel_action *old)
{
	return (int)sys4(SYS_rt_sigaction, SIGTRAP, action, old, sizeof(old->mask));
}

int trap_is_installed(void)
{
	struct kernel_action now;

	if (kernel_action(NULL, &now))
		return 0;
	/* While a window runs, its handler passes on to Trapline's. */
	return now.handler == trap_on_sigtrap ||
	       window_faults_under(SIGTRAP) == (const void *)(uintptr_t)trap_on_sigtrap;
}

/* As libc gives it, without libc: the program's own sigaction() may be answered by Trapline. */
static int read_action(struct sigaction *out)
{
	struct kernel_action now;
	int err = kernel_action(NULL, &now);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	out->sa_sigaction = now.handler;
	out->sa_flags = (int)now.flags;
	memcpy(&out->sa_mask, &now.mask, sizeof(now.mask));
	return 0;
}

static void prepare_room(void)
{
	struct trap_room *room = &trap_room;
	uint64_t needed = getauxval(AT_MINSIGSTKSZ);
	uint64_t grows = FIRST_BYTES;
	struct rlimit limit;

	if (!sys4(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit) && limit.rlim_cur < grows)
		grows = limit.rlim_cur;
	room->signal_bytes = needed ? needed : SIGNAL_BYTES;
	room->handler_bytes = RED_ZONE_BYTES + NESTED_BYTES;
	/* The random bytes lie at its very beginning, above all frames. */
	room->first_high = getauxval(AT_RANDOM);
	room->first_low = room->first_high > grows ? room->first_high - grows : room->first_high;
}

/*
 * Also the two of libc, which sigfillset() leaves open: the handler of pthread_cancel() would
 * unwind a thread with PTHREAD_CANCEL_ASYNCHRONOUS out of Trapline, with what it had opened.
 */
static void block_all(sigset_t *set)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS };

	memset(set, 0xff, sizeof(*set));
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(set, faults[i]);
}

static int keep_before(const struct sigaction *before, int is_again)
{
	action_replace(&trap_previous, before, NULL);
	if (!is_again)
		action_replace(&trap_first_previous, before, NULL);
	return 0;
}

static int is_other(const struct sigaction *one, const struct sigaction *two)
{
	return one->sa_handler != two->sa_handler || one->sa_flags != two->sa_flags ||
	       memcmp(&one->sa_mask, &two->sa_mask, sizeof(uint64_t)) != 0;
}

/* What this thread of Trapline does next may reach a breakpoint of Trapline. */
static void open_to_traps(void)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);

	if (foreign_keeps_sent())
		sys4(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, NULL, sizeof(trap));
}

static int installed;

/*
 * Not taken out again by Trapline: a signal may be pending in a thread that has SIGTRAP blocked,
 * and the default action would kill the process. A handler that was put over Trapline's since gets
 * what is not Trapline's, as the one before it did.
 */
int trap_install(void)
{
	static int on_thread_stack;
	struct sigaction action;
	struct sigaction before = { .sa_handler = SIG_DFL };
	struct sigaction old;
	int saved = errno;
	int err = 0;

	trap_room.pid = sys_getpid();
	if (trap_is_installed() && on_thread_stack == trap_on_thread_stack)
		return 0;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = trap_on_sigtrap;
	/*
	 * On a thread's own stack no handler of the program comes on top of Trapline, except for
	 * those of faults, which cannot wait.
	 */
	if (trap_on_thread_stack || trap_blocks_signals)
		block_all(&action.sa_mask);
	if (!trap_on_thread_stack)
		sigdelset(&action.sa_mask, SIGTRAP);
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	action.sa_flags |= trap_on_thread_stack ? 0 : SA_ONSTACK | SA_NODEFER;
	prepare_room();
	/* Known before Trapline's is in place: a foreign trap may come at once. */
	const int was_installed = trap_is_installed();
	if (!was_installed)
		err = read_action(&before) ? -EBUSY : keep_before(&before, installed);
	if (!err && sigaction(SIGTRAP, &action, &old))
		err = -EBUSY;
	/* Another thread has set its action in the meantime: then that is the one. */
	if (!err && !was_installed && old.sa_sigaction != trap_on_sigtrap &&
	    is_other(&old, &before))
		keep_before(&old, installed);
	installed |= !err;
	if (!err)
		open_to_traps();
	on_thread_stack = trap_on_thread_stack;
	atomic_set(&poke_before_callback, on_thread_stack ? trap_let_traps_come : NULL);
	atomic_set(&poke_after_callback,
		   on_thread_stack || trap_blocks_signals ? trap_leave_shared : NULL);
	errno = saved;
	return err;
}

/* Calls of the program end with EINTR, or begin again, by the flag of its own handler. */
static void restart_as(const struct sigaction *action)
{
	struct kernel_action ours;

	if (kernel_action(NULL, &ours) || ours.handler != trap_on_sigtrap)
		return;
	ours.flags |= SA_RESTART;
	if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
	    !(action->sa_flags & SA_RESTART))
		ours.flags &= ~(unsigned long)SA_RESTART;
	kernel_action(&ours, NULL);
}

void trap_set_previous(const struct sigaction *action, struct sigaction *old)
{
	if (action) {
		action_replace(&trap_previous, action, old);
		restart_as(action);
	} else if (old) {
		action_read(&trap_previous, old);
	}
}

void trap_was_taken_out(void)
{
	installed = 0;
}
