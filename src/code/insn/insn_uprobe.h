/* SPDX-License-Identifier: MIT */
/* insn_uprobe.h - instructions on which the kernel sets no uprobe, and those that it replaces. */
#ifndef INSN_UPROBE_H
#define INSN_UPROBE_H

#include <stddef.h>

/* Not refused, but executed wrongly: it has a VEX, EVEX or XOP prefix. */
#define INSN_UPROBE_VECTOR 0x200

/*
 * Why the kernel would refuse a uprobe at bytes, as a number: two instructions of one number are
 * refused for one reason. 0: nothing speaks against it. It is a guess: the kernel has the last
 * word, except for INSN_UPROBE_VECTOR.
 *
 * The kernel looks up the opcode alone, also behind such a prefix, where the same number means
 * another instruction (arch/x86/kernel/uprobes.c, branch_setup_xol_ops() and
 * arch_uprobe_analyze_insn(), seen in 6.18). So vpbroadcastb (7a, as jp) and vpor (eb, as jmp) do
 * nothing, and after vcmpps (c2, as ret) the thread continues at a wrong address. memset() of glibc
 * begins with vpbroadcastb where the processor has AVX-512.
 */
unsigned int insn_uprobe_refusal_x86_64(const void *bytes, size_t available);

/*
 * The length of the instruction if all it does is to move the program counter, else 0. Kernels
 * replace some of these under a uprobe (event/uprobe/uprobe_nops.h). Some that do something are
 * found too, such as a lea that doubles a register: none is forgotten that insn_is_nop() of
 * arch/x86/lib/insn.c takes.
 */
unsigned int insn_uprobe_nop_x86_64(const void *bytes, size_t available);

#endif
