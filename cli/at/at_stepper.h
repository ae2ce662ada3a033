/* SPDX-License-Identifier: MIT */
/*
 * at_stepper.h - a process of its own that executes the steps of a point.
 *
 * A single step ends in a SIGTRAP that only the tracer keeps from the program. If the tracer is
 * killed in the meantime, the SIGTRAP ends the program. So the tracer is not the command: it is in
 * a session of its own, outlives the command, and then lets the program continue.
 */
#ifndef AT_STEPPER_H
#define AT_STEPPER_H

#include "cli/at/at_state.h"

struct at_stepper {
	pid_t pid; /* 0: none */
	int fd;
};

/* Before the command is started, which permits this process to trace it. 0 or -errno. */
int at_stepper_start(struct at_stepper *s);
/* As at_state_read(). */
int at_stepper_read(struct at_stepper *s, pid_t pid, pid_t tid, struct at_state *out);
void at_stepper_end(struct at_stepper *s);

#endif
