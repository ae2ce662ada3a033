/* SPDX-License-Identifier: MIT */
/* slots.h - which threads and events use the debug registers. */
#ifndef EVENT_SLOTS_H
#define EVENT_SLOTS_H

#include <stddef.h>

/* What uses this process's debug registers, for -ENOSPC. */
int event_explain_slots(char *buf, size_t n);

#endif
