/* SPDX-License-Identifier: MIT */
/*
 * own_event.h - events of tools that arm them by themselves. Apart from create.h, which leads to
 * all mechanisms: the objects that are loaded into a process would have them.
 */
#ifndef CORE_OWN_EVENT_H
#define CORE_OWN_EVENT_H

#include "event/event.h"

/*
 * An event of this process without a target, for what arms it by itself. It is in state
 * EVENT_OPENING: the caller describes it and calls event_own_begin(), after which its callback may
 * run. NULL: the table is full.
 */
struct trapline_event *event_own(trapline_callback callback, void *arg, enum trapline_scope scope);
void event_own_begin(struct trapline_event *ev);

#endif
