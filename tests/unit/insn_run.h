/* SPDX-License-Identifier: MIT */
/*
 * insn_run.h - run one x86-64 instruction for real, with all registers given and taken back.
 *
 * The oracle of the decoder's effects and of copies. The code under test leaves through one of a few doors
 * (run_door()), which says where it went. A fault comes back as its signal.
 */
#ifndef TESTS_INSN_RUN_H
#define TESTS_INSN_RUN_H

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "code/insn/insn.h"

#define RUN_DOORS 4
#define RUN_DOOR_BYTES 14
/* Arithmetic flags: others belong to the system or would break the harness. */
#define RUN_FLAGS 0x8d5u

/* In the order that the assembly below uses: DWARF. */
extern uint64_t run_regs[18]; /* r[0] to r[15], unused, flags */
extern uint64_t run_host_sp;
extern uint64_t run_entry;
extern uint32_t run_left_by;
extern uint8_t run_fpu[512]; /* x87 and SSE, as fxsave has them: given and taken back */
extern uint8_t run_fpu_host[512];
extern void run_enter(void);
extern void run_door_0(void);
extern void run_door_1(void);
extern void run_door_2(void);
extern void run_door_3(void);

__asm__(".pushsection .data\n"
	".balign 16\n"
	"run_fpu: .skip 512\n"
	"run_fpu_host: .skip 512\n"
	".globl run_regs, run_host_sp, run_entry, run_left_by, run_fpu, run_fpu_host\n"
	"run_regs: .skip 144\n"
	"run_host_sp: .skip 8\n"
	"run_entry: .skip 8\n"
	"run_left_by: .skip 8\n"
	".popsection\n"
	".pushsection .text\n"
	".globl run_enter, run_door_0, run_door_1, run_door_2, run_door_3\n"
	"run_enter:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, run_host_sp(%rip)\n"
	"	fxsave run_fpu_host(%rip)\n"
	"	fxrstor run_fpu(%rip)\n"
	"	pushq run_regs+136(%rip)\n"
	"	popfq\n"
	"	mov run_regs+0(%rip), %rax\n"
	"	mov run_regs+8(%rip), %rdx\n"
	"	mov run_regs+16(%rip), %rcx\n"
	"	mov run_regs+24(%rip), %rbx\n"
	"	mov run_regs+32(%rip), %rsi\n"
	"	mov run_regs+40(%rip), %rdi\n"
	"	mov run_regs+48(%rip), %rbp\n"
	"	mov run_regs+56(%rip), %rsp\n"
	"	mov run_regs+64(%rip), %r8\n"
	"	mov run_regs+72(%rip), %r9\n"
	"	mov run_regs+80(%rip), %r10\n"
	"	mov run_regs+88(%rip), %r11\n"
	"	mov run_regs+96(%rip), %r12\n"
	"	mov run_regs+104(%rip), %r13\n"
	"	mov run_regs+112(%rip), %r14\n"
	"	mov run_regs+120(%rip), %r15\n"
	"	jmp *run_entry(%rip)\n"
	"run_door_0:\n"
	"	movl $0, run_left_by(%rip)\n"
	"	jmp run_leave\n"
	"run_door_1:\n"
	"	movl $1, run_left_by(%rip)\n"
	"	jmp run_leave\n"
	"run_door_2:\n"
	"	movl $2, run_left_by(%rip)\n"
	"	jmp run_leave\n"
	"run_door_3:\n"
	"	movl $3, run_left_by(%rip)\n"
	"run_leave:\n"
	"	mov %rax, run_regs+0(%rip)\n"
	"	mov %rdx, run_regs+8(%rip)\n"
	"	mov %rcx, run_regs+16(%rip)\n"
	"	mov %rbx, run_regs+24(%rip)\n"
	"	mov %rsi, run_regs+32(%rip)\n"
	"	mov %rdi, run_regs+40(%rip)\n"
	"	mov %rbp, run_regs+48(%rip)\n"
	"	mov %rsp, run_regs+56(%rip)\n"
	"	mov %r8, run_regs+64(%rip)\n"
	"	mov %r9, run_regs+72(%rip)\n"
	"	mov %r10, run_regs+80(%rip)\n"
	"	mov %r11, run_regs+88(%rip)\n"
	"	mov %r12, run_regs+96(%rip)\n"
	"	mov %r13, run_regs+104(%rip)\n"
	"	mov %r14, run_regs+112(%rip)\n"
	"	mov %r15, run_regs+120(%rip)\n"
	"	mov run_host_sp(%rip), %rsp\n"
	"	pushfq\n"
	"	popq run_regs+136(%rip)\n"
	"	fxsave run_fpu(%rip)\n"
	"	fxrstor run_fpu_host(%rip)\n"
	"	cld\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".popsection\n");

static sigjmp_buf run_fault;
static volatile uint64_t run_fault_address;
static volatile sig_atomic_t run_inside;

static void run_on_fault(int signal, siginfo_t *info, void *context)
{
	if (!run_inside) {
		/* Not the code under test: die of it. */
		struct sigaction dfl = { .sa_handler = SIG_DFL };
		sigaction(signal, &dfl, NULL);
		return;
	}
	run_fault_address = (uint64_t)(uintptr_t)info->si_addr;
	siglongjmp(run_fault, signal);
}

static inline void run_setup(void)
{
	static uint8_t stack[65536];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	const struct sigaction action = { .sa_sigaction = run_on_fault,
					  .sa_flags = SA_ONSTACK | SA_SIGINFO };

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
}

/* A jump out through door n, without touching register or flag. */
static inline void run_door(uint8_t *at, unsigned int n)
{
	void (*const doors[])(void) = { run_door_0, run_door_1, run_door_2, run_door_3 };
	const uint64_t target = (uint64_t)(uintptr_t)doors[n];

	memcpy(at, "\xff\x25\0\0\0\0", 6);
	memcpy(at + 6, &target, 8);
}

/* Pages for code or data, at hint when that is free. */
static inline void *run_map(uintptr_t hint, size_t bytes)
{
	void *p = mmap((void *)hint, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* A plain state of the x87 and SSE, with something in the registers. */
static inline void run_fresh_fpu(void)
{
	static const uint16_t control = 0x37f;
	static const uint32_t mxcsr = 0x1f80;

	memset(run_fpu, 0, sizeof(run_fpu));
	memcpy(run_fpu, &control, sizeof(control));
	memcpy(run_fpu + 24, &mxcsr, sizeof(mxcsr));
	for (unsigned int i = 160; i < 416; i++)
		run_fpu[i] = (uint8_t)(i * 7);
}

/* Runs from regs->r[INSN_RIP]. Returns the door, or minus the signal; regs is as after. */
static inline int run_native(struct insn_regs *regs)
{
	memcpy(run_regs, regs->r, 16 * sizeof(uint64_t));
	run_regs[17] = (regs->flags & RUN_FLAGS) | 0x202;
	run_entry = regs->r[INSN_RIP];
	run_fresh_fpu();
	const int signal = sigsetjmp(run_fault, 1);
	if (signal) {
		run_inside = 0;
		return -signal;
	}
	run_inside = 1;
	run_enter();
	run_inside = 0;
	memcpy(regs->r, run_regs, 16 * sizeof(uint64_t));
	regs->flags = run_regs[17];
	return (int)run_left_by;
}

#endif
