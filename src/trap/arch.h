/* SPDX-License-Identifier: MIT */
/*
 * arch.h - what differs by architecture inside SIGTRAP.
 *
 * To add one, state three things: where pc, sp and the registers are in a ucontext; whether an
 * access has been done when its hit is reported. The third is whether returning from the handler
 * steps past it.
 */
#ifndef TRAP_ARCH_H
#define TRAP_ARCH_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include <trapline/trapline.h>

uint64_t arch_pc(const ucontext_t *context);
uint64_t arch_sp(const ucontext_t *context);

/* DWARF register number to value; -EINVAL when there is none. */
int arch_register(const ucontext_t *context, unsigned int number, uint64_t *out);

/* Bytes of the vector registers in the frame of a signal; 0: not known. AS-Safe. */
uint64_t arch_vector_bytes(const ucontext_t *context);

/*
 * The low 16 bytes of a vector register, from the area that was saved. -ENODATA: none was;
 * -EINVAL: no such register. AS-Safe.
 */
int arch_vector(const ucontext_t *context, unsigned int number, uint64_t out[2]);

/*
 * The low 8 bytes. Where no area was saved yet, the thread still has its registers: see
 * probe_entry.h. AS-Safe.
 */
int arch_vector_word(const ucontext_t *context, unsigned int number, uint64_t *out);

/* 1: at the hit the access has happened already; 0: it comes next. */
int arch_done(uint32_t access);

/* 1: a SIGTRAP with this si_code is that of a breakpoint instruction. */
int arch_is_trap_code(int32_t code);

/* 1: a breakpoint instruction whose trap has SI_KERNEL is before pc. */
int arch_is_at_breakpoint(const ucontext_t *context);

/*
 * 1: a debug exception whose cause was lost. Hypervisors lose it when they stop the CPU between a
 * hit and its report. Linux takes it for an INT1 instruction, which is before pc if there is one. A
 * hit may be lost with it; a breakpoint in code hits again, because its instruction has not run.
 */
int arch_has_lost_cause(const siginfo_t *info, const ucontext_t *context);

/*
 * 1: after the handler the thread continues past the access. 0: it would trap again, forever
 * (arm64: the kernel's single step is spent on the handler's first instruction), so the handler
 * takes it past: see past.h.
 */
int arch_steps_past(uint32_t access);

#endif
