/* SPDX-License-Identifier: MIT */
/* probe_run.h - running one row in a child. */
#ifndef CHECK_PROBE_RUN_H
#define CHECK_PROBE_RUN_H

#include "check/probe.h"

/* Run one row in a child. budget_ms is how long it may take. */
void probe_run(const struct probe *p, int budget_ms, struct probe_result *out);
double probe_measure(const struct probe_cost *c, int budget_ms);

#endif
