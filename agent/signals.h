/* SPDX-License-Identifier: MIT */
/* signals.h - see signals.c. */
#ifndef AGENT_SIGNALS_H
#define AGENT_SIGNALS_H

#include <signal.h>

/* Before the search starts: SIGTRAP may be blocked from the program's parent. */
void signals_prepare(void);
/* From now on SIGTRAP is kept from the program, or not. Off while our own handler is put in place. */
void signals_are_ours(int are);

/* The set without SIGTRAP where that is ours: *without, or set itself. */
const sigset_t *signals_without_trap(const sigset_t *set, sigset_t *without);

#endif
