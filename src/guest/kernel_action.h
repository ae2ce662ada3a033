/* SPDX-License-Identifier: MIT */
/*
 * kernel_action.h - sigaction(2) as the kernel has it, without libc: the agent is before that one.
 */
#ifndef GUEST_KERNEL_ACTION_H
#define GUEST_KERNEL_ACTION_H

#include <signal.h>
#include <stdint.h>

#define KERNEL_ACTION_RESTORER 0x04000000 /* SA_RESTORER, which libc sets */

struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* With a restorer that unwinders know. Both may be NULL. 0 or -errno. AS-Safe. */
int kernel_action(int signal, const struct kernel_action *action, struct kernel_action *old);
void kernel_action_set_default(int signal);

void kernel_action_from(const struct kernel_action *action, struct sigaction *out);
void kernel_action_to(const struct sigaction *action, struct kernel_action *out);

/* As sigaction(2), with its errno. */
int kernel_sigaction(int signal, const struct sigaction *action, struct sigaction *old);

#endif
