/* SPDX-License-Identifier: MIT */
/* event_stats.h - the library's statistics under the names that the user sees. */
#ifndef CLI_OBSERVE_EVENT_STATS_H
#define CLI_OBSERVE_EVENT_STATS_H

#include "report/run/run.h"

#include <trapline/trapline.h>

/* Adds the library's counters of one event to those of the run. */
void event_stats_add(struct trapline_event *event, struct run_end *end);

#endif
