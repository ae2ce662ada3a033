/* SPDX-License-Identifier: MIT */
/*
 * heap_death.h - signals that end a program for a fault of its own: what is damaged is reported
 * before.
 *
 * Only where the program has no handler for them. It dies of the same signal, with the same
 * siginfo, at the same location: the core file is as without us.
 */
#ifndef HEAP_DEATH_H
#define HEAP_DEATH_H

#include <signal.h>
#include <stdbool.h>

/* Not in a handler. */
void heap_death_start(void);
/* The signals have their default action again. AS-Safe. */
void heap_death_leave(void);

/*
 * For sigaction(2) of the program: what the kernel gets for the default action, and what the
 * program gets back as the old one. Others are left alone.
 */
void heap_death_to_kernel(int signal, struct sigaction *action);
void heap_death_from_kernel(int signal, struct sigaction *old);

#endif
