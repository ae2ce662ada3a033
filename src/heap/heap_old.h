/* SPDX-License-Identifier: MIT */
/*
 * heap_old.h - sampled blocks that stay in use, where the processor has masked vectors.
 *
 * glibc's memcmp() reads up to 32 bytes by one masked vector there. What the mask leaves out may
 * lie in a page without access; but then the processor takes 200 ns instead of 2. One string that a
 * program compares all the time, and that is sampled, makes the program slower by half. So only the
 * newest blocks have a page without access behind them. Behind an older one that page is opened,
 * and what is written there is found when the block is freed.
 */
#ifndef HEAP_OLD_H
#define HEAP_OLD_H

#include "heap/heap_pool.h"

#define HEAP_OLD_BYTES 64u /* behind an older block that are inspected */

void heap_old_start(void);
/* This is the newest block: the one that was the newest some blocks ago is old. AS-Safe. */
void heap_old_note(struct heap_slot *slot);

#endif
