/* SPDX-License-Identifier: MIT */
/*
 * heap_pages.h - which pages of the pool have access.
 *
 * Where the kernel has guard regions (MADV_GUARD_INSTALL, Linux 6.13), the slots of one page are in
 * one mapping that has access, and regions in it have none. A change takes a fifth of the time of
 * mprotect(2), and the process has some mappings more instead of thousands. A guard region has no
 * page. So the bytes of a freed block are kept, and a program that reads them after its error was
 * reported reads what it would without Trapline.
 *
 * Elsewhere, for larger slots, and where the kernel refuses a region (locked memory), it is
 * mprotect(2).
 */
#ifndef HEAP_PAGES_H
#define HEAP_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/heap_pool.h"

/* After the pool is mapped, without access. Not in a handler. */
void heap_pages_start(uintptr_t pool, bool may_have_regions);
bool heap_pages_are_regions(void);
/* In a child: what another thread had begun is to be done again. */
void heap_pages_forked(void);

/* Access to the pages of a slot that is taken; false: the kernel refused. */
bool heap_pool_open(struct heap_slot *slot);
/* The same where the program itself has changed it. */
void heap_pool_open_again(struct heap_slot *slot);
/* No access to its pages, nor to the one behind them. Its block is freed. */
bool heap_pool_close(struct heap_slot *slot);
/* Access to the page of an address, so that an access that was reported can continue. */
void heap_pool_let(uintptr_t address);
/*
 * The same for a range, which lies in the pool; and back to what the states of its slots ask for.
 */
void heap_pool_let_all(uintptr_t address, size_t bytes);
void heap_pool_close_again(uintptr_t address, size_t bytes);

/* No access to all that has no block in use; nothing is allocated in the meantime. */
void heap_pool_close_unused(void);

/* Neither another thread changes its pages, nor gives its bytes back. false: one does. */
bool heap_pages_hold(struct heap_slot *slot);
/* The same for a new block. false: another thread prepares its pages: take another one. */
bool heap_pages_take(struct heap_slot *slot);
void heap_pages_let_go(struct heap_slot *slot);

#endif
