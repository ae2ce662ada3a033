/* SPDX-License-Identifier: MIT */
/*
 * foreign.c - see foreign.h.
 *
 * On x86-64 the handler of the program is entered by a jump, on the frame that the kernel made for
 * Trapline's. It has the mask, the stack and the disposition that the flags of the program ask for.
 * Its return is a return to the kernel. So nothing is left to undo when it leaves by siglongjmp(3).
 *
 * Where the agent keeps SIGTRAP unblocked although the program has blocked it, trap_is_held()
 * returns 1. Then a breakpoint of the program kills, as the kernel would do it. A signal that was
 * sent stays pending for sigwait(3), signalfd(2) or a later unblocking: SIGTRAP is blocked for good
 * in the thread, and the signal is sent again. All events must be off before that, because their
 * signals would be pending as well.
 */
#include "base/trap_path.h"

#include <string.h>

#include "base/atomic.h"
#include "base/sent.h"
#include "base/sys.h"
#include "trap/arch.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"

#define RED_ZONE_BYTES 128u
#define TRAP_BIT (1ull << (SIGTRAP - 1))
#define AUTODISARM (1u << 31) /* SS_AUTODISARM of <linux/signal.h> */
#define PENDING_MAX 4
/*
 * What the kernel carries of a siginfo: the rest is zero. Memory of each thread is scarce:
 * check-trap-path.
 */
#define CARRIED_BYTES 48u
/*
 * At the end of siginfo, which the kernel clears for each signal: this one has been given to a
 * handler of the program. When that hands it on to Trapline, it is for the one before. Nothing
 * needs to be undone.
 */
#define MARK_AT 120
#define MARK 0x656e696c70617274ull

struct action trap_previous = ACTION_DEFAULT; /* what foreign signals go to */
struct action trap_first_previous =
	ACTION_DEFAULT; /* the one before any other code put itself between */
uint64_t trap_held_bit;
int (*trap_is_held)(const ucontext_t *context);
int (*trap_let_go)(const siginfo_t *info);

struct foreign_thread {
	int keeps_sent; /* it is a thread of Trapline */
	int has_kept;	/* 2: it had been handed back to Trapline */
	uint64_t kept[CARRIED_BYTES / sizeof(uint64_t)];
};
static __thread struct foreign_thread self __attribute__((tls_model("initial-exec")));

TRAP_PATH static uint64_t mask_of(const ucontext_t *context)
{
	uint64_t mask;

	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	return mask;
}

TRAP_PATH static void set_mask_of(ucontext_t *context, uint64_t mask)
{
	memcpy(&context->uc_sigmask, &mask, sizeof(mask));
}

TRAP_PATH static void set_mask(int how, uint64_t mask)
{
	sys4(SYS_rt_sigprocmask, how, &mask, NULL, sizeof(mask));
}

/* What an instruction raised: the kernel kills if it is blocked or ignored. */
TRAP_PATH static int is_forced(const siginfo_t *info)
{
	return info->si_code > 0 && info->si_code != TRAP_PERF_CODE;
}

/* What SIG_DFL would have done, at the instruction that was interrupted. */
TRAP_PATH static void die_by_default(ucontext_t *context)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action = { 0 };

	set_mask(SIG_BLOCK, TRAP_BIT);
	set_mask_of(context, mask_of(context) & ~TRAP_BIT);
	sys4(SYS_rt_sigaction, SIGTRAP, &action, NULL, 8);
	sys_tgkill(sys_getpid(), sys_gettid(), SIGTRAP);
}

TRAP_PATH static void set_mark(siginfo_t *info)
{
	const uint64_t mark = MARK;

	memcpy((char *)info + MARK_AT, &mark, sizeof(mark));
}

TRAP_PATH static int is_handed_back(const siginfo_t *info)
{
	uint64_t mark;

	memcpy(&mark, (const char *)info + MARK_AT, sizeof(mark));
	return mark == MARK;
}

/* ---- what stays pending ---- */

/* The signal of an event that is off by now, but whose signal had been made. */
TRAP_PATH static int is_left_over(const siginfo_t *info)
{
	return info->si_code == TRAP_PERF_CODE ||
	       (info->si_code == SI_KERNEL && atomic_get(&trap_had_ticks));
}

TRAP_PATH static void leave_pending(const siginfo_t *info, ucontext_t *context)
{
	const struct timespec now = { 0, 0 };
	const uint64_t trap = TRAP_BIT;
	siginfo_t other;

	set_mask(SIG_BLOCK, TRAP_BIT);
	set_mask_of(context, mask_of(context) | TRAP_BIT);
	for (int i = 0; i < PENDING_MAX; i++) {
		if (sys4(SYS_rt_sigtimedwait, &trap, &other, &now, sizeof(trap)) != SIGTRAP)
			break;
		if (!is_left_over(&other)) {
			sent_again(&other);
			break;
		}
	}
	sent_again(info);
}

TRAP_PATH static void keep(const siginfo_t *info)
{
	memcpy(self.kept, info, sizeof(self.kept));
	self.has_kept = is_handed_back(info) ? 2 : 1;
}

TRAP_PATH static void take_kept(siginfo_t *info)
{
	memset(info, 0, sizeof(*info));
	memcpy(info, self.kept, sizeof(self.kept));
	if (self.has_kept == 2)
		set_mark(info);
	self.has_kept = 0;
}

TRAP_PATH static void keep_pending(const siginfo_t *info, ucontext_t *context)
{
	int (*let_go)(const siginfo_t *) = atomic_get(&trap_let_go);
	const int outcome = let_go ? let_go(info) : 0;

	if (outcome < 0)
		keep(info);
	else if (!outcome)
		leave_pending(info, context);
}

/* ---- the program's handler ---- */

TRAP_PATH static uint64_t mask_in_handler(const struct sigaction *action, const ucontext_t *context)
{
	uint64_t mask;

	memcpy(&mask, &action->sa_mask, sizeof(mask));
	if (!(action->sa_flags & SA_NODEFER))
		mask |= TRAP_BIT;
	/*
	 * Never really: an event in the handler would be late, and an int3 of Trapline would kill.
	 */
	if (mask & TRAP_BIT)
		mask = (mask & ~TRAP_BIT) | atomic_get(&trap_held_bit);
	return mask | mask_of(context);
}

/* It hands on, by a call, what the kernel gave to it, or what Trapline gave. */
TRAP_PATH static void call(const struct sigaction *action, siginfo_t *info, ucontext_t *context)
{
	set_mark(info);
	set_mask(SIG_SETMASK, mask_in_handler(action, context));
	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(SIGTRAP, info, context);
	else
		action->sa_handler(SIGTRAP);
}

#if defined(__x86_64__)

/* struct rt_sigframe of the kernel: the return address, then the context, then siginfo. */
struct frame {
	uint64_t restorer;
	char context[304]; /* struct ucontext of the kernel, which ends before glibc's does */
	siginfo_t info;
};

TRAP_PATH static int is_on(const stack_t *stack, uint64_t at)
{
	return stack->ss_size && at - (uintptr_t)stack->ss_sp < stack->ss_size;
}

/* Where the kernel would have put the frame; 0: where it is. */
TRAP_PATH static uint64_t top_for(const ucontext_t *context, int flags)
{
	const stack_t *stack = &context->uc_stack;
	uint64_t sp = arch_sp(context);
	int was_on = is_on(stack, sp - 1);
	int shall_be_on = was_on || (flags & SA_ONSTACK && stack->ss_size);

	if (shall_be_on == is_on(stack, (uintptr_t)context))
		return 0;
	return shall_be_on ? (uintptr_t)stack->ss_sp + stack->ss_size : sp - RED_ZONE_BYTES;
}

TRAP_PATH static void move_frame(struct foreign_call *to, uint64_t top)
{
	ucontext_t *context = to->context;
	const stack_t *stack = &context->uc_stack;
	uint64_t bytes = arch_vector_bytes(context);
	uint64_t fp = (top - bytes) & ~63ull;
	struct frame *new = (struct frame *)(((fp - sizeof(struct frame)) & ~15ull) - 8);

	/* Too small for it: the kernel would end the program. */
	if (is_on(stack, top - 1) && !is_on(stack, (uintptr_t) new))
		return;
	memcpy((void *)fp, context->uc_mcontext.fpregs, bytes);
	memcpy(new, (char *)context - sizeof(new->restorer), sizeof(*new));
	to->context = (ucontext_t *)new->context;
	to->info = &new->info;
	to->context->uc_mcontext.fpregs = (fpregset_t)fp;
	to->sp = (uintptr_t) new;
	if ((uint32_t)stack->ss_flags & AUTODISARM) {
		const stack_t none = { .ss_flags = SS_DISABLE };

		sys2(SYS_sigaltstack, is_on(stack, (uintptr_t) new) ? &none : stack, NULL);
	}
}

TRAP_PATH static int hand_over(const struct sigaction *action, siginfo_t *info, ucontext_t *context,
			       struct foreign_call *to)
{
	set_mark(info);
	*to = (struct foreign_call){
		.handler = (uintptr_t)action->sa_handler,
		.sp = (uintptr_t)context - sizeof(uint64_t),
		.bp = (uint64_t)context->uc_mcontext.gregs[REG_RBP],
		.info = info,
		.context = context,
	};
	uint64_t top = top_for(context, action->sa_flags);
	if (top)
		move_frame(to, top);
	set_mask(SIG_SETMASK, mask_in_handler(action, context));
	return 1;
}

/* By the kernel: the return address is the first word of the frame. */
TRAP_PATH static int is_from_kernel(const ucontext_t *context, const void *frame)
{
	return (uintptr_t)frame + 2 * sizeof(uint64_t) == (uintptr_t)context;
}

#else

TRAP_PATH static int hand_over(const struct sigaction *action, siginfo_t *info, ucontext_t *context,
			       struct foreign_call *to)
{
	call(action, info, context);
	return 0;
}

TRAP_PATH static int is_from_kernel(const ucontext_t *context, const void *frame)
{
	return 1;
}

#endif

TRAP_PATH int foreign_take(siginfo_t *info, ucontext_t *context, const void *frame, int is_inside,
			   struct foreign_call *to)
{
	struct action *from = is_handed_back(info) ? &trap_first_previous : &trap_previous;
	struct sigaction action;
	int is_sent = !is_forced(info);
	int (*is_held)(const ucontext_t *) = atomic_get(&trap_is_held);

	if (is_sent && sent_waits(info))
		return 0;
	uint64_t version = action_read(from, &action);
	int is_blocked = is_held && is_held(context);

	if (is_sent && (self.keeps_sent || (is_inside && (is_blocked || trap_on_thread_stack)))) {
		keep(info);
		return 0;
	}
	if (is_sent && is_blocked) {
		keep_pending(info, context);
		return 0;
	}
	if (is_blocked || action.sa_handler == SIG_DFL ||
	    (!is_sent && action.sa_handler == SIG_IGN)) {
		die_by_default(context);
		return 0;
	}
	if (action.sa_handler == SIG_IGN)
		return 0;
	if (!is_from_kernel(context, frame)) {
		call(&action, info, context);
		return 0;
	}
	if (action.sa_flags & SA_RESETHAND && !action_reset(from, version)) {
		die_by_default(context); /* another thread was faster */
		return 0;
	}
	return hand_over(&action, info, context, to);
}

TRAP_PATH int foreign_has_kept(void)
{
	return self.has_kept != 0;
}

TRAP_PATH void foreign_send_kept(void)
{
	siginfo_t info;

	if (!self.has_kept || self.keeps_sent)
		return;
	take_kept(&info);
	sent_again(&info);
}

TRAP_PATH int foreign_take_kept(ucontext_t *context, const void *frame, struct foreign_call *to)
{
	siginfo_t info;

	if (!self.has_kept || self.keeps_sent || !is_from_kernel(context, frame))
		return 0;
	take_kept(&info);
	return foreign_take(&info, context, frame, 0, to);
}

void foreign_keep_sent(int on)
{
	self.keeps_sent = on;
	foreign_send_kept();
}

int foreign_keeps_sent(void)
{
	return self.keeps_sent;
}
