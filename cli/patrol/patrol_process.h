/* SPDX-License-Identifier: MIT */
/*
 * patrol_process.h - the processes that rules name, and whose turn it is.
 *
 * A process waits from when it was first seen, or from the end of its last visit. The one that
 * waits longest comes first, so none comes twice before the others had their turn. A program that
 * makes many processes does not keep the older ones from theirs. Of those that wait equally long,
 * and of the tools and points of a new one, the host and the day decide which is first:
 * patrol_share.h.
 */
#ifndef CLI_PATROL_PATROL_PROCESS_H
#define CLI_PATROL_PATROL_PROCESS_H

#include "cli/patrol/patrol.h"

#include <jansson.h>

struct patrol_process {
	pid_t pid;
	int64_t start; /* in clock units since boot: with the pid it names a process */
	char *program;
	uint64_t program_id; /* of its file as it is now */
	size_t rule;
	double waits_from; /* seconds of the epoch */
	uint64_t visits;
	uint64_t turns; /* of tools and points */
	bool is_there;
};

/* A tool that a program refuses is tried again later, and each time later than before. */
struct patrol_refusal {
	uint64_t program_id;
	char *program;
	enum patrol_tool tool;
	char reason[PATROL_REASON_BYTES];
	double at; /* seconds of the epoch */
	double wait_s;
};

struct patrol_processes {
	uint64_t host; /* of patrol_share.h */
	struct patrol_process *row;
	size_t count;
	size_t capacity;
	struct patrol_refusal *refusal;
	size_t refusal_count;
	size_t refusal_capacity;
	size_t *matches; /* of each rule, at the last look */
};

struct patrol_turn {
	struct patrol_process *process;
	enum patrol_tool tool;
	const char *point; /* LOCATION [TEXT] */
};

/* A process is seen for the first time: with which tool and point it begins. */
void patrol_process_begin(const struct patrol_processes *p, const struct patrol_rules *r,
			  struct patrol_process *one);
/* Reads /proc. 0 or -errno. */
int patrol_processes_look(struct patrol_processes *p, const struct patrol_rules *r, double now);
void patrol_processes_free(struct patrol_processes *p);

/* Whose turn it is. False: no process may be visited now. */
bool patrol_processes_next(struct patrol_processes *p, const struct patrol_rules *r, double now,
			   struct patrol_turn *out);
/*
 * The visit has ended. The process of this turn and of the next two is a copy of the caller's: the
 * rows move at each look.
 */
void patrol_processes_visited(struct patrol_processes *p, const struct patrol_turn *turn,
			      double now);
/* A visit was refused; it counts as one. 0 or -ENOMEM. */
int patrol_processes_refused(struct patrol_processes *p, const struct patrol_turn *turn,
			     const char *reason, double now);
/* It worked: an older refusal is forgotten. */
void patrol_processes_worked(struct patrol_processes *p, const struct patrol_turn *turn);

/* That of a process that runs; empty: not known. */
void patrol_process_build_id(pid_t pid, char *text, size_t n);
/* It is still the process that was seen. */
bool patrol_process_runs(const struct patrol_process *p);

/* For the state that is kept over restarts, which only the same boot may use. */
json_t *patrol_processes_to_json(const struct patrol_processes *p);
void patrol_processes_from_json(struct patrol_processes *p, const json_t *json);

#endif
