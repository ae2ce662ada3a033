/* SPDX-License-Identifier: MIT */
/* observe_settings.h - what the options of watch, break and record state. */
#ifndef CLI_OBSERVE_OBSERVE_SETTINGS_H
#define CLI_OBSERVE_OBSERVE_SETTINGS_H

#include "cli/opts.h"
#include "report/lang/result.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct observe_settings {
	const char *name;     /* of the command: it begins each line about an error */
	int is_code;	      /* `record --code` */
	int is_break;	      /* `break`, or `record --break` */
	pid_t pid;	      /* the first of them */
	struct opt_pids pids; /* of -p or --name; empty: a command */
	const char *process_name;
	bool waits_again; /* a process of that name ended before it could be observed */
	int follow;
	char **command;	 /* NULL: none */
	char **operands; /* each EXPR or LOCATION */
	size_t operand_count;
	const char *condition; /* --if; of a break without the parts that compare the result */
	const char *threads;   /* names and IDs; NULL: all threads */
	char *only_threads;    /* the condition of --threads; NULL: all threads */
	int explain;
	int list;
	int stack;
	int no_stack;
	uint64_t frames; /* of each stack, in text; 0: all */
	uint64_t limit;
	uint64_t for_ns;
	uint64_t max_rate;
	uint64_t lines_per_second; /* on a terminal; 0: no limit */
	double budget;		   /* percent of a CPU in the target; 0: no limit */
	int json;
	int no_bpf;
	int verbose;
	const char *then;      /* NULL: nothing */
	uint64_t last;	       /* hits that are printed at the end; 0: each at once */
	const char *until_hit; /* a location in the code; NULL: none */
	int summary;
	const char *by; /* a word of RUN_GROUPS_BY, of break an expression too; NULL: none */
	uint64_t top;	/* rows of a table; 0: the default */
	int debuginfod;
	const char *output;
	const char *record; /* NULL: no recording */
	/* for watch: */
	const char *expr;  /* the EXPR in question, one of operands */
	const char *from;  /* the function that objects come through; NULL: EXPR is in memory now */
	const char *until; /* where objects end; NULL: not given */
	double stall;	   /* percent of the run in which threads are stalled; 0: the default */
	int no_stall;
	/* chunks or objects share the registers in time slices; 0: they do not */
	uint64_t slice_ns;
	const char *thread; /* whose thread-local variable */
	const char *on;
	int kernel;
	int at_writers;
	/* for break: */
	int args;
	int ret;
	int inlined;
	int pending;
	const char *print;	/* the text of a hit, with values in braces; NULL: the usual line */
	struct opt_list redact; /* names of values that no output has */
	int trace;
	uint64_t depth;		    /* of --trace; 0: no limit */
	const char *mechanism;	    /* NULL: chosen here */
	struct result_tests result; /* the parts of condition that compare the result */
};

#endif
