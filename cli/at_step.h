/* SPDX-License-Identifier: MIT */
/* at_step.h - a stopped thread goes so many instructions further, and no more. */
#ifndef CLI_AT_STEP_H
#define CLI_AT_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AT_STEPS_MAX 1000000
/* What PTRACE_SEIZE must be given, so that the end of a thread is seen before it has gone. */
#define AT_STEP_OPTIONS (PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC)

struct at_steps {
	uint64_t wanted;
	/* What came of it: */
	uint64_t made;
	bool is_over;	/* the thread ended, or its program was replaced, before */
	bool is_let_go; /* somebody sent SIGCONT meanwhile */
	bool is_reaped; /* the process was killed, and `status` is what wait() told */
	int status;
};

/*
 * Steps thread tid of process pid, which the caller traces and which is in a stop of ptrace; it is in
 * one again afterwards, unless it was killed. 0, or -errno.
 */
int at_step(pid_t pid, pid_t tid, struct at_steps *steps);

#endif
