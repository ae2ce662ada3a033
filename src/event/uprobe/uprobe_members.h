/* SPDX-License-Identifier: MIT */
/* uprobe_members.h - the processes of an event, where they are several: see program_members.h. */
#ifndef UPROBE_MEMBERS_H
#define UPROBE_MEMBERS_H

#include "event/event.h"

/* The tables, with the process of the event. 0 or -errno, and *why is a reason then. */
int uprobe_members_open(struct trapline_event *ev, const char **why);
/* From here on descendants are recorded. */
int uprobe_members_follow(struct trapline_event *ev, const char **why);
void uprobe_members_close(struct trapline_event *ev);

/* A process as the command numbers it. 0 or -errno; E2BIG: the table is full. */
int uprobe_members_add(struct trapline_event *ev, pid_t pid);

#endif
