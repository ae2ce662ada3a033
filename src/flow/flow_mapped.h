/* SPDX-License-Identifier: MIT */
/*
 * flow_mapped.h - memory that is shared with a file: what is stored there leaves without a call.
 *
 * msync(2), munmap(2) and the end of the process are its sinks. The kernel names the file at that
 * moment. The table here has the ranges, so that a munmap(2) of other memory costs nothing.
 */
#ifndef FLOW_FLOW_MAPPED_H
#define FLOW_FLOW_MAPPED_H

#include "flow/flow_state.h"

struct maps_row;
/* 1: memory that is shared with a file, and not Trapline's. */
int flow_mapped_is_file(const struct maps_row *row);
/* Those that the process has. */
void flow_mapped_start(void);
/* Behind mmap(2). */
void flow_mapped_add(const struct flow_moment *m);
/* Behind mremap(2). */
void flow_mapped_move(uint64_t from, uint64_t before, uint64_t to, uint64_t after);
/* 1: a file may be mapped there. */
int flow_mapped_may(uint64_t at, uint64_t bytes);
/* Before msync(2) and munmap(2), outside of windows. How many followed bytes are there. */
uint64_t flow_mapped_sink(const struct flow_moment *m, const struct flow_site *site);
/* The end of the process, or of the search. */
void flow_mapped_end(void);

#endif
