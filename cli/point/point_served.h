/* SPDX-License-Identifier: MIT */
/*
 * point_served.h - one point in the collector: its child, its lines and its counters.
 *
 * It waits for a process of the name, arms, and stays armed over restarts of the program. A refusal
 * is tried again in a new process, since that may run another program.
 */
#ifndef CLI_POINT_POINT_SERVED_H
#define CLI_POINT_POINT_SERVED_H

#include "cli/point/point_sink.h"
#include "cli/service/child.h"

struct served {
	struct point point;
	struct point_status status;
	struct child observer; /* `trapline break --name ... --json` */
	struct point_sinks *sinks;
	bool is_invalid; /* its file cannot be read */
	bool is_there;	 /* in the folder, when it was read last */
	bool is_over;	 /* removed or expired: its child ends */
	bool is_expired;
	bool is_dirty;	  /* the status has changed since it was written */
	bool is_starting; /* its child is not armed yet */
	bool is_stale;	  /* the program was replaced: the child ends, and another one begins */
	/* The lines in this period of --rate: */
	uint64_t rate_from_ns;
	uint64_t rate_used;
	uint64_t left_out; /* by --rate, since the last line that was sent */
	/* The processes: */
	pid_t first;			  /* that the child reads, or the candidate */
	uint64_t files;			  /* of that one */
	uint64_t layout;		  /* of the candidate, at the last look */
	uint64_t next_ns;		  /* not before this */
	uint64_t wait_ns;		  /* between two tries */
	char refusal[POINT_REASON_BYTES]; /* of this child */
};

/* After each reading of the processes: those of its name, of which first is the lowest; 0: none. */
void served_look(struct served *s, const pid_t *pids, size_t count, bool may_start);
/* Reads what the child wrote. */
void served_read(struct served *s);
/* True: it has no child now. */
bool served_is_idle(const struct served *s);
/* A line about the point itself, such as its end, to its receiver. */
void served_report(struct served *s, const char *event);
void served_release(struct served *s);

#endif
