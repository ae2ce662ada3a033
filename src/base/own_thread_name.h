/* SPDX-License-Identifier: MIT */
/*
 * own_thread_name.h - how a thread of Trapline is known in a process that is not Trapline's, also
 * from outside.
 */
#ifndef BASE_OWN_THREAD_NAME_H
#define BASE_OWN_THREAD_NAME_H

/* At most 15 bytes each. */
#include <string.h>

#define OWN_THREAD_PREFIX "trapline-"
#define OWN_THREAD_WORKS OWN_THREAD_PREFIX "guest"
/* What it was loaded for is over; it waits until the program has no block of Trapline any more. */
#define OWN_THREAD_RESTS OWN_THREAD_PREFIX "rests"

/* By the name in /proc. The first thread of a process is never Trapline's. */
static inline int own_thread_has_name(const char *name)
{
	return !strncmp(name, OWN_THREAD_PREFIX, strlen(OWN_THREAD_PREFIX));
}

#endif
