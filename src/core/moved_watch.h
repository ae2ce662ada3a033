/* SPDX-License-Identifier: MIT */
/*
 * moved_watch.h - one debug register in all threads of this process, which a detector moves from
 * address to address. Only the caller moves it.
 */
#ifndef CORE_MOVED_WATCH_H
#define CORE_MOVED_WATCH_H

#include "base/tasks.h"
#include "event/event.h"

#define MOVED_WATCH_BYTES 8u /* that it watches at most */

struct moved_watch {
	struct trapline_event *event; /* NULL: it was never opened */
	uint32_t is_open;
	struct task_names names;
};

/* It watches nothing yet. 0 or -errno. Not in a handler. */
int moved_watch_open(struct moved_watch *w, trapline_callback callback, void *arg);

/*
 * Reads and writes of this many bytes at another address. It is opened again where a forked child
 * has none yet, or the program closed what it does not know. 0, or -errno: it is off. AS-Safe.
 */
int moved_watch_aim(struct moved_watch *w, uint64_t at, uint32_t bytes);

/* In a forked child: it has none of its parent's. */
void moved_watch_forked(struct moved_watch *w);

/* It is opened again by the next aim. */
void moved_watch_close(struct moved_watch *w);

#endif
