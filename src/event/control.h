/* SPDX-License-Identifier: MIT */
/* control.h - enable, disable, move and read an open event. */
#ifndef EVENT_CONTROL_H
#define EVENT_CONTROL_H

#include <stdint.h>

#include "event/event.h"

/* One of the first that opts.skip ignores? For the handler and the reader. */
int event_skips(struct trapline_event *ev);

void event_unlock(struct trapline_event *ev);
void event_sync(struct trapline_event *ev);
/*
 * The values before the first hit. While threads are armed one after the other, one that is not may
 * store: until settled, when all are, the old value of a hit is not known.
 */
void event_read_first_values(struct trapline_event *ev);
void event_settle_first_values(struct trapline_event *ev);
int event_move(struct trapline_event *ev, uint64_t addr, uint32_t len);
/* The aim that a hit's address belongs to, or NULL: it was moved away long ago. */
struct event_place *event_place_at(struct trapline_event *ev, uint32_t part, uint64_t addr);
int event_read_count(const struct trapline_event *ev, int later_classes_only, uint64_t *out);
int event_budget_left(const struct trapline_event *ev);

#endif
