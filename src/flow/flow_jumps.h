/* SPDX-License-Identifier: MIT */
/* flow_jumps.h - see flow_jumps.c. */
#ifndef FLOW_FLOW_JUMPS_H
#define FLOW_FLOW_JUMPS_H

#include <stddef.h>

/*
 * What is at the sites that are not quiet. may_trap: every mask of this process is Trapline's, from
 * its begin. 0 or -errno with why.
 */
int flow_jumps_start(int may_trap, char *why, size_t n);
int flow_jumps_end(void);
/* The sites are inspected, or not. 0 or -errno. */
int flow_jumps_switch(int on);
/* Not any more, from within one of them. */
void flow_jumps_rest(void);

#endif
