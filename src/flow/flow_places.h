/* SPDX-License-Identifier: MIT */
/* flow_places.h - see flow_places.c. */
#ifndef FLOW_FLOW_PLACES_H
#define FLOW_FLOW_PLACES_H

#include <stddef.h>

/*
 * What is at the sites that are not quiet. may_trap: every mask of this process is Trapline's, from
 * its begin. 0 or -errno with why.
 */
int flow_places_start(int may_trap, char *why, size_t n);
int flow_places_end(void);
/* The sites are inspected, or not. 0 or -errno. */
int flow_places_switch(int on);
/* Not any more, from within one of them. */
void flow_places_rest(void);

#endif
