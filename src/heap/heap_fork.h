/* SPDX-License-Identifier: MIT */
/* heap_fork.h - what forks cost: for run_follow_forks(), whose handlers come one at a time. */
#ifndef HEAP_FORK_H
#define HEAP_FORK_H

void heap_fork_begins(void);
/* In the parent. */
void heap_fork_ended(void);

#endif
