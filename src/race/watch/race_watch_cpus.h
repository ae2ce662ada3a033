/* SPDX-License-Identifier: MIT */
/*
 * race_watch_cpus.h - watchpoints and the breakpoint as events of the CPUs, for all threads at
 * once.
 */
#ifndef RACE_WATCH_CPUS_H
#define RACE_WATCH_CPUS_H

#include <stdint.h>

#include "event/event.h"
#include "record/race_region.h"

/* Copies the events of the CPUs, if there are some and this process may have them. */
void race_cpus_start(void);
/* Makes it an event of the CPUs. */
void race_cpu_event(struct trapline_event *ev, enum race_cpu_event which);
/* From now on their signals are heard. */
void race_cpus_listen(void);
/* What it traps is for no process. */
void race_cpu_await_nothing(uint32_t which);
/*
 * The search ends: those that are Trapline's are off; and later, when no thread can be in a
 * callback.
 */
void race_cpus_stop(void);
void race_cpus_end(void);
void race_cpus_forked(void);

#endif
