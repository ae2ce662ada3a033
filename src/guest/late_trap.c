/* SPDX-License-Identifier: MIT */
/* late_trap.c - see late_trap.h. */
#include "guest/late_trap.h"

#include <errno.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/marker.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "guest/action_gate.h"
#include "guest/moved.h"
#include "guest/own_masks.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/install.h"

#define TRAP_BIT (1ull << (SIGTRAP - 1))
#define MARKER_BIT (1ull << (MARKER_OF_SIGTRAP - 1))
#define WAITS_STEP_NS 1000000
#define WAITS_STEPS 20
#define MASKS_STEP_NS 20000000
#define MASKS_STEPS 150 /* 3 s */

static uint32_t gives_back; /* an action of SIGTRAP is for the kernel */

/*
 * Trapline's itself comes from trap_install(), or from a program that puts back what it once read.
 */
static bool is_for_kernel(const struct sigaction *action)
{
	return atomic_get(&gives_back) || (action && action->sa_sigaction == trap_on_sigtrap);
}

int late_trap_action(signals_set_action next, int signal, const struct sigaction *action,
		     struct sigaction *old)
{
	const bool is_direct = signal == SIGTRAP && is_for_kernel(action);
	int err = is_direct ? next(signal, action, old) : signals_action(next, signal, action, old);

	/* Where a tool begins or ends at this moment, Trapline's may be there. */
	if (!err && !is_direct && signal == SIGTRAP && old && old->sa_sigaction == trap_on_sigtrap)
		action_read(&trap_previous, old);
	return err;
}

int late_trap_take(int (*end)(void), bool keeps_open)
{
	action_gate_shut(SIGTRAP);
	signals_take_marked(end);
	int err = trap_install();
	if (!err) {
		signals_are_late(keeps_open);
		signals_are_ours(1);
	}
	action_gate_open(SIGTRAP);
	return err;
}

void late_trap_look_again(void)
{
	moved_wait();
	action_gate_shut(SIGTRAP);
	trap_install();
	action_gate_open(SIGTRAP);
}

void late_trap_rest(void)
{
	atomic_set(&trap_held_bit, TRAP_BIT);
	signals_are_late(0);
}

/* 1: in place of SIGTRAP. */
static int has_marker(void *arg, pid_t tid)
{
	uint64_t mask;

	(void)arg;
	return !own_masks_of(tid, "SigBlk", &mask) &&
	       (mask & (MARKER_BIT | TRAP_BIT)) == MARKER_BIT && !own_masks_have(mask, TRAP_BIT);
}

void late_trap_wait_for_masks(void)
{
	const struct timespec step = { 0, MASKS_STEP_NS };
	struct task_names room;

	for (int i = 0; i < MASKS_STEPS && tasks_each(sys_getpid(), &room, has_marker, NULL); i++)
		sys_nap(&step);
}

/* 1: a SIGTRAP waits for it, or that is not known. */
static int waits_for(void *arg, pid_t tid)
{
	uint64_t own = 0;
	uint64_t shared = 0;
	int err = own_masks_of(tid, "SigPnd", &own);

	(void)arg;
	/* This thread has it blocked, and what an event of Trapline raised here ends with it. */
	if (tid == sys_gettid())
		own = 0;
	if (!err)
		err = own_masks_of(tid, "ShdPnd", &shared);
	return err == -ENOENT ? 0 : err || (own | shared) & TRAP_BIT;
}

/* One that was just sent is on its way to a thread, and waits for that moment only. */
static int is_awaited(void)
{
	const struct timespec step = { 0, WAITS_STEP_NS };
	struct task_names room;
	int is = 1;

	for (int i = 0; is && i < WAITS_STEPS; i++) {
		if (i)
			sys_nap(&step);
		is = tasks_each(sys_getpid(), &room, waits_for, NULL);
	}
	return is;
}

/*
 * The default action stays with Trapline: a trap of Trapline that nothing here can know of would
 * kill. Calls of the program go to the kernel from now on; one that came before is inspected again.
 */
void late_trap_give_back(signals_set_action next)
{
	struct sigaction program;

	action_read(&trap_previous, &program);
	if (program.sa_handler == SIG_DFL || !trap_is_installed() || is_awaited())
		return;
	action_gate_shut(SIGTRAP);
	const uint64_t version = action_read(&trap_previous, &program);
	const sighandler_t handler = program.sa_handler;
	if (handler != SIG_DFL) {
		atomic_set(&gives_back, 1u);
		next(SIGTRAP, &program, NULL);
	}
	action_gate_open(SIGTRAP);
	if (handler == SIG_DFL)
		return;
	moved_wait();
	/* SA_RESETHAND may have been used up as well. */
	if (action_read(&trap_previous, &program) != version || program.sa_handler != handler)
		next(SIGTRAP, &program, NULL);
	trap_was_taken_out();
}

void late_trap_end(void)
{
	atomic_set(&trap_held_bit, TRAP_BIT);
	atomic_set(&gives_back, 0u);
	signals_are_ours(0);
}
