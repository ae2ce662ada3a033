/* SPDX-License-Identifier: MIT */
/*
 * uprobe_nops.h - what a uprobe on a nop does to the stack of the thread that runs it.
 *
 * Linux 6.18 replaces a nop of 5 bytes that has a uprobe by a call, once the first thread has hit
 * it. The call and its target write below the stack pointer (arch/x86/kernel/uprobes.c,
 * arch_uprobe_optimize()). A function that calls no other may keep its variables there, and
 * computes wrong results then.
 */
#ifndef UPROBE_NOPS_H
#define UPROBE_NOPS_H

#include <stdint.h>

/* A shorter nop has no room for a call. A longer one is taken to be as the longest. */
#define UPROBE_NOP_MIN 5
#define UPROBE_NOP_MAX 11

/*
 * Bit n of *writes: under a uprobe, a nop of n bytes writes below the stack pointer. A child asks
 * the kernel.
 */
int uprobe_nops_ask(uint32_t *writes);

/* The same, asked once. If that is not possible, all are taken to write. AS-Unsafe. */
uint32_t uprobe_nops_that_write(void);

#endif
