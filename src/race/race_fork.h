/* SPDX-License-Identifier: MIT */
/*
 * race_fork.h - no event is opened or closed while a thread forks. race.h has what the agent calls.
 */
#ifndef RACE_FORK_H
#define RACE_FORK_H

#include <stdint.h>

#include "base/atomic.h"
#include "race/watch/race_watch.h"

/* Threads that fork. */
extern uint32_t race_forking;

/* What is opened for a stall may not be opened now. */
static inline int race_is_forking(void)
{
	return race_watch_opens_some() && atomic_get(&race_forking);
}

#endif
