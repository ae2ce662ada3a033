/* SPDX-License-Identifier: MIT */
/* probe_fires.h - whether breakpoints fire at all. */
#ifndef CHECK_PROBE_FIRES_H
#define CHECK_PROBE_FIRES_H

/*
 * 0 if a watchpoint of this thread misses a write: tried once in each process, in some 20 us. 1
 * also if none can be opened.
 */
int probe_breakpoints_fire(void);

#endif
