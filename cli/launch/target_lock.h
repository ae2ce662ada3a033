/* SPDX-License-Identifier: MIT */
/*
 * target_lock.h - one command at a time loads something into a process.
 *
 * One command leaves breakpoints, handlers and masks there that another one does not know of. A
 * thread that is borrowed for a call of the second dies of a breakpoint of the first.
 */
#ifndef CLI_LAUNCH_TARGET_LOCK_H
#define CLI_LAUNCH_TARGET_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Takes the process for this command, until it ends, also by SIGKILL. An earlier command that is
 * ending is waited for, and so is what it has left there: a user types the next one when the last
 * line is there. CLI_OK, or CLI_USAGE and the line is printed: it names the other command. Where
 * the process cannot be looked into, the attach has the reason.
 */
int target_lock(const char *command, pid_t pid);
/* A thread of an agent works there. */
bool target_has_our_thread(pid_t pid);

#endif
