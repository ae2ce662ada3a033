/* SPDX-License-Identifier: MIT */
/* flow_sink.h - what a sink gets, and memory of the program. */
#ifndef FLOW_FLOW_SINK_H
#define FLOW_FLOW_SINK_H

#include "flow/flow.h"

/* Bytes of the program; fewer if not all can be read. */
size_t flow_peek(const struct flow_moment *m, void *to, uint64_t from, size_t n);
uint64_t flow_argument(const struct flow_moment *m, unsigned int number);
/* The length of a string, at most `most`; -1: it cannot be read. */
int64_t flow_string(const struct flow_moment *m, uint64_t at, size_t most);
/* How many followed bytes it got. */
uint64_t flow_sink(const struct flow_moment *m, const struct flow_site *site);

#endif
