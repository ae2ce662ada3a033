/* SPDX-License-Identifier: MIT */
/*
 * death_log.h - how the processes of a run die of signals: the same for all tools.
 *
 * Deaths are seen from outside, see host/death_watch.h. Where that is not permitted, the signal of
 * a command that was started is known still, and the reason is stated.
 */
#ifndef CLI_LAUNCH_DEATH_LOG_H
#define CLI_LAUNCH_DEATH_LOG_H

#include "cli/launch/mapped_names.h"
#include "host/death_watch.h"
#include "host/mappings.h"
#include "report/dwarf/symbols.h"
#include "report/finding/death.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct death_entry;

struct death_log {
	const char *command; /* the name of the subcommand */
	struct death_watch watch;
	struct mappings mappings;
	struct mapped_names mapped;
	int err; /* 0, or why deaths are not seen */
	pid_t attached;
	struct symbols *symbols; /* of the process that was attached to */
	struct kept_files *kept; /* of it too; NULL: none */
	uint64_t looks;
	uint64_t version; /* of its mappings, that its symbols have */
	struct death_entry *entries;
	uint64_t unlisted; /* deaths that were too many to be kept */
	bool is_silent;	   /* the run has reported why: the deaths are not printed */
};

#define DEATH_LOG_NONE                    \
	{                                 \
		.watch = DEATH_WATCH_NONE \
	}

/* Before the start or the attach. Without rights it does nothing else. */
void death_log_open(struct death_log *log, const char *command);
void death_log_close(struct death_log *log);

/* What this process forks between the two is followed. */
void death_log_start(struct death_log *log);
void death_log_started(struct death_log *log);
/* A process that runs: what names its code is opened now. */
void death_log_attach(struct death_log *log, pid_t pid);

/* Takes in what has happened. f: faults that are new are printed there as text; NULL: they wait. */
void death_log_look(struct death_log *log, bool has_color, FILE *f);

/*
 * A process that descends from the command, which has ended, and runs still; 0: none, or it is not
 * known.
 */
pid_t death_log_left_behind(struct death_log *log);
/* The fault that a process died of, and when: now if the kernel had no record of it. 0: none. */
int death_log_fault(const struct death_log *log, pid_t pid, int status, uint64_t *time_ns);

#define DEATH_LOG_MAX 256
/* All that are known, after a look. Returns how many; they are valid until the log is closed. */
size_t death_log_list(struct death_log *log, const struct death *out[DEATH_LOG_MAX]);

struct death_end {
	const char *program;
	pid_t pid;
	bool is_attached;
	int status; /* as waitpid() gives it; of a process that was attached to it is looked up */
	bool has_ended; /* the program that was started has, and what it left behind is named */
	bool is_asked;	/* this command has ended it, or the user did */
	bool is_json;
	bool has_color;
	FILE *out;
};

/*
 * At the end of the process: what is not printed yet, and a line that a signal ended it. Without
 * that line a summary reads as if it had ended well.
 */
void death_log_end(struct death_log *log, const struct death_end *end);

#endif
