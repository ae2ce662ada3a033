/* SPDX-License-Identifier: MIT */
/* watch.h - what the files of `trapline watch` share. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#define WATCH_REGISTERS 4

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
	const char *what;    /* the first */
	char **whats;	     /* all of them */
	size_t what_count;
	const char *at;	     /* objects are found where; NULL: WHAT is a place */
	const char *watch;   /* what of an object: WHAT, in other words */
	const char *until;   /* where objects end; NULL: not said */
	uint64_t rotate_ns;  /* places or objects take turns; 0: not */
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
struct expression;
struct expression_place;
/* The same when the place has been found. */
int watch_what_choose(struct symbols *s, const struct watch_settings *set,
		      const struct expression *e, const struct expression_place *p,
		      struct watch_what *out);
int watch_what_access(const char *on, enum trapline_access *out);
int watch_what_parse(const char *text, struct expression **out);
/* `column 3: ...`, of WHAT. */
struct expression_error;
int watch_what_wrong(const char *what, const struct expression_error *error);
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
	struct run_info info;
	struct tally tally;
};

/* Which of several a hit is of. */
struct watch_which {
	const struct watch_what *what;
	const char *name; /* NULL: there is only one */
	bool is_object;
	uint64_t *hits; /* to be counted when it is told; NULL: not */
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
void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit,
		      const struct watch_which *which);
void watch_output_end(struct watch_output *o, const struct run_end *end);
void watch_output_close(struct watch_output *o);

/* The price of one hit by this mechanism here, measured in a throwaway child; negative: no. */
double watch_price_ns(const struct watch_settings *set);

#endif
