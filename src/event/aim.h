/* SPDX-License-Identifier: MIT */
/* aim.h - events that a tool moves from address to address, and the descriptors of events. */
#ifndef EVENT_AIM_H
#define EVENT_AIM_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "event/event.h"

struct task_names;

/*
 * For a tool that owns the event and moves it often; only the caller does. event_aim: enable it at
 * another location, with another length and access too. -errno: it is off. event_pause: disable it;
 * hits that are on their way still count. event_rest: disable it. Hits of the old address that are
 * on their way are dropped as late. event_aim_self: as event_aim, in the calling thread alone,
 * opened first if it is not open there. event_aim_again: as event_aim, for an event that was
 * released: opened in all threads that there are. Up
 *	to as many as it has room for; -ENFILE: there are more, see event_reserve().
 * event_retire: after event_pause, what is on its way is dropped as late, too. event_let_go: close
 * all descriptors, no matter in which thread they were opened. event_free: after that, give back
 * the row; no thread is in its callback any more. event_forget_copies: as that, in a forked child;
 * the parent's events continue.
 */
int event_aim(struct trapline_event *ev, uint64_t addr, uint32_t len, enum trapline_access access);
void event_pause(struct trapline_event *ev);
void event_rest(struct trapline_event *ev);
int event_aim_self(struct trapline_event *ev, uint64_t addr);
int event_aim_again(struct trapline_event *ev, uint64_t addr, uint32_t len,
		    enum trapline_access access, struct task_names *names);
void event_retire(struct trapline_event *ev);
void event_let_go(struct trapline_event *ev);
void event_free(struct trapline_event *ev);
void event_forget_copies(struct trapline_event *ev);

int event_open_fd(struct perf_event_attr *attr, pid_t tid, int cpu);

#endif
