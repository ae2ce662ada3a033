/* SPDX-License-Identifier: MIT */
/*
 * window_enter.c - how a window begins: at the return of a call, or at the return of a signal
 * handler.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "code/insn/insn_context.h"
#include "code/window/window.h"

#define SIGNAL_SET_BYTES 8
#define FLAG_TRAP 0x100u
#define FLAG_ALIGNMENT 0x40000u
#define FLAG_DIRECTION 0x400u

/* What window_enter() pushes, and what its call pushed. */
struct enter_frame {
	uint64_t r15, r14, r13, r12, rbx, rbp, pc;
};

long window_enter_at(const struct window_request *request, const struct enter_frame *frame)
	__attribute__((visibility("hidden")));

/* In C it would have no frame of its own to begin from. */
__asm__(".text\n"
	".globl window_enter\n"
	".hidden window_enter\n"
	".type window_enter, @function\n"
	"window_enter:\n\t"
	".cfi_startproc\n\t"
	"pushq %rbp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq %rbx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq %r12\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq %r13\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq %r14\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq %r15\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"movq %rsp, %rsi\n\t"
	"subq $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call window_enter_at\n\t"
	"addq $56, %rsp\n\t"
	".cfi_adjust_cfa_offset -56\n\t"
	"testq %rax, %rax\n\t"
	"js 1f\n\t"
	"jmp *%rax\n"
	"1:\tret\n\t"
	".cfi_endproc\n"
	".size window_enter, . - window_enter\n");

static void set_mask(uint64_t mask)
{
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, SIGNAL_SET_BYTES);
}

/*
 * What the program blocks stays blocked until Trapline's handlers are there: another thread may
 * wait for it by sigwait(3), and here its default action would end the program. *mask is what was.
 * On an error it is again.
 */
static int prepare(struct window_area **out, uint64_t *mask)
{
	const uint64_t blocked = WINDOW_BLOCKED;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, mask, SIGNAL_SET_BYTES);
	int err = window_take(out);
	if (!err)
		err = window_faults_take();
	if (err)
		set_mask(*mask);
	return err;
}

static uint64_t entry_of(const struct window_area *a)
{
	return (uint64_t)(uintptr_t)a->code + a->entry;
}

/* Where to jump, or -errno. */
long window_enter_at(const struct window_request *request, const struct enter_frame *frame)
{
	struct window_area *a = NULL;
	uint64_t mask = 0;
	int err = prepare(&a, &mask);

	if (err)
		return err;
	a->guest_mask = mask;
	memset(a->regs.r, 0, sizeof(a->regs.r));
	a->regs.r[INSN_R15] = frame->r15;
	a->regs.r[INSN_R14] = frame->r14;
	a->regs.r[INSN_R13] = frame->r13;
	a->regs.r[INSN_R12] = frame->r12;
	a->regs.r[INSN_RBX] = frame->rbx;
	a->regs.r[INSN_RBP] = frame->rbp;
	a->regs.r[INSN_RSP] = (uint64_t)(uintptr_t)(frame + 1);
	a->regs.r[INSN_RIP] = frame->pc;
	a->regs.flags = 0x202;
	window_begin(a, request);
	set_mask(WINDOW_BLOCKED);
	return (long)entry_of(a);
}

int window_enter_context(const struct window_request *request, ucontext_t *context)
{
	const uint64_t blocked = WINDOW_BLOCKED;
	greg_t *gregs = context->uc_mcontext.gregs;
	struct window_area *a = NULL;
	uint64_t mask = 0;
	int err;

	if (gregs[REG_EFL] & (FLAG_TRAP | FLAG_ALIGNMENT))
		return -EOPNOTSUPP;
	err = prepare(&a, &mask);
	if (err)
		return err;
	set_mask(mask);
	memcpy(&a->guest_mask, &context->uc_sigmask, sizeof(a->guest_mask));
	memcpy(&context->uc_sigmask, &blocked, sizeof(blocked));
	for (unsigned int i = 0; i <= INSN_RIP; i++)
		a->regs.r[i] = (uint64_t)gregs[insn_context_gregs[i]];
	a->regs.flags = (uint64_t)gregs[REG_EFL];
	window_begin(a, request);
	gregs[REG_EFL] &= ~(greg_t)FLAG_DIRECTION;
	gregs[REG_RIP] = (greg_t)entry_of(a);
	return 0;
}

/* Not inlined: a window ends at its first instruction. */
__attribute__((noinline)) int window_end(void)
{
	const struct window_area *a = window_own();

	return a && a->result.reason == WINDOW_ENDED ? 0 : -ESRCH;
}
