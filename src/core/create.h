/* SPDX-License-Identifier: MIT */
/* create.h - an event from its options to its end, for the public calls and for the tools. */
#ifndef CORE_CREATE_H
#define CORE_CREATE_H

#include "core/open.h"
#include "event/event.h"

/* An event for the wish; on success it is armed, and its callback may have run. 0 or -errno. */
int event_create(struct trapline *t, const struct wish *wish,
		 const struct trapline_event_opts *opts, struct trapline_event **out);
/* The same for an amount. */
int event_create_counter(struct trapline *t, enum trapline_counter what,
			 const struct trapline_event_opts *opts, struct trapline_event **out);
/* Waits for its callbacks and for calls on it. */
void event_close(struct trapline_event *ev);

/* A call on an event that may be closed in the meantime: 0, and event_leave() is due; or -errno. */
int event_call(struct trapline_event *ev);
int event_switch(struct trapline_event *ev, uint32_t on);
/* Off, and its uprobes out of the code. AS-Unsafe. */
int event_detach(struct trapline_event *ev);
int event_read(struct trapline_event *ev, uint64_t *out);

#endif
