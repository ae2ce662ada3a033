/* SPDX-License-Identifier: MIT */
/* standard_output.h - a standard output that signals do not shorten. */
#ifndef CLI_STANDARD_OUTPUT_H
#define CLI_STANDARD_OUTPUT_H

#include <stdio.h>
#include <sys/types.h>

/*
 * A write that waits for its reader ends with EINTR where a signal asks for the end, and stdio
 * would drop the rest. stdout tries again from now on, unless a second signal has asked.
 */
void standard_output_keep(void);

/*
 * All bytes in one write(2) if the descriptor takes them, again after a signal. How many; fewer:
 * errno has the cause.
 */
ssize_t standard_write(int fd, const char *bytes, size_t n);

/* Writes what is left. An errno where some of the output did not arrive; 0: all did. */
int standard_output_error(void);

#endif
