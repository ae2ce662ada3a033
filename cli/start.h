/* SPDX-License-Identifier: MIT */
/* start.h - a command that is started for us, held before its first instruction. */
#ifndef CLI_START_H
#define CLI_START_H

#include <sys/types.h>

/*
 * Starts a command and stops it where its program begins, all libraries loaded. Then start_go()
 * lets it run, or start_kill() ends it. Returns 0 with *pid, or an exit status with a line
 * printed; name is ours, for that line.
 */
int start_command(const char *name, char **command, pid_t *pid);
void start_go(pid_t pid);
void start_kill(pid_t pid);

/* From now on: at the same addresses and with the same guards in each run. */
void start_alike(void);
/* No longer traced, but stopped by SIGSTOP. 0 or -errno. */
int start_go_stopped(pid_t pid);

#endif
