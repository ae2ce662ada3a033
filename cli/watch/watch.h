/* SPDX-License-Identifier: MIT */
/* watch.h - what the files of `trapline watch` share. */
#ifndef CLI_WATCH_WATCH_H
#define CLI_WATCH_WATCH_H

#define WATCH_REGISTERS 4

#include "cli/observe/pace.h"
#include "cli/output.h"
#include "report/dwarf/symbols.h"
#include "report/lang/expression.h"
#include "report/lang/value.h"
#include "report/run/run_file.h"

#include <trapline/trapline.h>

#include <stdbool.h>
#include <stdio.h>

/* The command that runs, `watch` or `record`: its name begins each line about an error. */
extern const char *watch_command;

struct watch_settings {
	pid_t pid;
	const char *expr; /* the first EXPR */
	char **exprs;	  /* all of them */
	size_t expr_count;
	const char *from;  /* the function that objects come through; NULL: EXPR is in memory now */
	const char *until; /* where objects end; NULL: not given */
	uint64_t slice_ns; /* chunks or objects share the registers in time slices; 0: they do not */
	int list;	   /* print the variables that match, and end */
	const char *thread; /* whose thread-local variable */
	const char *on;
	const char *condition; /* --if */
	int explain;
	uint64_t limit;
	uint64_t for_ns;
	uint64_t max_rate;
	int stack;
	uint64_t frames; /* of each stack, in text; 0: all */
	int json;
	int no_bpf;
	int kernel;
	int verbose;
	const char *output;
	const char *record; /* NULL: no recording */
	int no_stack;
	char **command; /* NULL: none */
};

/* Options and EXPR. 0, an exit status with a line printed, or -1: --help was printed. */
int watch_settings_read(struct watch_settings *set, int argc, char **argv);
/* EXPR was once the argument of an option: removes `--watch` and `-w`. Returns the new argc. */
int watch_settings_cut_old(int argc, char **argv);
/* EXPR are argv[first] and on; the options have been read. 0 or an exit status, line printed. */
int watch_settings_check(struct watch_settings *set, int argc, char **argv, int first);
/* The whole run. An exit status. */
int watch_run(const struct watch_settings *set);

/* An expression after its look-up. */
struct watch_expr {
	uint64_t address;
	size_t len;
	enum trapline_access access;
	char name[128];		/* for the user: `server+0x230` or the address */
	const char *module;	/* NULL: unknown */
	struct value_view view; /* type NULL: not known */
	pid_t tid;		/* whose thread-local variable it is; 0: it is none */
	char through[200];	/* the pointers of the path with their values; empty: none */
};

/* Parses EXPR, finds it in the target and checks it. 0 or an exit status, line printed. */
int watch_expr_resolve(struct symbols *s, const struct watch_settings *set, struct watch_expr *out);
struct expression;
struct expression_place;
/* The same after the expression has been resolved. */
int watch_expr_choose(struct symbols *s, const struct watch_settings *set,
		      const struct expression *e, const struct expression_place *p,
		      struct watch_expr *out);
int watch_expr_access(const char *on, enum trapline_access *out);
int watch_expr_parse(const char *text, struct expression **out);
/* Prints an error of EXPR with its column. Returns an exit status. */
struct expression_error;
int watch_expr_wrong(const char *expr, const struct expression_error *error);
/* Checks --on and the form of EXPR, before there is a target. */
int watch_expr_check(const struct watch_settings *set);
/* `enum state, 4 bytes at 0x5581...` */
void watch_expr_describe(const struct watch_expr *expr, char *buf, size_t n);

/* Prints the variables that match. An exit status. */
int watch_list(struct symbols *s, const struct watch_settings *set);

struct watch_output {
	struct output to;
	bool stack;
	struct run_info info;
	struct tally tally;
};

/* The expression or object that a hit belongs to. */
struct watch_which {
	const struct watch_expr *expr;
	const char *name; /* NULL: there is only one */
	bool is_object;
	uint64_t *hits; /* the counter of this expression; NULL: none */
};

/* 0 or an exit status, line printed. */
int watch_output_open(struct watch_output *o, const struct watch_settings *set);
/* Call this when the expression is known, before the first hit. */
void watch_output_begin(struct watch_output *o, const struct watch_expr *expr,
			const struct watch_settings *set);
void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit,
		      const struct watch_which *which);
void watch_output_end(struct watch_output *o, const struct run_end *end);
void watch_output_close(struct watch_output *o);

/* The cost of one hit in ns, measured in a child; negative: not measured. */
double watch_cost_ns(const struct watch_settings *set);

#endif
