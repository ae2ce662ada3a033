/* SPDX-License-Identifier: MIT */
/* act_command.h - commands that are started at hits, a few at a time. */
#ifndef CLI_ACT_ACT_COMMAND_H
#define CLI_ACT_ACT_COMMAND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACT_COMMANDS_MAX 4 /* that run at the same time */

struct act_commands {
	pid_t running[ACT_COMMANDS_MAX];
	size_t count;
	uint64_t started;
	uint64_t failed; /* ended by a signal, or with a status that is not 0 */
	uint64_t skipped;
};

/* What stands for %p, %t and %n. */
struct act_words {
	pid_t pid;
	pid_t tid;
	uint64_t number;
};

/* Replaces %p, %t, %n and %%; others stay. -ENAMETOOLONG: it does not fit. */
int act_expand(const char *text, const struct act_words *words, char *out, size_t size);

/* Starts `sh -c TEXT`. 0 or -errno; -EAGAIN: as many as may be are running, and it was counted. */
int act_command_start(struct act_commands *c, const char *text, pid_t *out);
/* Waits for the rest, until `is_over` or so many ms have passed. */
void act_commands_wait(struct act_commands *c, int ms, int (*is_over)(void));

#endif
