/* SPDX-License-Identifier: MIT */
/*
 * run.h - one run of a command as data: how it began, its hits, how it ended.
 *
 * Names are looked up and values are formatted when a hit comes, since the process may end a moment
 * later. Live output and `trapline report FILE` print the same structures.
 */
#ifndef REPORT_RUN_RUN_H
#define REPORT_RUN_RUN_H

#include "report/dwarf/symbols.h"
#include "report/json_text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define RUN_ACCESS_EXECUTE 4 /* beside 1 reads, 2 writes */
#define RUN_FRAMES_MAX 128   /* with inlined functions */

struct run_call;
struct run_groups;
struct run_objects;
struct run_multiplex;

struct run_frame {
	uint64_t ip;
	struct place place;
	bool is_inlined; /* into the function of a later frame that has the same ip */
};

struct run_info {
	const char *what;	/* as the user named it */
	const char *process;	/* its name */
	const char *value_type; /* NULL: not known */
	pid_t pid;
	uint8_t access; /* 1 reads, 2 writes, 3 both; RUN_ACCESS_EXECUTE */
	uint64_t address;
	uint64_t len;
	bool is_bit_field;
	bool is_several;     /* several expressions or objects: address and len are not valid */
	uint64_t started_ns; /* CLOCK_MONOTONIC, as times of hits */
	uint64_t clock_offset_ns; /* to be added for the time of day */
};

struct run_hit {
	uint64_t time_ns;
	uint64_t unix_ns; /* the time of day, since 1970; 0: not known */
	pid_t pid;
	pid_t tid;
	char thread[16];
	const char *process; /* its name; NULL: there is one process only */
	uint64_t ip;
	struct place place;
	uint64_t address;
	uint32_t len;
	uint8_t access;
	uint8_t value_when; /* 0 none, 1 at the hit, 2 later */
	bool is_async;
	bool old_known;
	uint64_t old_value;
	uint64_t new_value;
	const char *change; /* `OPEN -> CLOSED` */
	bool is_typed;	    /* the change has a type and names its part of the whole */
	json_t *value;	    /* as in the JSON lines; NULL: the type is not known */
	/* the kernel did it for the thread; the location is that of the system call */
	bool is_by_kernel;
	const char *syscall; /* name of the system call; NULL: none, or not known */
	const char *via; /* memory function of libc that the location called, see writer.h; NULL */
	const char *of;	 /* the expression or object that was hit; NULL: there is only one */
	bool is_object;	 /* of: the address of an object */
	const struct run_frame *frames; /* innermost first; none without --stack */
	size_t frame_count;
	const struct run_call *call; /* of code that was broken on, see run_call.h; NULL: of data */
};

#define RUN_COUNTS_MAX 16

struct run_count {
	const char *name;
	uint64_t value;
	bool is_lost; /* else rejected */
};

/* Reasons for the end. The user asked for the first three, which the headline does not repeat. */
#define RUN_ENDED_LIMIT "the limit was reached"
#define RUN_ENDED_TIME "the time is over"
#define RUN_ENDED_SIGNAL "interrupted"
#define RUN_ENDED_OUTPUT "an output cannot be written"

struct run_end {
	const char *reason;
	const char *command; /* how it ended, when not with 0; NULL */
	const char *mechanism;
	const char *evaluated_in; /* where the condition was evaluated; NULL: there was none */
	uint64_t condition_faults;
	uint64_t taken;
	uint64_t delivered;
	uint64_t unread;
	struct run_count counts[RUN_COUNTS_MAX];
	size_t count_count;
	double cost_ns; /* negative: not measured */
	uint64_t duration_ns;
	uint64_t pauses;
	uint64_t paused_ns;
	uint64_t max_rate;
	uint64_t not_printed; /* hits that a terminal did not get, and the tables have */
	uint64_t lines_per_second;
	uint64_t rests; /* to stay within the budget */
	uint64_t rested_ns;
	uint64_t budget_ppm; /* of a CPU; 0: none */
	uint64_t while_off;  /* hits in pauses, of breakpoints that stay in the code; not taken */
	const struct run_objects *objects;     /* see run_watch.h; NULL: none */
	const struct run_multiplex *multiplex; /* NULL: none */
	const struct run_groups *groups;       /* of --by, see groups.h; NULL: none */
	bool is_stopped;		       /* the process was stopped when the run ended */
	bool sees_kernel;		       /* accesses by the kernel are hits */
	uint64_t unseen_changes;	       /* of the value, without a hit: at least so many */
};

/* Counts of hits by site and by thread, in memory that is limited. */
struct tally {
	void *pairs; /* tsearch() tree of struct tally_pair */
	size_t count;
};

struct tally_pair {
	uint64_t ip;
	pid_t tid; /* 0: one of the threads that were too many to keep apart */
	uint64_t hits;
	struct place place; /* of ip */
	char thread[16];
};

struct tally_sum {
	uint64_t ip;
	pid_t tid;
	uint64_t hits;
	size_t others; /* threads of a site, or sites of a thread */
	struct place place;
	char thread[16];
};

void tally_add(struct tally *t, const struct run_hit *hit);
/* Sums by site or by thread, most hits first; to be freed. NULL with *n 0: none. */
struct tally_sum *tally_sums(const struct tally *t, bool by_thread, size_t *n);
/* By process: the location, if it is valid, and the thread are those of the process. */
void tally_add_process(struct tally *t, const struct run_hit *hit);
void tally_free(struct tally *t);

/* Text for people. */
struct run_text {
	FILE *f;
	bool has_color;
	bool is_verbose;    /* the summary has the bookkeeping */
	bool has_explained; /* what '?' means */
	size_t frames_max;  /* of each stack; 0: all */
	size_t rows_max;    /* of each table; 0: RUN_TEXT_ROWS */
	int place_width;
	int thread_width;
	int value_width;
};
#define RUN_TEXT_ROWS 20 /* of a table, unless --top; JSON has all */
void run_text_hit(struct run_text *o, const struct run_info *info, const struct run_hit *hit);
void run_text_end(struct run_text *o, const struct run_info *info, const struct run_end *end,
		  const struct tally *tally);

/* One JSON object a line; trapline-watch(1) describes it. */
void run_jsonl_hit(FILE *f, const struct run_hit *hit);
void run_jsonl_end(FILE *f, const struct run_info *info, const struct run_end *end,
		   const struct tally *tally);

/* The parts of these. */
json_t *run_jsonl_hit_begin(const struct run_hit *hit); /* up to the address */
/* One frame of a folded stack, with the ';' before it. */
void run_folded_frame(FILE *f, const struct run_frame *frame);
json_t *run_jsonl_frames(const struct run_frame *frames, size_t count);
json_t *run_jsonl_sites(const struct tally *tally);
json_t *run_jsonl_threads(const struct tally *tally);
json_t *run_jsonl_processes(const struct tally *processes);
void run_jsonl_totals(json_t *to, const struct run_end *end);

/* `function+0x12`, `module+0x4d2` or `0x55...`. */
void run_place_text(const struct place *p, uint64_t address, char *buf, size_t n);
/*
 * ` (same code as may_read)` or ` (same code as may_read and 2 more)`; empty: it has its code
 * alone.
 */
void run_same_code_text(const struct place *p, char *buf, size_t n);
/* The two, and ` (file.c:12)` when that is known. */
void run_place_text_with_line(const struct place *p, uint64_t address, char *buf, size_t n);
/* `by the kernel in read`, `by memset`, or nothing. */
void run_hit_by_text(const struct run_hit *hit, char *buf, size_t n);
/* The new value as a number for a curve; false: it is not a number. */
bool run_hit_number(const struct run_hit *hit, double *out);

#endif
