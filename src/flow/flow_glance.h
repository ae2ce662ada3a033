/* SPDX-License-Identifier: MIT */
/* flow_glance.h - what most calls of sinks need: a look that finds nothing. */
#ifndef FLOW_FLOW_GLANCE_H
#define FLOW_FLOW_GLANCE_H

#include "flow/flow_state.h"

/*
 * 1: the thread is behind a call that got nothing which is followed, and has nothing to continue.
 * *bytes: so many were searched. It leaves the vector registers alone.
 */
int flow_glance(const struct flow_site *site, const ucontext_t *context, uint64_t *bytes);

#endif
