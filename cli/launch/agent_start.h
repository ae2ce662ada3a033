/* SPDX-License-Identifier: MIT */
/* agent_start.h - load the agent into a command, or into a running process. */
#ifndef CLI_LAUNCH_AGENT_START_H
#define CLI_LAUNCH_AGENT_START_H

#include "record/share_head.h"
#include <stdbool.h>

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* CLI_OK, or that the agent does not exist for this processor. */
bool agent_is_built(void);
int agent_is_for_this(const char *command);

/*
 * Memory that the processes of a run share: two files without a name, which they open below /proc.
 * The head can be written by this process alone (record/share_head.h).
 */
struct agent_region {
	struct share_head *head; /* of the whole memory; NULL: none */
	size_t bytes;
	int head_fd;
	int data_fd;
};

#define AGENT_REGION_NONE                    \
	{                                    \
		.head_fd = -1, .data_fd = -1 \
	}

/* All zero except for the head. 0, or an exit status with a line printed. */
int agent_region_open(const char *command, const char *name, uint64_t magic, size_t bytes,
		      struct agent_region *out);
void agent_region_close(struct agent_region *region);

/* Built for this processor, and found. */
bool agent_is_there(void);

/* The path of a file in the folder of the agent. 0 or -1. */
int agent_beside(const char *name, char *path, size_t n);

/*
 * In this process's environment: the loader of glibc loads that file into programs, and no other
 * one tries.
 */
void agent_preload(const char *path);

/*
 * Checks that the agent can be preloaded into this program. 0 or an exit status, line
 * printed.
 */
int agent_command_check(const char *command, char *const *argv);

/*
 * Starts a command, with an option for the agent, which finds the region by it. 0 and *pid, or an
 * exit status, line printed.
 */
int agent_command_start(const char *command, char *const *argv, const char *option,
			const struct agent_region *region, pid_t *pid);

/* The same with another object of the agent's folder instead of the agent. */
int agent_object_start(const char *command, char *const *argv, const char *object,
		       const char *option, const struct agent_region *region, pid_t *pid);

/*
 * Memory to share with a running process. Its first bytes are copied there. The data then is that
 * of the process; the head is not, since the process could write it.
 */
struct agent_share {
	void *region;
	size_t bytes;
	size_t filled;
	int data_fd;		 /* becomes the file of the process */
	const char *object_name; /* of a second file (inject.h); NULL: none */
	int object_fd;
	const char *room;   /* what it needs (process_room.c); NULL: as the option */
	bool has_own_files; /* see inject.h */
	const char *then;   /* the same */
	/* Not NULL: opened again, and locked: the process notices when that ends (flock(2)). */
	int *lock_fd;
};

/*
 * Calls the agent in a running process for an option, and loads the agent if necessary.
 * share may be NULL. 0, and *result is what the agent returned; or an exit status, line
 * printed.
 */
int agent_call(const char *command, pid_t pid, const char *option, const struct agent_share *share,
	       int *result);

/* The same with another object of the agent's folder. */
int agent_object_call(const char *command, pid_t pid, const char *object, const char *option,
		      const struct agent_share *share, int *result);

/*
 * agent_call() ends when *signal is set, and where for_ns is not 0 also after that time with as
 * much more as an attach takes on a busy machine.
 */
void agent_call_until(const volatile sig_atomic_t *signal, uint64_t started_ns, uint64_t for_ns);

/*
 * The same for a call whose own time-out begins when the agent has it. An attach that is not done
 * in the time-out, or in 5 seconds, and one more second, ends.
 */
void agent_call_within(const volatile sig_atomic_t *signal, uint64_t timeout_ns);

#endif
