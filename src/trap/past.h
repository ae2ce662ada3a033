/* SPDX-License-Identifier: MIT */
/*
 * past.h - taking a thread past the instruction that hit, where a return would hit again.
 *
 * arm64 reports before the access. The kernel steps over it with the watchpoints of that thread
 * off, unless a signal comes. Then the step ends at the handler's first instruction, the
 * watchpoints are on again, and the access hits after each return. So the handler executes it: a
 * copy, with the registers of the context. With SIGTRAP blocked the copy's own hit starts no
 * handler, and the kernel steps over that one. Other threads are armed all the time. The kernel
 * counts the copy's hit too: account_step() takes that away again.
 */
#ifndef TRAP_PAST_H
#define TRAP_PAST_H

#include <stdint.h>
#include <ucontext.h>

/* Memory for the copies, in this process. 0 or -errno. Not AS-Safe. */
int past_prepare(void);
/* Can a thread be taken past the instruction at a breakpoint there? 0, or -EOPNOTSUPP with *why. */
int past_can(uint64_t address, const char **why);

struct past {
	uint64_t access; /* address of the operand; 0: none */
	uint64_t data;	 /* sig_data of the copy's hit */
	int is_hit;	 /* it had one */
};
/*
 * In the handler, with the thread at the instruction. 0: the context is behind it; -EOPNOTSUPP: an
 * exclusive access, a scalable vector, a system call, or no more room for copies. AS-Safe.
 */
int past_instruction(ucontext_t *context, int is_breakpoint, struct past *out);

#endif
