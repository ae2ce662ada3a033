/* SPDX-License-Identifier: MIT */
/* unseen.h - changes of a watched value that no hit reports. */
#ifndef EVENT_UNSEEN_H
#define EVENT_UNSEEN_H

#include "event/event.h"

/* Does the memory have the value that the last hit reported? To be called now and then. */
void event_look_for_unseen(struct trapline_event *ev);

#endif
