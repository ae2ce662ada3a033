/* SPDX-License-Identifier: MIT */
/* moved_watch.c - see moved_watch.h. */
#include "core/moved_watch.h"

#include <errno.h>

#include "base/sys.h"
#include "core/own_event.h"
#include "event/aim.h"
#include "event/arm.h"
#include "event/attr.h"
#include "event/table.h"

#define THREADS_MORE 256u /* that have it, later */

int moved_watch_open(struct moved_watch *w, trapline_callback callback, void *arg)
{
	struct trapline_event *ev = event_own(callback, arg, TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	/* Any address will do: it is disabled, and only moved ones are enabled. */
	event_describe_range(ev, (uintptr_t)ev & ~7ull, MOVED_WATCH_BYTES, TRAPLINE_READ_WRITE);
	event_own_begin(ev);
	int err = event_arm(ev, NULL, 0, NULL);
	if (err) {
		event_give(ev);
		return err;
	}
	w->event = ev;
	w->is_open = 1;
	/* What it may have to be opened in again, in a handler. */
	return event_reserve(ev, ev->roots.count + THREADS_MORE);
}

int moved_watch_aim(struct moved_watch *w, uint64_t at, uint32_t bytes)
{
	int err = w->is_open ? event_aim(w->event, at, bytes, TRAPLINE_READ_WRITE) : -EBADF;

	if (err != -EBADF && err != -ENOTTY)
		return err;
	event_let_go(w->event);
	err = event_aim_again(w->event, at, bytes, TRAPLINE_READ_WRITE, &w->names);
	w->is_open = !err;
	return err;
}

void moved_watch_forked(struct moved_watch *w)
{
	event_forget_copies(w->event);
	w->event->pid = w->event->owner_pid = sys_getpid();
	w->is_open = 0;
}

void moved_watch_close(struct moved_watch *w)
{
	event_let_go(w->event);
	w->is_open = 0;
}
