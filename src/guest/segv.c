/* SPDX-License-Identifier: MIT */
/* segv.c - see segv.h. */
#include "guest/segv.h"

#include <stdint.h>
#include <string.h>

#include "base/action.h"
#include "base/after_fork.h"
#include "base/sent.h"
#include "base/shared_signal.h"
#include "base/sys.h"
#include "guest/action_gate.h"
#include "guest/kernel_action.h"
#include "guest/signals.h"

#define SEGV_BIT (1ull << (SIGSEGV - 1))
/* While Trapline's handler runs: what instructions raise cannot wait. */
#define RAISED (SEGV_BIT | 1ull << (SIGTRAP - 1))

static struct action previous = ACTION_DEFAULT;
static const struct segv_tool *tool;

static uint64_t mask_of(const sigset_t *set)
{
	uint64_t mask;

	memcpy(&mask, set, sizeof(mask));
	return mask;
}

/* What an instruction raised, it raises again at the return. */
static void die(siginfo_t *info, const ucontext_t *context)
{
	tool->dies(info, context);
	kernel_action_set_default(SIGSEGV);
	if (info->si_code <= 0)
		sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), SIGSEGV, info);
}

static void call(const struct sigaction *action, siginfo_t *info, ucontext_t *context)
{
	sigset_t kept;
	sigset_t set = action->sa_mask;

	if (!(action->sa_flags & SA_NODEFER))
		sigaddset(&set, SIGSEGV);
	const uint64_t mask = mask_of(&context->uc_sigmask) |
			      mask_of(signals_to_kernel(&set, &kept));
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(SIGSEGV, info, context);
	else
		action->sa_handler(SIGSEGV);
}

static void pass_on(siginfo_t *info, ucontext_t *context)
{
	const bool is_sent = info->si_code <= 0;
	struct sigaction action;

	if (is_sent && sent_waits(info))
		return;
	const uint64_t version = action_read(&previous, &action);
	const bool is_blocked = signals_is_blocked(SIGSEGV, context);
	if (is_sent && is_blocked)
		signals_leave_pending(info, context);
	else if (is_sent && action.sa_handler == SIG_IGN)
		return;
	else if (is_blocked || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ||
		 (action.sa_flags & SA_RESETHAND && !action_reset(&previous, version)))
		die(info, context);
	else
		call(&action, info, context);
}

static void on_segv(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	const ucontext_t *after = context;

	if (info->si_code <= 0 || !tool->take(info, context))
		pass_on(info, context);
	shared_signal_leave(mask_of(&after->uc_sigmask));
}

/* By the flags that matter when the kernel makes the frame. */
static int take(const struct sigaction *program, struct kernel_action *old)
{
	const struct kernel_action action = {
		.handler = on_segv,
		.flags = SA_SIGINFO | SA_NODEFER |
			 (unsigned long)(program->sa_handler == SIG_DFL ?
						 SA_ONSTACK | SA_RESTART :
						 program->sa_flags & (SA_ONSTACK | SA_RESTART)),
		.mask = ~RAISED,
	};

	return kernel_action(SIGSEGV, &action, old);
}

static void set_action(const struct sigaction *action, struct sigaction *old)
{
	if (action) {
		action_replace(&previous, action, old);
		take(action, NULL);
	} else if (old) {
		action_read(&previous, old);
	}
}

void segv_from_kernel(int signal, struct sigaction *old)
{
	if (signal == SIGSEGV && old->sa_sigaction == on_segv)
		action_read(&previous, old);
}

void segv_leave(void)
{
	struct kernel_action now;
	struct sigaction action;

	action_gate_shut(SIGSEGV);
	signals_disown(SIGSEGV);
	if (!kernel_action(SIGSEGV, NULL, &now) && now.handler == on_segv) {
		action_read(&previous, &action);
		kernel_action_to(&action, &now);
		kernel_action(SIGSEGV, &now, NULL);
	}
	action_gate_open(SIGSEGV);
}

/* A call that the gate does not know of may set its action in the meantime: that one counts. */
static int take_from(const struct kernel_action *before)
{
	struct kernel_action old;
	struct sigaction as_libc;

	kernel_action_from(before, &as_libc);
	action_replace(&previous, &as_libc, NULL);
	int err = take(&as_libc, &old);
	if (err || old.handler == on_segv || old.handler == before->handler)
		return err;
	kernel_action_from(&old, &as_libc);
	action_replace(&previous, &as_libc, NULL);
	return take(&as_libc, NULL);
}

/* The gate is shut. */
static int take_if_other(void)
{
	struct kernel_action before;
	int err = kernel_action(SIGSEGV, NULL, &before);

	return err || before.handler == on_segv ? err : take_from(&before);
}

int segv_take_again(void)
{
	action_gate_shut(SIGSEGV);
	int err = take_if_other();
	action_gate_open(SIGSEGV);
	return err;
}

int segv_start(const struct segv_tool *with)
{
	static struct signals_owner owner = { .set_action = set_action };

	tool = with;
	owner.end = with->end;
	action_gate_shut(SIGSEGV);
	int err = take_if_other();
	if (!err)
		signals_own(SIGSEGV, &owner);
	action_gate_open(SIGSEGV);
	return err;
}

AT_FORK void segv_forked(void)
{
	action_forked(&previous);
}
