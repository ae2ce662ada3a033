/* SPDX-License-Identifier: MIT */
/* race_sites_keep.h - the traps of a sweep: set, removed, set again in turn. */
#ifndef RACE_SITES_KEEP_H
#define RACE_SITES_KEEP_H

/* Until the trap thread has removed the traps and has ended; 2 s at most. -EBUSY: it has not. */
int race_sites_end(void);
/* Until no thread is stalled at a site: 0, or -EBUSY. */
int race_sites_wait(void);

#endif
