/* SPDX-License-Identifier: MIT */
/* uprobe_vector.h - instructions that the kernel executes wrongly under a uprobe. */
#ifndef UPROBE_VECTOR_H
#define UPROBE_VECTOR_H

#include "event/uprobe/uprobe_exits.h"

/*
 * x86: the kernel looks at the opcode alone, also behind a VEX, EVEX or XOP prefix, where the same
 * number means another instruction (arch/x86/kernel/uprobes.c, branch_setup_xol_ops() and
 * arch_uprobe_analyze_insn(), seen in 6.18). So vpbroadcastb (opcode 7a, jp) and vpor (eb, jmp) are
 * left out as jumps that go nowhere, and vcmpps (c2, ret) goes on at a wrong address. memset() of
 * glibc begins with vpbroadcastb where the processor has AVX-512.
 *
 * Whether one of the sites, sorted by file, has such a prefix: 1, 0 or -errno.
 */
int uprobe_any_vector(const struct uprobe_site *sites, size_t count);

#endif
