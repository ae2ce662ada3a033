/* SPDX-License-Identifier: MIT */
/* insn_uprobe.h - instructions on which the kernel sets no uprobe. */
#ifndef INSN_UPROBE_H
#define INSN_UPROBE_H

#include <stddef.h>

/*
 * Why the kernel would refuse a uprobe at bytes, as a number: two instructions of one number are refused
 * for one reason. 0: nothing speaks against it. It is a guess: the kernel has the last word.
 */
unsigned int insn_uprobe_refusal_x86_64(const void *bytes, size_t available);

#endif
