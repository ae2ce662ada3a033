/* SPDX-License-Identifier: MIT */
/* flow_sink.h - what a sink gets, and memory of the program. */
#ifndef FLOW_FLOW_SINK_H
#define FLOW_FLOW_SINK_H

#include "flow/flow_state.h"

/* How many followed bytes it got. */
uint64_t flow_sink(const struct flow_moment *m, const struct flow_site *site);

/*
 * What a file gets that is mapped in n bytes, whole pages. is_searched: for the text of the match
 * too, which was not in the file.
 */
uint64_t flow_sink_mapped(const struct flow_moment *m, const char *name,
			  const struct flow_open *open, uint64_t at, uint64_t n, int is_searched);

struct exec_call;
/* The same of what a program gets that is started now. */
uint64_t flow_sink_program(const struct flow_moment *m, const struct exec_call *call,
			   int with_arguments);

#endif
