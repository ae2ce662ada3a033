/* SPDX-License-Identifier: MIT */
/* stack_call.c - see stack_call.h. */
#include "guest/stack_call.h"

#include <signal.h>
#include <stdint.h>

#include "base/sent.h"
#include "base/shared_signal.h"
#include "base/signal_bit.h"
#include "base/sys.h"

#define ALL (~0ull)
#define RAISED (SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGTRAP))

/* The registers of the thread before, and what is called. On its own stack. */
struct left {
	void (*call)(void *);
	void *arg;
	uint64_t mask;
	stack_t alternate;
	int is_on_alternate;
};

void stack_switch(void *top, void (*call)(void *), void *arg) __attribute__((visibility("hidden")));

/* Its own description for unwinders leads back to the caller. */
__asm__(".text\n"
	"	.p2align 4, 0xcc\n"
	"	.globl stack_switch\n"
	"	.hidden stack_switch\n"
	"	.type stack_switch, @function\n"
	"stack_switch:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	movq %rdi, %rsp\n"
	"	movq %rdx, %rdi\n"
	"	call *%rsi\n"
	"	leave\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size stack_switch, . - stack_switch\n");

static void set_mask(uint64_t mask, uint64_t *before)
{
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, before, sizeof(mask));
}

static void set_alternate(const stack_t *stack)
{
	sys2(SYS_sigaltstack, stack, NULL);
}

/* On Trapline's stack, with all signals blocked at its begin and at its end. */
static void run(void *arg)
{
	static const stack_t none = { .ss_flags = SS_DISABLE };
	const struct left *left = arg;
	struct sent_hold hold;

	if (left->is_on_alternate)
		set_alternate(&none);
	sent_hold(&hold);
	set_mask(left->mask | (ALL & ~RAISED), NULL);
	left->call(left->arg);
	set_mask(ALL, NULL);
	if (left->is_on_alternate)
		set_alternate(&left->alternate);
	sent_let(&hold);
	shared_signal_leave(left->mask);
}

void stack_call(void *top, size_t bytes, void (*call)(void *), void *arg)
{
	struct left left = { .call = call, .arg = arg };
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if ((uintptr_t)top - here < bytes) {
		call(arg);
		return;
	}
	set_mask(ALL, &left.mask);
	sys2(SYS_sigaltstack, NULL, &left.alternate);
	left.is_on_alternate = (left.alternate.ss_flags & SS_ONSTACK) != 0;
	left.alternate.ss_flags &= ~SS_ONSTACK;
	stack_switch(top, run, &left);
	set_mask(left.mask, NULL);
}
