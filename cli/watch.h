/* SPDX-License-Identifier: MIT */
/* watch.h - what the files of `trapline watch` share. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/output.h"
#include "cli/pace.h"
#include "report/expression.h"
#include "report/run_file.h"
#include "report/symbols.h"
#include "report/value.h"

#include <trapline/trapline.h>

#include <stdbool.h>
#include <stdio.h>

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
	int kernel;
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

struct watch_output {
	struct output to;
	struct run_writer *record; /* NULL: none */
	bool is_quiet;		   /* of the text only the summary */
	bool is_broken;		   /* writing failed */
	bool stack;
	const struct watch_what *what; /* hits of a part say which */
	struct run_info info;
	struct tally tally;
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
void watch_output_end(struct watch_output *o, const struct run_end *end);
void watch_output_close(struct watch_output *o);

/* The price of one hit by this mechanism here, measured in a throwaway child; negative: no. */
double watch_price_ns(const struct watch_settings *set);

#endif
