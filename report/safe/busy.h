/* SPDX-License-Identifier: MIT */
/*
 * busy.h - is the command inside code that reads what a target wrote, and does it get on?
 *
 * libdw reads debug information as it is, and some can keep it busy for hours. A function that
 * calls it begins with BUSY; a signal handler sees whether one of them runs, and whether another
 * one began since the last look.
 */
#ifndef REPORT_SAFE_BUSY_H
#define REPORT_SAFE_BUSY_H

#include <signal.h>

extern volatile sig_atomic_t busy_depth; /* functions that run, one within the other */
extern volatile sig_atomic_t busy_steps; /* it changes whenever one begins */

static inline int busy_enter(void)
{
	busy_depth = busy_depth + 1;
	busy_steps = (sig_atomic_t)((unsigned int)busy_steps + 1);
	return 0;
}

static inline void busy_leave(const int *busy)
{
	busy_depth = busy_depth - 1;
}

#define BUSY int busy __attribute__((cleanup(busy_leave), unused)) = busy_enter()

#endif
