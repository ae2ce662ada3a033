/* SPDX-License-Identifier: MIT */
/* race_cpus.h - watchpoints and the breakpoint as events of the CPUs, for all threads at once. */
#ifndef RACE_CPUS_H
#define RACE_CPUS_H

#include <stdint.h>

#include "event/event.h"
#include "record/race_region.h"

/* Copies the events of the CPUs, if there are some and this process may have them. */
void race_cpus_start(void);
/* Makes it an event of the CPUs. */
void race_cpu_event(struct trapline_event *ev, enum race_cpu_event which);
/* From now on their signals are heard. */
void race_cpus_listen(void);
/* 1: it belongs to this process from now on, or this process has no events of the CPUs. */
int race_cpu_take(uint32_t which);
int race_cpu_is_ours(uint32_t which);
void race_cpu_give(uint32_t which);
/* What it traps is for this process: from now on, and no longer. */
void race_cpu_await(const struct trapline_event *ev, uint32_t which);
void race_cpu_await_nothing(uint32_t which);
/* An access that leaves that value there is not reported until the next await(): a read, most likely. */
void race_cpu_pass_over(uint64_t address, uint32_t len, uint64_t value);
/* How often it has trapped where that was waited for. */
uint64_t race_cpu_taken(uint32_t which);
/* The search ends: those that are ours are off; and later, when no thread can be in a callback. */
void race_cpus_stop(void);
void race_cpus_end(void);
void race_cpus_forked(void);

#endif
