/* SPDX-License-Identifier: MIT */
/* window_under.h - what has a signal when no window runs. */
#ifndef CODE_WINDOW_WINDOW_UNDER_H
#define CODE_WINDOW_WINDOW_UNDER_H

#include <signal.h>
#include <stddef.h>

#if defined(__x86_64__)

/* The program's handler of a signal that windows have taken; NULL: they have not. */
const void *window_faults_under(unsigned int signal);
/* What sigaction(2) gave as the old action: where a window has the signal, that of the program. */
void window_faults_from_kernel(unsigned int signal, struct sigaction *old);

#else

static inline void window_faults_from_kernel(unsigned int signal, struct sigaction *old)
{
}

static inline const void *window_faults_under(unsigned int signal)
{
	return NULL;
}

#endif

#endif
