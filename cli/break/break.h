/* SPDX-License-Identifier: MIT */
/* break.h - what the files of `trapline break` share. */
#ifndef CLI_BREAK_BREAK_H
#define CLI_BREAK_BREAK_H

#include "cli/observe/pace.h"
#include "cli/output.h"
#include "report/code/code_sites.h"
#include "report/dwarf/symbols.h"
#include "report/lang/result.h"
#include "report/lang/signature.h"
#include "report/run/run_call.h"
#include "report/run/run_file.h"

#include <trapline/trapline.h>

#include <stdbool.h>

#define BREAK_REGISTERS_MAX 4 /* hardware breakpoints */
#define BREAK_EVENTS_MAX (2 + BREAK_REGISTERS_MAX)

/* The command that runs, `break` or `record`: its name begins each line about an error. */
extern const char *break_command;

struct break_settings {
	pid_t pid;
	char **locations;
	size_t location_count;
	const char *condition;	    /* --if */
	struct result_tests result; /* the parts of it that compare the result */
	int explain;
	int list;
	int args;
	int ret;
	int stack;
	uint64_t frames; /* of each stack, in text; 0: all */
	int inlined;
	uint64_t limit;
	uint64_t for_ns;
	uint64_t max_rate;
	int json;
	int no_bpf;
	int verbose;
	const char *output;
	const char *record; /* NULL: no recording */
	int no_stack;
	char **command; /* NULL: none */
};

/* Options and LOCATION. 0, an exit status with a line printed, or -1: --help was printed. */
int break_settings_read(struct break_settings *set, int argc, char **argv);
/* LOCATION are argv[first] and on; the options have been read. 0 or an exit status, line printed. */
int break_settings_check(struct break_settings *set, int argc, char **argv, int first);
/* The whole run. An exit status. */
int break_run(const struct break_settings *set);

/* Checks that the result of a function can be compared so. 0 or an exit status, line printed. */
int break_result_check(const struct break_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function);
bool break_result_holds(const struct break_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned);

/* Look up all LOCATION. 0 or an exit status, line printed; notes report what is left out. */
int break_find(struct symbols *s, const struct break_settings *set, struct output *o,
	       struct code_sites *sites);
/* Checks only the form of each LOCATION. */
int break_check(const struct break_settings *set);
/* `3 functions and 2 inlined copies` */
void break_describe(const struct code_sites *sites, char *buf, size_t n);
/* --list */
void break_print_list(struct symbols *s, const struct code_sites *sites, struct output *o);

/* The events of a run. */
struct break_armed {
	struct trapline_event *event[BREAK_EVENTS_MAX];
	size_t count;
	size_t emulated; /* sites with uprobes on instructions that the kernel emulates */
	size_t stepped;	 /* sites with uprobes on other instructions */
	size_t hardware; /* sites with hardware breakpoints */
	size_t refused;	 /* sites where neither works */
	char refused_names[200];
	bool *no_return; /* by index of sites, with --ret: no return of it is reported */
};

/* 0 or an exit status, line printed. */
struct session;
int break_arm(struct trapline *target, const struct session *session,
	      const struct break_settings *set, const struct code_sites *sites,
	      const struct trapline_event_opts *opts, struct break_armed *armed);

/* What a value of a hit is read from. */
struct break_values {
	struct symbols *s;
	const struct trapline_hit *hit;
	bool later; /* becomes true when memory of the target is read after the hit */
};
/* `a=1, s=0x5581c0 "text"`; what does not fit in buf is cut. */
void break_args_text(struct break_values *v, const struct signature *signature, char *buf,
		     size_t n);
json_t *break_args_json(struct break_values *v, const struct signature *signature);
/* The result is empty or null for a function that returns nothing; signature NULL: not known. */
void break_result_text(struct break_values *v, const struct signature *signature, char *buf,
		       size_t n);
json_t *break_result_json(struct break_values *v, const struct signature *signature);
/* The registers that point to text, one bit for each. */
uint32_t break_texts(const struct signature *signature, bool of_result);

/* A call of a function. It is printed at once, or when it has returned. */
struct break_call {
	size_t site;		 /* index in the sites */
	struct trapline_hit hit; /* of the call; the memory that its pointers point to is not valid */
	uint64_t caller;	 /* 0: not known */
	struct run_frame *frames; /* NULL: none */
	size_t frame_count;
	char *args_text; /* NULL: not wanted */
	json_t *args_json;
	bool args_later;
	struct break_call *older; /* in the same thread */
};
void break_call_free(struct break_call *call);

/* Calls that have not returned. */
struct break_calls {
	void *threads; /* tsearch() tree */
	size_t open;
	uint64_t not_returned; /* when the run ended */
	uint64_t dropped;      /* the oldest, when too many calls never returned */
	uint64_t unpaired;     /* returns whose call was not seen */
};

/* Keeps the call, which the table owns from now on. */
void break_calls_enter(struct break_calls *calls, struct break_call *call);
/* Removes and returns the call that has returned; NULL: it was not seen. */
struct break_call *break_calls_return(struct break_calls *calls, const struct trapline_hit *hit);
/* Takes all calls that have not returned, oldest first. The caller frees each, and the array. */
size_t break_calls_take(struct break_calls *calls, struct break_call ***out);
void break_calls_free(struct break_calls *calls);

struct break_output {
	struct output to;
	struct run_info info;
	struct run_calls calls;
	char what[256];
	char description[200];
};

/* 0 or an exit status, line printed. */
int break_output_open(struct break_output *o, const struct break_settings *set);
/* Call this when the sites are known, before the first hit. 0 or an exit status, line printed. */
int break_output_begin(struct break_output *o, const struct break_settings *set, pid_t pid,
		       const struct code_sites *sites);
/* returned NULL: returns are not wanted, or the call has not returned. */
void break_output_call(struct break_output *o, struct symbols *s, const struct break_call *call,
		       const struct trapline_hit *returned, const struct signature *signature);
void break_output_end(struct break_output *o, const struct run_end *end,
		      const struct run_calls_end *more);
void break_output_close(struct break_output *o);

/* Measures the cost of one hit at a kind of site. */
enum break_cost_kind {
	BREAK_COST_EMULATED,
	BREAK_COST_STEPPED,
	BREAK_COST_HARDWARE
};
double break_cost_ns(const struct break_settings *set, enum break_cost_kind kind);

#endif
