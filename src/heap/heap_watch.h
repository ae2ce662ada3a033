/* SPDX-License-Identifier: MIT */
/*
 * heap_watch.h - debug registers on the bytes before the newest sampled blocks, and behind them.
 *
 * A block ends at a page without access, or a few bytes before it, and what lies before it is a
 * page with access. There a register shows reads, which leave no trace, and writes in the moment
 * they are made.
 */
#ifndef HEAP_WATCH_H
#define HEAP_WATCH_H

#include "heap/heap_pool.h"

/* Opens what is free, except for one. 0: at least one; or -errno. Not in a handler. */
int heap_watch_start(void);
void heap_watch_forked(void);
/* None is used any more, and the kernel is asked for nothing. */
void heap_watch_end(void);

/* The block was allocated, and what lies around it filled: it is the newest one. */
void heap_watch_newest(struct heap_slot *slot);
/* The slot will have another block. */
void heap_watch_forget(struct heap_slot *slot);

/* So many bytes before and behind its block have a register now. */
uint32_t heap_watched_before(const struct heap_slot *slot);
uint32_t heap_watched_behind(const struct heap_slot *slot);

/*
 * From time to time. At each switch of threads the kernel changes the registers, which is part of
 * the cost: where the budget is used up, they rest until the next sample. AS-Safe.
 */
void heap_watch_look(void);

#endif
