/* SPDX-License-Identifier: MIT */
/* arch_regs.h - where each register is, in DWARF order: in a BPF context and in perf samples. */
#ifndef EVENT_ARCH_REGS_H
#define EVENT_ARCH_REGS_H

#include <linux/bpf_perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "record/layout.h"

#if defined(__x86_64__)

#include <asm/perf_regs.h>

#define ARCH_REG_SP 7
#define ARCH_REG_PC 16
#define ARCH_REG_FRAME 6
#define ARCH_REG_ARGUMENT 5	    /* the first one */
#define ARCH_REG_CALLER ARCH_REG_SP /* at a function's first instruction it points to it */
#define ARCH_CALLER_IN_MEMORY 1
/*
 * The flag RF lets an instruction run after its breakpoint; elsewhere the kernel steps, as uprobes
 * do.
 */
#define ARCH_RESUMES_BREAKPOINTS 1
#define ARCH_RED_ZONE 128u /* below sp: not overwritten by signals, so used by leaf functions */

/* String instructions and copy loops. */
#define ARCH_REG_FROM 4
#define ARCH_REG_TO 5
#define ARCH_REG_COUNT 2

/* Offsets in struct pt_regs as the program sees them. */
#define ARCH_PT(reg) (offsetof(struct bpf_perf_event_data, regs) + offsetof(struct pt_regs, reg))
static const int16_t arch_bpf_regs[RECORD_REGS] = {
	ARCH_PT(rax), ARCH_PT(rdx), ARCH_PT(rcx), ARCH_PT(rbx), ARCH_PT(rsi), ARCH_PT(rdi),
	ARCH_PT(rbp), ARCH_PT(rsp), ARCH_PT(r8),  ARCH_PT(r9),	ARCH_PT(r10), ARCH_PT(r11),
	ARCH_PT(r12), ARCH_PT(r13), ARCH_PT(r14), ARCH_PT(r15), ARCH_PT(rip),
};
/* The kernel's accesses to user memory are hits too: the mode shows whose registers these are. */
#define ARCH_KERNEL_HITS 1
#define ARCH_BPF_MODE ARCH_PT(cs)
#define ARCH_MODE_USER 3
#define ARCH_BPF_SYSCALL ARCH_PT(orig_rax) /* -1: the thread is in no system call */
/* At a system call: rcx is lost, and the argument that C has there is in r10. */
static const int16_t arch_syscall_regs[RECORD_REGS] = {
	ARCH_PT(rax), ARCH_PT(rdx), ARCH_PT(r10), ARCH_PT(rbx), ARCH_PT(rsi), ARCH_PT(rdi),
	ARCH_PT(rbp), ARCH_PT(rsp), ARCH_PT(r8),  ARCH_PT(r9),	ARCH_PT(r10), ARCH_PT(r11),
	ARCH_PT(r12), ARCH_PT(r13), ARCH_PT(r14), ARCH_PT(r15), ARCH_PT(rip),
};
#define ARCH_BPF_ARGUMENT ARCH_PT(rdi) /* the first one, also at the end of the call */
static const uint8_t arch_syscall_arguments[6] = { 5, 4, 1, 2, 8, 9 };
/* TS_COMPAT: a system call of the 32-bit interface, which a 64-bit program can make too. */
#define ARCH_COMPAT_MEMBER "status"
#define ARCH_COMPAT_BIT 1

static const uint8_t arch_perf_regs[RECORD_REGS] = {
	PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,	PERF_REG_X86_SI,
	PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,	PERF_REG_X86_R9,
	PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
	PERF_REG_X86_R15, PERF_REG_X86_IP,
};

#elif defined(__aarch64__)

#define ARCH_REG_SP 31
#define ARCH_REG_PC 32
#define ARCH_REG_FRAME 29
#define ARCH_REG_ARGUMENT 0
#define ARCH_REG_CALLER 30 /* at a function's first instruction it is in it */
#define ARCH_CALLER_IN_MEMORY 0
#define ARCH_RESUMES_BREAKPOINTS 0
#define ARCH_RED_ZONE 0u
/* arch/arm64/kernel/hw_breakpoint.c, watchpoint_report(). */
#define ARCH_KERNEL_HITS 0

/* struct user_pt_regs is regs[31], sp, pc: the DWARF order. perf has the same. */
#define R8(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#define O8(n)                                                                                  \
	8 * (n), 8 * (n + 1), 8 * (n + 2), 8 * (n + 3), 8 * (n + 4), 8 * (n + 5), 8 * (n + 6), \
		8 * (n + 7)
static const int16_t arch_bpf_regs[RECORD_REGS] = { O8(0), O8(8), O8(16), O8(24), 8 * 32 };
static const uint8_t arch_perf_regs[RECORD_REGS] = { R8(0), R8(8), R8(16), R8(24), 32 };
#define arch_syscall_regs arch_bpf_regs
#define ARCH_BPF_SYSCALL (8 * 8)   /* x8 */
#define ARCH_BPF_ARGUMENT (8 * 34) /* orig_x0: the result replaces x0 */
static const uint8_t arch_syscall_arguments[6] = { 0, 1, 2, 3, 4, 5 };
/* TIF_32BIT */
#define ARCH_COMPAT_MEMBER "flags"
#define ARCH_COMPAT_BIT 22
#undef R8
#undef O8

#endif

/*
 * The caller's return address: at a function's first instruction where the architecture puts it,
 * elsewhere behind the saved frame pointer, if the code keeps one.
 */
struct arch_caller {
	uint32_t reg;
	int32_t add;
	int in_memory;
};

static inline struct arch_caller arch_caller(int at_entry)
{
	struct arch_caller entry = { ARCH_REG_CALLER, 0, ARCH_CALLER_IN_MEMORY };
	struct arch_caller inside = { ARCH_REG_FRAME, 8, 1 };

	return at_entry ? entry : inside;
}

#endif
