/* SPDX-License-Identifier: MIT */
/*
 * insn_context.h - the registers of a signal frame as a register set.
 *
 * Inside the handler of the thread itself: the base of fs is not in the frame, so it is asked from
 * the thread that runs. That of gs is not known. Vector registers stay in the frame.
 */
#ifndef INSN_CONTEXT_H
#define INSN_CONTEXT_H

#include <ucontext.h>

#include "code/insn/insn.h"

#if defined(__x86_64__)

static const uint8_t insn_context_gregs[17] = {
	REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
	REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
};

static inline void insn_regs_from_context(const ucontext_t *context, struct insn_regs *out)
{
	for (unsigned int i = 0; i <= INSN_RIP; i++)
		out->r[i] = (uint64_t)context->uc_mcontext.gregs[insn_context_gregs[i]];
	out->flags = (uint64_t)context->uc_mcontext.gregs[REG_EFL];
	/* The ABI keeps the thread's own address at fs:0. */
	out->fs_base = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	out->gs_base = 0;
	out->known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS | INSN_KNOWS_FS;
}

#elif defined(__aarch64__)

static inline void insn_regs_from_context(const ucontext_t *context, struct insn_regs *out)
{
	for (unsigned int i = 0; i < 31; i++)
		out->r[i] = context->uc_mcontext.regs[i];
	out->r[INSN_ARM64_SP] = context->uc_mcontext.sp;
	out->r[INSN_ARM64_PC] = context->uc_mcontext.pc;
	out->flags = context->uc_mcontext.pstate;
	out->fs_base = 0;
	out->gs_base = 0;
	out->known = INSN_KNOWS_ARM64 | INSN_KNOWS_FLAGS;
}

#endif

#endif
