/* SPDX-License-Identifier: MIT */
/* at_step.h - execute a number of instructions of a stopped thread. */
#ifndef AT_STEP_H
#define AT_STEP_H

#include "point/host/point_window.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AT_STEPS_MAX 1000000
/* Options for PTRACE_SEIZE that report the end of a thread before it is gone. */
#define AT_STEP_OPTIONS (PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | POINT_WINDOW_OPTIONS)

struct at_steps {
	uint64_t wanted;
	/* The result: */
	uint64_t made;
	bool is_over;	/* the thread ended, or executed another program, before */
	bool is_let_go; /* SIGCONT arrived during the steps */
	bool is_reaped; /* the process was killed, and `status` is what wait() returned */
	int status;
};

/* From here on at_step() ends when this process is no longer the parent. */
void at_steps_for(pid_t parent);

/*
 * Steps thread tid of process pid, which the caller traces and which is in a ptrace stop.
 * Afterwards it is in such a stop again, unless it was killed. 0, or -errno.
 */
int at_step(pid_t pid, pid_t tid, struct at_steps *steps);

#endif
