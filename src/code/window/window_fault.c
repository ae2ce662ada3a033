/* SPDX-License-Identifier: MIT */
/*
 * window_fault.c - faults in a window become the program's own, and the way out of a window.
 *
 * While any window runs, the actions of four signals are ours. A fault in the cache, and the pad that
 * ends a window, go on at the program's own instruction with its own registers and signal mask. An
 * instruction that faulted faults there again, natively: the program's handler meets what it would
 * have met without a window.
 *
 * A signal of another thread, or one that was sent, is not ours: the program's action is put back and
 * the instruction runs again. A window that runs meanwhile takes the action again: window_faults_renew().
 *
 * Rules of the lock: it is held for a few system calls, with all signals blocked, and never while another
 * one is awaited. Its value is the process: a forked child finds it free.
 */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn_context.h"
#include "code/window/window_call.h"

#define SIGNAL_SET_BYTES 8
#define SA_RESTORER_BIT 0x04000000u
#define OWNED 4

struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static const uint8_t owned[OWNED] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
static struct kernel_action previous[OWNED];
static uint32_t is_ours[OWNED];
static uint32_t users;
static pid_t lock;

/* The bytes by which unwinders know the frame of a signal. */
__asm__(".text\n"
	".type window_restorer, @function\n"
	"window_restorer:\n\t"
	"movq $15, %rax\n\t"
	"syscall\n"
	".size window_restorer, . - window_restorer\n");
extern const char window_restorer[] __attribute__((visibility("hidden")));

TRAP_PATH static void take_lock(void)
{
	const pid_t pid = sys_getpid();
	pid_t holder = 0;

	while (!atomic_cas(&lock, &holder, pid)) {
		/* A lock of the parent has no holder here. */
		if (holder != pid)
			continue;
		sys_sched_yield();
		holder = 0;
	}
}

TRAP_PATH static void give_lock(void)
{
	atomic_set(&lock, 0);
}

TRAP_PATH static int act(int signal, const struct kernel_action *action, struct kernel_action *old)
{
	return (int)sys4(SYS_rt_sigaction, signal, action, old, SIGNAL_SET_BYTES);
}

TRAP_PATH static int number_of(unsigned int signal)
{
	for (int i = 0; i < OWNED; i++)
		if (owned[i] == signal)
			return i;
	return -1;
}

TRAP_PATH static void on_fault(int sig, siginfo_t *info, void *context);

TRAP_PATH static int take_signal(int i)
{
	const struct kernel_action ours = {
		.handler = on_fault,
		.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER_BIT,
		.restorer = (void *)(uintptr_t)window_restorer,
		.mask = UINT64_MAX,
	};
	struct kernel_action before;
	int err = act(owned[i], &ours, &before);

	if (err)
		return err;
	if (before.handler != on_fault)
		previous[i] = before;
	is_ours[i] = 1;
	return 0;
}

/* Unless the program has set another action meanwhile. */
TRAP_PATH static void give_signal(int i)
{
	struct kernel_action now;

	is_ours[i] = 0;
	if (!act(owned[i], NULL, &now) && now.handler == on_fault)
		act(owned[i], &previous[i], NULL);
}

TRAP_PATH int window_faults_take(void)
{
	int err = 0;

	take_lock();
	for (int i = 0; !err && i < OWNED && !users; i++)
		err = take_signal(i);
	users += !err;
	give_lock();
	return err;
}

TRAP_PATH void window_faults_release(void)
{
	take_lock();
	users--;
	for (int i = 0; i < OWNED && !users; i++)
		give_signal(i);
	give_lock();
}

TRAP_PATH void window_faults_renew(void)
{
	if (atomic_get(&is_ours[0]) && atomic_get(&is_ours[1]) && atomic_get(&is_ours[2]) &&
	    atomic_get(&is_ours[3]))
		return;
	take_lock();
	for (int i = 0; i < OWNED; i++)
		if (!is_ours[i])
			take_signal(i);
	give_lock();
}

TRAP_PATH int window_faults_own(unsigned int signal)
{
	return number_of(signal) >= 0;
}

TRAP_PATH void window_faults_yield(unsigned int signal)
{
	take_lock();
	give_signal(number_of(signal));
	give_lock();
}

TRAP_PATH void window_faults_retake(unsigned int signal)
{
	take_lock();
	take_signal(number_of(signal));
	give_lock();
}

/* Of the program: it comes again, to the program's own action. */
TRAP_PATH static void give_back(int sig, siginfo_t *info)
{
	take_lock();
	give_signal(number_of((unsigned int)sig));
	give_lock();
	if (info->si_code <= 0)
		sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, info);
}

/* ---- out of a window ---- */

TRAP_PATH static void go_on(struct window_area *a, ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)a->result.pc;
	memcpy(&context->uc_sigmask, &a->guest_mask, sizeof(a->guest_mask));
	a->is_active = 0;
	window_faults_release();
}

/* Blocks lie in the order of their numbers. */
TRAP_PATH static const struct window_block *block_of(const struct window_area *a, uint32_t code)
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

TRAP_PATH static const struct window_mark *mark_of(const struct window_area *a,
						   const struct window_block *block, uint32_t code)
{
	uint32_t mark = block->mark;

	while (mark + 1 < a->marks_used && a->marks[mark + 1].code <= code)
		mark++;
	return &a->marks[mark];
}

TRAP_PATH static void take_fault(struct window_area *a, uint32_t code, ucontext_t *context)
{
	greg_t *gregs = context->uc_mcontext.gregs;
	const struct window_block *block = block_of(a, code);
	const struct window_mark *mark = mark_of(a, block, code);

	if (mark->saved & WINDOW_SAVED_RAX)
		gregs[REG_RAX] = (greg_t)a->spill_rax;
	if (mark->saved & WINDOW_SAVED_RCX)
		gregs[REG_RCX] = (greg_t)a->spill_rcx;
	if (mark->saved & WINDOW_SAVED_RDX)
		gregs[REG_RDX] = (greg_t)a->spill_rdx;
	if (mark->saved & WINDOW_SAVED_OTHER)
		gregs[insn_context_gregs[mark->other]] = (greg_t)a->spill_other;
	a->left += block->insns - mark->done;
	window_finish(a, block->guest + mark->offset, WINDOW_FAULT);
}

TRAP_PATH static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	const uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	struct window_area *a = window_own();

	if (!a || !a->is_active || info->si_code <= 0) {
		give_back(sig, info);
		return;
	}
	const uint64_t code = pc - (uint64_t)(uintptr_t)a->code;
	if (code < WINDOW_CODE_BYTES) {
		if (code != a->pad)
			take_fault(a, (uint32_t)code, uc);
		go_on(a, uc);
	} else if (pc == (uint64_t)(uintptr_t)window_read_at) {
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)window_read_failed;
	} else {
		give_back(sig, info);
	}
}
