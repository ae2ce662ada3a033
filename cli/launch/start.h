/* SPDX-License-Identifier: MIT */
/* start.h - a command that trapline starts, stopped before its first instruction. */
#ifndef CLI_LAUNCH_START_H
#define CLI_LAUNCH_START_H

#include <sys/types.h>

/*
 * Starts a command and stops it where its program begins, with all libraries loaded. Then
 * start_go() resumes it, or start_kill() ends it. Returns 0 with *pid, or an exit status
 * with a line printed; name is that of trapline's command, for this line.
 */
int start_command(const char *name, char **command, pid_t *pid);
void start_go(pid_t pid);
/*
 * Runs a process that is stopped in its exec to the entry point of its program. 0 or -errno;
 * -ECHILD: it has ended, with *status.
 */
int start_run_to_entry(pid_t pid, int *status);
void start_kill(pid_t pid);

/*
 * Commands that are started from now on have the same addresses and guards in each run.
 */
void start_alike(void);
/*
 * Commands that start from now on may be traced by this process too, where only parents may trace.
 */
void start_permit(pid_t tracer);
/* Ends the tracing and leaves the command stopped by SIGSTOP. 0 or -errno. */
int start_go_stopped(pid_t pid);

#endif
