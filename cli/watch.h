/* SPDX-License-Identifier: MIT */
/* watch.h - what the files of `trapline watch` share. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "report/expression.h"
#include "report/symbols.h"
#include "report/value.h"

#include <trapline/trapline.h>

#include <stdbool.h>
#include <stdio.h>

#define WATCH_FRAMES_MAX 64

struct watch_settings {
	pid_t pid;
	const char *what;
	const char *list;   /* a pattern: tell what can be watched, and end */
	const char *thread; /* whose thread-local variable */
	const char *on;
	const char *condition; /* --if */
	int explain;
	uint64_t limit;
	uint64_t for_ns;
	uint64_t max_rate;
	int stack;
	int json;
	int no_bpf;
	const char *output;
	char **command; /* NULL: none */
};

/* What is watched, after look-up. */
struct watch_what {
	uint64_t address;
	size_t len;
	enum trapline_access access;
	char name[128]; /* for the user: `server+0x230` or the address */
	const char *module; /* NULL: unknown */
	struct value_view view; /* type NULL: not known */
	pid_t tid;		/* whose thread-local variable it is; 0: it is none */
	char through[200];	/* the pointers on the way, as they were read; empty: none */
};

/* Takes `WHAT` apart, finds it in the target and checks it. 0 or an exit status, line printed. */
int watch_what_resolve(struct symbols *s, const struct watch_settings *set,
		       struct watch_what *out);
/* Only --on and the form of WHAT: what can be told before there is a target. */
int watch_what_check(const struct watch_settings *set);
/* `enum state, 4 bytes at 0x5581...`: what is watched, in a few words. */
void watch_what_describe(const struct watch_what *what, char *buf, size_t n);

/* Print what can be watched. An exit status. */
int watch_list(struct symbols *s, const struct watch_settings *set);

/*
 * Starts a command and stops it where its program begins, all libraries loaded. Then
 * watch_start_go() lets it run, or watch_start_kill() ends it. Returns 0 with *pid, or an exit
 * status with a line printed.
 */
int watch_start(char **command, pid_t *pid);
void watch_start_go(pid_t pid);
void watch_start_kill(pid_t pid);

#define WATCH_NAMES 256

struct watch_names {
	struct watch_name {
		pid_t tid;
		uint64_t read_ns;
		char name[16];
	} slots[WATCH_NAMES]; /* by tid, the last one wins */
};

/* Gives a hit without a thread's name the one that the thread has now. */
void watch_names_fill(struct watch_names *names, struct trapline_hit *hit);

/* Keeps the hits per second under a limit by pausing the event. */
struct watch_pace {
	struct trapline_event *event;
	uint64_t budget; /* hits in a window; 0: no limit */
	uint64_t used;
	uint64_t window_end_ns;
	uint64_t paused_since_ns; /* 0: not paused */
	uint64_t paused_ns;
	uint64_t pauses;
};

void watch_pace_start(struct watch_pace *p, struct trapline_event *event, uint64_t max_rate);
void watch_pace_hit(struct watch_pace *p);
/* To be called often. Returns the milliseconds after which it wants to be called again. */
int watch_pace_tick(struct watch_pace *p);
void watch_pace_end(struct watch_pace *p);

/* Who hit where, how often. */
struct watch_tally {
	void *pairs; /* tsearch() tree of struct tally_pair */
	size_t count;
};

struct tally_pair {
	uint64_t ip;
	pid_t tid; /* 0: one of the threads that were too many to keep apart */
	uint64_t hits;
	bool after; /* as in watch_place() */
	char thread[16];
};

void watch_tally_add(struct watch_tally *t, const struct trapline_hit *hit);
/* All pairs in an array to be freed; NULL with *n 0 when there are none. */
struct tally_pair *watch_tally_pairs(const struct watch_tally *t, size_t *n);
void watch_tally_free(struct watch_tally *t);

/* Sums of pairs that have the same place, or the same thread. */
struct tally_sum {
	uint64_t ip;
	pid_t tid;
	uint64_t hits;
	size_t threads; /* or places */
	bool after;
	char thread[16];
};

/* Groups by place or by thread, most hits first; to be freed. */
struct tally_sum *watch_tally_sums(struct tally_pair *pairs, size_t n, bool by_thread,
				   size_t *out_n);

struct watch_output {
	FILE *text; /* NULL: none */
	FILE *json; /* NULL: none */
	bool color;
	bool status; /* a status line on stderr */
	bool status_shown;
	bool stack;
	const struct watch_what *what; /* hits of a part say which */
	int place_width;
	int thread_width;
	int value_width;
	uint64_t clock_offset_ns; /* wall clock minus CLOCK_MONOTONIC */
	uint64_t status_at_ns;
	uint64_t status_hits;
	uint64_t started_ns;
};

/* The values of a hit, and which part of the whole they are. */
struct value_part watch_part(const struct watch_what *what, const struct trapline_hit *hit);

/* 0 or an exit status, line printed. */
int watch_output_open(struct watch_output *o, const struct watch_settings *set);
void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit);
/* Everything out, and the status line afresh. False: nobody reads our output any more. */
bool watch_output_flush(struct watch_output *o, uint64_t hits, bool paused);
void watch_output_clear_status(struct watch_output *o);
void watch_output_close(struct watch_output *o);

/*
 * The place of a code address. after: it is the instruction after the one that is meant, as in a
 * hit whose access is done and in return addresses. Function and line are then those of the
 * instruction that is meant, while the offset is that of ip, as a disassembler shows it.
 */
void watch_place(struct symbols *s, uint64_t ip, bool after, struct place *out);
/* `function+0x12`, `module+0x4d2` or `0x55...`. */
void watch_format_place(const struct place *p, uint64_t address, char *buf, size_t n);
const char *watch_base_name(const char *path);
uint64_t watch_now_ns(void);

struct watch_end {
	const struct watch_what *what;
	const char *reason;
	struct trapline_stats stats;
	enum trapline_mechanism mechanism;
	uint64_t duration_ns;
	const struct watch_pace *pace;
	uint64_t max_rate;
	double price_ns; /* negative: not measured */
	char command[64]; /* how the command ended, when not with 0 */
};

void watch_summary(struct watch_output *o, struct symbols *s, const struct watch_tally *t,
		   const struct watch_end *end);

/* The price of one hit by this mechanism here, measured in a throwaway child; negative: no. */
double watch_price_ns(const struct watch_settings *set);

#endif
