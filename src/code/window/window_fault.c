/* SPDX-License-Identifier: MIT */
/*
 * window_fault.c - signals in a window become the program's own, and the way out of a window.
 *
 * A fault in the cache, and the pad that ends a window, continue at the program's own instruction
 * with its own registers and signal mask. An instruction that faulted faults there again, natively:
 * the program's handler meets what it would have met without a window.
 *
 * A watch or a seccomp filter raises its signal after the instruction: that does not come again. So
 * the context is made the one behind the instruction, the window ends, and the program's handler is
 * called. What was sent comes at any instruction: it waits for the end of the window.
 *
 * A blocking call can be left to the processor: the thread executes its own instruction natively,
 * in single-step, and the window continues after it. See window_call.c.
 */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sent.h"
#include "base/shared_signal.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn_context.h"
#include "code/window/window_call.h"

#define PERF_CODE 6 /* TRAP_PERF of <asm-generic/siginfo.h> */
#define PERF_FLAGS_AT 36
#define PERF_ASYNC 1u
#define PUSHED_BYTES 8u

/* ---- out of a window ---- */

/* To the process if it was sent to that: the thread may block it, and another one wait for it. */
TRAP_PATH static void send_held(struct window_area *a)
{
	for (unsigned int i = 0; i < a->held_count; i++)
		sent_again(&a->held[i]);
	a->held_count = 0;
}

TRAP_PATH static void go_on(struct window_area *a, ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)a->result.pc;
	memcpy(&context->uc_sigmask, &a->guest_mask, sizeof(a->guest_mask));
	send_held(a);
	a->is_active = WINDOW_IDLE;
	if (a->request.ended)
		a->request.ended(a);
	window_faults_release();
	shared_signal_leave(a->guest_mask);
}

/* To the system call, which the thread executes itself. */
TRAP_PATH static void suspend(struct window_area *a, ucontext_t *context)
{
	greg_t *gregs = context->uc_mcontext.gregs;

	gregs[REG_RIP] = (greg_t)a->step_pc;
	gregs[REG_EFL] |= WINDOW_TRAP_FLAG;
	a->step_flags = (uint64_t)gregs[REG_EFL];
	a->step_sp = (uint64_t)gregs[REG_RSP];
	memcpy(&context->uc_sigmask, &a->guest_mask, sizeof(a->guest_mask));
	a->is_active = WINDOW_SUSPENDED;
	shared_signal_leave(a->guest_mask);
}

/* After it, and one more instruction: by the gate that saves all registers. */
TRAP_PATH static void resume(struct window_area *a, ucontext_t *context)
{
	const uint64_t blocked = WINDOW_BLOCKED;
	greg_t *gregs = context->uc_mcontext.gregs;

	gregs[REG_EFL] &= ~(greg_t)WINDOW_TRAP_FLAG;
	if (gregs[REG_R11] == (greg_t)a->step_flags)
		gregs[REG_R11] &= ~(greg_t)WINDOW_TRAP_FLAG;
	memcpy(&a->guest_mask, &context->uc_sigmask, sizeof(a->guest_mask));
	memcpy(&context->uc_sigmask, &blocked, sizeof(blocked));
	a->target = (uint64_t)gregs[REG_RIP];
	a->site = 0;
	a->is_active = WINDOW_ACTIVE;
	gregs[REG_RIP] = (greg_t)(uintptr_t)(a->code + a->save);
}

/* The fault of a window that another one has replaced in the meantime, in a handler. */
TRAP_PATH static void forget_step(struct window_area *a, ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)WINDOW_TRAP_FLAG;
	a->was_abandoned = 0;
	window_faults_release();
}

/* ---- where it happened ---- */

/* Blocks lie in the order of their numbers. */
TRAP_PATH const struct window_block *window_block_of(const struct window_area *a, uint32_t code)
{
	uint32_t low = 1;
	uint32_t high = a->blocks_used;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (a->blocks[middle].code <= code)
			low = middle;
		else
			high = middle;
	}
	return &a->blocks[low];
}

TRAP_PATH const struct window_mark *window_mark_of(const struct window_area *a,
						   const struct window_block *block, uint32_t code)
{
	uint32_t mark = block->mark;

	while (mark + 1 < a->marks_used && a->marks[mark + 1].code <= code)
		mark++;
	return &a->marks[mark];
}

TRAP_PATH static void restore_spilled(const struct window_area *a, const struct window_mark *mark,
				      greg_t *gregs)
{
	if (mark->saved & WINDOW_SAVED_RAX)
		gregs[REG_RAX] = (greg_t)a->spill_rax;
	if (mark->saved & WINDOW_SAVED_RCX)
		gregs[REG_RCX] = (greg_t)a->spill_rcx;
	if (mark->saved & WINDOW_SAVED_RDX)
		gregs[REG_RDX] = (greg_t)a->spill_rdx;
	if (mark->saved & WINDOW_SAVED_OTHER)
		gregs[insn_context_gregs[mark->other]] = (greg_t)a->spill_other;
}

TRAP_PATH static void take_fault(struct window_area *a, uint32_t code, ucontext_t *context)
{
	const struct window_block *block = window_block_of(a, code);
	const struct window_mark *mark = window_mark_of(a, block, code);

	restore_spilled(a, mark, context->uc_mcontext.gregs);
	a->left += block->insns - mark->done;
	window_finish(a, block->guest + mark->offset, WINDOW_FAULT);
}

/* The fault of an indirect branch whose target was read. 0: it is to be executed again. */
TRAP_PATH static int finish_branch(const struct window_block *block, const struct window_mark *mark,
				   greg_t *gregs)
{
	const uint64_t next = block->guest + mark->offset + mark->aux;
	const uint64_t at = (uint64_t)gregs[REG_RSP] - PUSHED_BYTES;

	if (mark->other == INSN_RETURN)
		gregs[REG_RSP] += (greg_t)mark->aux;
	if (mark->other != INSN_CALL_INDIRECT)
		return 1;
	if (window_read((void *)at, (uint64_t)(uintptr_t)&next, PUSHED_BYTES) != PUSHED_BYTES)
		return 0;
	gregs[REG_RSP] = (greg_t)at;
	return 1;
}

/* Behind the instruction that did it. */
TRAP_PATH static void take_trap(struct window_area *a, uint32_t code, ucontext_t *context)
{
	greg_t *gregs = context->uc_mcontext.gregs;
	const struct window_block *block = window_block_of(a, code);
	const struct window_mark *mark = window_mark_of(a, block, code);
	const uint64_t target = (uint64_t)gregs[REG_RAX];
	uint64_t pc = block->guest + mark->offset;
	int done = mark->done;

	restore_spilled(a, mark, gregs);
	if (mark->saved & WINDOW_AT_TARGET && finish_branch(block, mark, gregs)) {
		pc = target;
		done++;
	}
	if (mark->saved & WINDOW_AT_LOOKUP)
		pc = target;
	if (mark->saved & WINDOW_AT_CALL)
		pc = a->sites[mark->aux].guest;
	if (mark->saved & WINDOW_AT_SYSCALL)
		gregs[REG_RCX] = (greg_t)pc;
	a->left += block->insns - done;
	window_finish(a, pc, WINDOW_TRAP);
}

/* ---- the handler ---- */

/* It comes at any instruction, perhaps of Trapline: so it waits. */
TRAP_PATH static int is_sent(int sig, const siginfo_t *info)
{
	uint32_t flags;

	if (info->si_code <= 0 || (sig == SIGTRAP && info->si_code == SI_KERNEL))
		return 1;
	if (sig != SIGTRAP || info->si_code != PERF_CODE)
		return 0;
	memcpy(&flags, (const char *)info + PERF_FLAGS_AT, sizeof(flags));
	return (flags & PERF_ASYNC) != 0;
}

/* One of a kind waits, as in the kernel. */
TRAP_PATH static void hold(struct window_area *a, const siginfo_t *info)
{
	for (unsigned int i = 0; i < a->held_count; i++)
		if (a->held[i].si_signo == info->si_signo)
			return;
	if (a->held_count < WINDOW_HELD)
		a->held[a->held_count++] = *info;
}

/* 1: the context is the program's, and so is the signal. */
TRAP_PATH static int leave_by(struct window_area *a, int sig, siginfo_t *info, uint32_t code,
			      ucontext_t *context)
{
	const uint64_t mask = a->guest_mask;

	if (code < a->kept || a->blocks_used < 2) {
		hold(a, info);
		return 0;
	}
	if (sig != SIGTRAP && sig != SIGSYS) {
		take_fault(a, code, context);
		go_on(a, context);
		return 0;
	}
	take_trap(a, code, context);
	if (sig == SIGSYS)
		info->si_call_addr = (void *)(uintptr_t)a->result.pc;
	/* Natively it would wait for the end of the block. */
	if (sig == SIGTRAP && mask & WINDOW_SIGNAL_BIT(SIGTRAP))
		hold(a, info);
	go_on(a, context);
	return !(sig == SIGTRAP && mask & WINDOW_SIGNAL_BIT(SIGTRAP));
}

/* The instruction is done, and what it did was seen. */
TRAP_PATH static int is_own_watch(const struct window_area *a, int sig, const siginfo_t *info)
{
	return sig == SIGTRAP && info->si_code == PERF_CODE && a->request.owns_watch &&
	       a->request.owns_watch((uint64_t)(uintptr_t)info->si_addr);
}

/* 1: it is the program's. */
TRAP_PATH static int in_window(struct window_area *a, int sig, siginfo_t *info, ucontext_t *context)
{
	const uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	const uint64_t code = pc - (uint64_t)(uintptr_t)a->code;

	if (is_own_watch(a, sig, info))
		return 0;
	if (is_sent(sig, info)) {
		hold(a, info);
		return 0;
	}
	if (code >= WINDOW_CODE_BYTES) {
		if (pc != (uint64_t)(uintptr_t)window_read_at)
			return 1;
		context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)window_read_failed;
		return 0;
	}
	if (code != a->pad_trap)
		return leave_by(a, sig, info, (uint32_t)code, context);
	context->uc_mcontext.gregs[REG_RSP] = (greg_t)a->regs.r[INSN_RSP];
	if (a->step_pc)
		suspend(a, context);
	else
		go_on(a, context);
	a->step_pc = 0;
	return 0;
}

TRAP_PATH static int is_step(const struct window_area *a, int sig, const siginfo_t *info,
			     const ucontext_t *context)
{
	return sig == SIGTRAP && info->si_code == TRAP_TRACE &&
	       context->uc_mcontext.gregs[REG_EFL] & WINDOW_TRAP_FLAG &&
	       (a->is_active == WINDOW_SUSPENDED || a->was_abandoned);
}

TRAP_PATH void window_on_signal(int sig, siginfo_t *info, void *arg)
{
	const void *frame = __builtin_frame_address(0);
	struct window_area *a = window_own();
	ucontext_t *context = arg;

	if (a && a->is_active == WINDOW_ACTIVE) {
		if (!in_window(a, sig, info, context))
			return;
	} else if (a && is_step(a, sig, info, context)) {
		if (a->is_active == WINDOW_SUSPENDED)
			resume(a, context);
		else
			forget_step(a, context);
		return;
	}
	window_pass_on(sig, info, context, frame);
}
