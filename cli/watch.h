/* SPDX-License-Identifier: MIT */
/* watch.h - what the files of `trapline watch` share. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "report/expression.h"
#include "report/run_file.h"
#include "report/symbols.h"
#include "report/value.h"

#include <trapline/trapline.h>

#include <stdbool.h>
#include <stdio.h>

#define WATCH_FRAMES_MAX 64

/* The command that runs, `watch` or `record`: its name begins each line about an error. */
extern const char *watch_command;

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
	const char *record; /* NULL: no recording */
	int no_stack;
	char **command; /* NULL: none */
};

/* Options and WHAT. 0, an exit status with a line printed, or -1: --help was printed. */
int watch_settings_read(struct watch_settings *set, int argc, char **argv);

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

/* From now on: at the same addresses and with the same guards in each run. */
void watch_start_alike(void);
/* No longer traced, but stopped by SIGSTOP. 0 or -errno. */
int watch_start_go_stopped(pid_t pid);
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

struct watch_output {
	struct run_text text;	   /* f NULL: none */
	FILE *json;		   /* NULL: none */
	struct run_writer *record; /* NULL: none */
	bool is_quiet;		   /* of the text only the summary */
	bool is_broken;		   /* writing failed */
	bool status;		   /* a status line on stderr */
	bool status_shown;
	bool stack;
	const struct watch_what *what; /* hits of a part say which */
	struct run_info info;
	struct tally tally;
	uint64_t status_at_ns;
	uint64_t status_hits;
	uint64_t started_ns;
};

/* The values of a hit, and which part of the whole they are. */
struct value_part watch_part(const struct watch_what *what, const struct trapline_hit *hit);

/* 0 or an exit status, line printed. */
int watch_output_open(struct watch_output *o, const struct watch_settings *set);
/* To be called when what is watched is known, before the first hit. */
void watch_output_begin(struct watch_output *o, const struct watch_what *what,
			const struct watch_settings *set);
/* From here on into a file too. 0 or an exit status, line printed. */
int watch_output_record(struct watch_output *o, const char *path);
void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit);
/* Everything out, and the status line afresh. False: nobody reads our output any more. */
bool watch_output_flush(struct watch_output *o, uint64_t hits, bool paused);
void watch_output_end(struct watch_output *o, const struct run_end *end);
void watch_output_clear_status(struct watch_output *o);
void watch_output_close(struct watch_output *o);

uint64_t watch_now_ns(void);

/* What the library counted, under the names that the user sees. */
void watch_stats(struct trapline_event *event, struct run_end *end);

/* The price of one hit by this mechanism here, measured in a throwaway child; negative: no. */
double watch_price_ns(const struct watch_settings *set);

#endif
