/* SPDX-License-Identifier: MIT */
/*
 * then.h - --then: what happens to the process at each hit, beside its line.
 *
 * An exact action is one at the hit itself. BPF stops the process in the thread that made the hit,
 * one hit at a time; the command acts and continues it. Elsewhere the command stops the process
 * when it has read the hit, and states how much later that was.
 */
#ifndef CLI_ACT_THEN_H
#define CLI_ACT_THEN_H

#include "cli/act/act_command.h"
#include "cli/act/act_stop.h"
#include "report/run/run.h"

#include <trapline/trapline.h>

#define THEN_TEXT_MAX 4096

enum then_kind {
	THEN_NOTHING,
	THEN_STOP,
	THEN_SIGNAL,
	THEN_CORE,
	THEN_SNAPSHOT,
	THEN_EXEC,
};

struct then {
	const char *name; /* of trapline's command, for messages */
	enum then_kind kind;
	const char *text; /* what follows the word */
	int signal;
	bool is_exact;
	bool is_one; /* the limit is 1: a core has the name that was given */
	uint64_t done;
	uint64_t failed;
	struct act_guard guard;
	struct act_commands commands;
	/* What the last action was: */
	bool has_result;
	char result[THEN_TEXT_MAX + 200];
	json_t *json;
};

/*
 * Parses `stop`, `signal NAME`, `core FILE`, `snapshot` or `exec CMD`; NULL is nothing. An exit
 * status.
 */
int then_parse(const char *command, const char *text, struct then *out);

/* Before events are opened. 0 or an exit status, line printed. */
int then_start(struct then *t, pid_t pid);

/* Exact: at once when its record is read. The process was stopped by it, and continues. */
void then_at_hit(struct then *t, const struct trapline_hit *record, bool is_wanted);
/* Otherwise: when the hit is known to be one. */
void then_after(struct then *t, const struct run_hit *hit);

/* What was done, below the hit in text and JSON; nothing if nothing was. */
void then_print(struct then *t, FILE *text, FILE *json);

/* Lines for the end of a run. False: an action failed. */
bool then_end(struct then *t, FILE *text, int (*is_over)(void));

#endif
