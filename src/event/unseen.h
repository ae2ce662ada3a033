/* SPDX-License-Identifier: MIT */
/* unseen.h - changes of a watched value that no hit tells of. */
#ifndef EVENT_UNSEEN_H
#define EVENT_UNSEEN_H

#include "event/event.h"

/* Does the memory hold what the last hit stated? To be called now and then. */
void event_look_for_unseen(struct trapline_event *ev);

#endif
