/* SPDX-License-Identifier: MIT */
/* table.h - the fixed table of events, and which calls use a row of it. */
#ifndef EVENT_TABLE_H
#define EVENT_TABLE_H

#include "event/event.h"

/* Take a free row of the table, or NULL. Give it back. AS-Safe. */
struct trapline_event *event_take(void);
void event_give(struct trapline_event *ev);

/*
 * Between the two the event is not released, though it may be closed. This is for calls of a
 * callback and of other threads, which event_close() does not wait for with a lock. -ESRCH: it is
 * closed, or, by the generation that it was opened with, another one. A handler that is in its
 * callback needs them only where the callback may have closed it. AS-Safe.
 */
int event_enter(struct trapline_event *ev);
int event_enter_as(struct trapline_event *ev, uint32_t first_generation);
void event_leave(struct trapline_event *ev);
/*
 * For an event in the state EVENT_CLOSING. release() is run when the last call under way ends. That
 * call is waited for, unless it is one that the caller interrupted. AS-Safe.
 */
void event_end(struct trapline_event *ev, void (*release)(struct trapline_event *ev));

void event_roots_free(struct event_roots *roots);

#endif
