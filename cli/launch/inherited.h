/* SPDX-License-Identifier: MIT */
/*
 * inherited.h - a program that is started inherits what this command inherited, and nothing else.
 *
 * Libraries open files without O_CLOEXEC, such as libdwfl the debug information of an earlier run.
 */
#ifndef CLI_LAUNCH_INHERITED_H
#define CLI_LAUNCH_INHERITED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Notes open descriptors and ignored signals: at the start, before this command changes any.
 * Standard input, output and error that are closed stay so for a program that is started. Here they
 * fail. A low limit of descriptors is raised for this command alone.
 */
void inherited_note(void);

/*
 * Starts argv[0], as found by PATH, in a child that calls prepare before. 0 and *pid, or an exit
 * status with a line printed; name is that of trapline's command.
 */
int inherited_start(const char *name, char *const *argv, bool (*prepare)(void *arg), void *arg,
		    pid_t *pid);

#endif
