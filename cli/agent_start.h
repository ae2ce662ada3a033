/* SPDX-License-Identifier: MIT */
/* agent_start.h - a command, or a running process, with the agent in it. */
#ifndef CLI_AGENT_START_H
#define CLI_AGENT_START_H

#include <stddef.h>
#include <sys/types.h>

/* A file without a name that the target opens below /proc; mapped here. NULL: errno says why. */
void *agent_region_open(const char *name, size_t bytes, int *fd);
void agent_region_close(void *region, size_t bytes, int fd);

/* "option=/proc/PID/fd/N", as the target finds the region. */
void agent_option(const char *option, int region_fd, char *text, size_t size);

/* A file that is where the agent is. 0 or -1. */
int agent_beside(const char *name, char *path, size_t n);

/* Can the agent be preloaded into this program? 0 or an exit status, line printed. */
int agent_command_check(const char *command, char *const *argv);

/* Start it, with options for the agent. 0 and *pid, or an exit status, line printed. */
int agent_command_start(const char *command, char *const *argv, const char *options, pid_t *pid);

/* A region here that shall be shared with a running process; what it begins with goes there. */
struct agent_share {
	void *region;
	size_t bytes;
	size_t filled;
};

/*
 * Call the agent in a running process for an option; loads it where it is not yet. share may be NULL.
 * 0, and *result is what the agent returned, which is not told; or an exit status, line printed.
 */
int agent_call(const char *command, pid_t pid, const char *option, const struct agent_share *share,
	       int *result);

#endif
