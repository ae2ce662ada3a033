/* SPDX-License-Identifier: MIT */
/*
 * road.h - the way of findings to one receiver: the journal, a collector of OTLP, PostgreSQL, a
 * file.
 *
 * A finding waits in a spool on disk until its receiver has taken it. The spool has a limit: then
 * the oldest finding of the fingerprint that it has most often goes first, and is counted. A
 * receiver that is slow or dead delays nothing else. After a crash a finding may be sent twice,
 * with the same id.
 */
#ifndef CLI_PATROL_ROAD_H
#define CLI_PATROL_ROAD_H

#include "cli/patrol/patrol.h"
#include "cli/patrol/road_counts.h"
#include "cli/service/child.h"
#include "cli/service/folder.h"
#include "cli/service/journal.h"
#include "cli/service/rotated_file.h"

#include <jansson.h>

struct road_entry {
	char *line; /* JSON, without a line feed */
	size_t bytes;
	uint64_t key; /* of the fingerprint */
};

struct road {
	const struct patrol_road *rule;
	const struct folder *folder;
	struct road_entry *entry; /* oldest first */
	size_t count;
	size_t capacity;
	uint64_t bytes;
	struct road_counts counts; /* of the keys behind the batch */
	uint64_t sent;
	uint64_t dropped;		  /* the spool was full */
	uint64_t refused;		  /* the receiver takes others, and not these */
	char reason[PATROL_REASON_BYTES]; /* of the last failure; empty: it takes */
	struct journal journal;
	struct rotated_file file;
	/* The batch that is on its way, which is the first ones of entry: */
	struct child sender;
	size_t batch;
	size_t batch_most; /* smaller after a refusal */
	uint64_t batch_ns;
	uint64_t rejected;		/* of it, by a receiver that took the others */
	char said[PATROL_REASON_BYTES]; /* the last line of the sender */
	char code[8];			/* the status of HTTP */
	uint64_t next_ns;		/* not before this */
	uint64_t wait_ns;
	/* The spool on disk: */
	int spool; /* -1: not open */
	bool is_stale;
	bool has_news; /* its counters or its reason have changed */
	uint64_t wrote_ns;
};

/* Reads its spool. rule and folder stay the caller's. 0 or -errno. */
int road_open(struct road *r, const struct patrol_road *rule, const struct folder *folder);
/* The finding stays the caller's. */
void road_add(struct road *r, const json_t *finding);
/* Sends what it can; never waits. */
void road_step(struct road *r);
/* What is left stays in the spool. */
void road_close(struct road *r);

#endif
