/* SPDX-License-Identifier: MIT */
/* limit.h - the limit of descriptors: each event takes one in each thread. */
#ifndef EVENT_LIMIT_H
#define EVENT_LIMIT_H

#include <stddef.h>

/* None is left: a higher limit. 0 or -EMFILE. AS-Safe. */
int event_limit_raise_once(void);
/* Have room for so many. 0 or -EMFILE: the hard limit is lower. */
int event_limit_raise(size_t descriptors);
/*
 * What arming raised, when all of a tool's are closed, where nothing else has changed it. AS-Safe.
 */
void event_limit_restore(void);

#endif
