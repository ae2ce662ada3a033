/* SPDX-License-Identifier: MIT */
/*
 * break_pending.h - --pending: waits until the process has loaded what has each LOCATION.
 *
 * A breakpoint on the function that the dynamic linker calls for debuggers shows each load, before
 * any code of the library runs. There the thread is stalled until the breakpoints are armed.
 */
#ifndef CLI_BREAK_BREAK_PENDING_H
#define CLI_BREAK_BREAK_PENDING_H

#include "cli/break/break_loaded.h"
#include "cli/observe/observe.h"
#include "cli/watch/watch_stall.h"

struct break_pending {
	struct trapline *target; /* NULL: nothing was waited for */
	struct trapline_event *event;
	struct watch_stall *stall; /* NULL: threads are not stalled */
	struct break_loaded loaded;
	const char *what;    /* the LOCATION that is missing */
	uint64_t loaded_ns;  /* the time of the last one */
	uint64_t layout;     /* of the process, when it was searched last */
	uint64_t looks;	     /* how often the names of the process were read again */
	uint64_t stalled_ns; /* in loads of what was not wanted */
};

/* 0 or an exit status: options that do not go with --pending. */
int break_pending_check(const struct observe_settings *set);
/*
 * Returns when the process has each LOCATION, and replaces o->symbols then. A command runs from
 * then on. 0 or an exit status, line printed.
 */
int break_pending_wait(struct break_pending *p, struct observe *o);
/* The breakpoints are armed: the thread that loaded the library continues. */
void break_pending_armed(struct break_pending *p, struct observe *o);
void break_pending_release(struct break_pending *p, struct session *r);

#endif
