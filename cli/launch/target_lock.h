/* SPDX-License-Identifier: MIT */
/*
 * target_lock.h - one command at a time loads something into a process.
 *
 * What one command has there is breakpoints, handlers and masks that another one does not know of: a thread
 * that is borrowed for a call of the second dies of a breakpoint of the first.
 */
#ifndef CLI_LAUNCH_TARGET_LOCK_H
#define CLI_LAUNCH_TARGET_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Takes the process for this command, until it ends, also by SIGKILL. An earlier command that is ending, and what
 * it has left there on its way out, are waited for: a user types the next one when the last line is there. CLI_OK, or CLI_USAGE and the line is printed: it names the other
 * command. Where the process cannot be looked into, the attach has the reason.
 */
int target_lock(const char *command, pid_t pid);
/* A thread of an agent works there. */
bool target_has_our_thread(pid_t pid);

#endif
