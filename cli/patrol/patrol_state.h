/* SPDX-License-Identifier: MIT */
/*
 * patrol_state.h - what a patrol has done, and what it does now: kept over restarts, read by
 * `trapline patrol status`, and written as metrics.
 */
#ifndef CLI_PATROL_PATROL_STATE_H
#define CLI_PATROL_PATROL_STATE_H

#include "cli/patrol/patrol_visit.h"
#include "cli/patrol/road.h"

#define PATROL_STATE "state.json"
#define PATROL_STOP "stop" /* a file with this name: no visit */
#define PATROL_LOG "patrol.jsonl"
#define PATROL_STATE_BYTES (16u << 20) /* at most */
#define PATROL_KINDS 64

struct patrol_count {
	char type[16];
	char kind[48];
	uint64_t count;
};

/* The counters are those of all patrols in this folder. */
struct patrol_state {
	const struct patrol_rules *rules;
	char boot[64]; /* the ID of this boot, once the state was read */
	struct folder folder;
	struct patrol_processes processes;
	struct patrol_account account;
	struct patrol_visit visit;
	struct road *road; /* one for each of the rules */
	uint64_t visits[PATROL_TOOLS][PATROL_ENDS];
	struct patrol_count found[PATROL_KINDS];
	uint64_t found_more;	/* findings of further kinds */
	uint64_t findings_lost; /* above the limit of a visit, or too long to be read */
	double cpu_ns;		/* of earlier patrols */
	const char *idle;	/* why no visit runs; NULL: one does */
	bool is_dirty;
};

void patrol_state_read(struct patrol_state *s);
void patrol_state_write(struct patrol_state *s);
void patrol_state_count(struct patrol_state *s, const json_t *finding);
/* For the textfile collector of Prometheus's node exporter, as a whole. 0 or -errno. */
int patrol_metrics_write(const struct patrol_state *s, const char *path);
/* 0 or an exit status. */
int patrol_status_print(const struct folder *folder, bool as_json);

#endif
