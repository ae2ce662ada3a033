/* SPDX-License-Identifier: MIT */
/* window_under.h - what has a signal when no window runs. */
#ifndef CODE_WINDOW_WINDOW_UNDER_H
#define CODE_WINDOW_WINDOW_UNDER_H

#include <stddef.h>

#if defined(__x86_64__)

/* The program's handler of a signal that windows have taken; NULL: they have not. */
const void *window_faults_under(unsigned int signal);

#else

static inline const void *window_faults_under(unsigned int signal)
{
	return NULL;
}

#endif

#endif
