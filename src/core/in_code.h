/* SPDX-License-Identifier: MIT */
/* in_code.h - events whose hits come from changed code of the own process: a jump, or an int3. */
#ifndef CORE_IN_CODE_H
#define CORE_IN_CODE_H

#include "event/event.h"

/* Put the event at its address. It has its condition. 0 or -errno; in_code_close() is still due. */
int in_code_open(struct trapline_event *ev);

/*
 * From now on an event is refused where only an int3 fits. In a process that was attached to, a
 * thread may block SIGTRAP at any time, and would die of it.
 */
void in_code_forbid_traps(void);

/* Put the instruction back, if it can be done here; see code_probe_close(). */
void in_code_close(struct trapline_event *ev);

#endif
