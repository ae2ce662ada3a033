/* SPDX-License-Identifier: MIT */
/*
 * own_masks.h - masks of the program that look as if a signal of them were blocked by its marker
 * (base/marker.h).
 *
 * A thread that has all signals but a few blocked has the markers blocked too. In a process that
 * runs already such masks are read before the command gives a thread a marker.
 */
#ifndef GUEST_OWN_MASKS_H
#define GUEST_OWN_MASKS_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

/* What a mask of all signals has beside: then the markers were meant, too. */
#define OWN_MASKS_SIGNALS (1ull << (SIGPWR - 1) | 1ull << (SIGURG - 1) | 1ull << (SIGWINCH - 1))

/*
 * The masks of the threads as they are now. each gets every mask; it may be NULL. Not in a handler.
 */
void own_masks_read(void (*each)(uint64_t mask));
/*
 * 1: a thread had it then, with this signal open; those that are kept from the program do not
 * count, since a tool may have opened another one of them. AS-Safe.
 */
int own_masks_have(uint64_t mask, uint64_t open);

/* A line of the thread's status, such as "SigBlk". 0; -errno, -ENOENT: there is no such thread. */
int own_masks_of(pid_t tid, const char *name, uint64_t *mask);

#endif
