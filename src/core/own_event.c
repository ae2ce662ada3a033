/* SPDX-License-Identifier: MIT */
/* own_event.c - see own_event.h. */
#include "core/own_event.h"

#include "base/atomic.h"
#include "base/sys.h"
#include "event/table.h"

struct trapline_event *event_own(trapline_callback callback, void *arg, enum trapline_scope scope)
{
	struct trapline_event *ev = event_take();

	if (!ev)
		return NULL;
	ev->callback = callback;
	ev->arg = arg;
	ev->scope = scope;
	ev->pid = sys_getpid();
	ev->owner_pid = ev->pid;
	ev->flags = TRAPLINE_NO_VALUES;
	ev->roots.fds_per_root = 1;
	return ev;
}

void event_own_begin(struct trapline_event *ev)
{
	atomic_set(&ev->state, EVENT_LIVE);
}
