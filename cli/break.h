/* SPDX-License-Identifier: MIT */
/* break.h - what the files of `trapline break` share. */
#ifndef CLI_BREAK_H
#define CLI_BREAK_H

#include "cli/output.h"
#include "cli/pace.h"
#include "report/code_sites.h"
#include "report/run_call.h"
#include "report/run_file.h"
#include "report/signature.h"
#include "report/symbols.h"

#include <trapline/trapline.h>

#include <stdbool.h>

#define BREAK_REGISTERS_MAX 4 /* hardware breakpoints */
#define BREAK_EVENTS_MAX (2 + BREAK_REGISTERS_MAX)

/* The command that runs, `break` or `record`: its name begins each line about an error. */
extern const char *break_command;

#define BREAK_RESULT_TESTS 8

/* `ret < 0` */
struct break_result_test {
	int op;
	int64_t value;
	char name[64]; /* of a constant; empty: the value */
};

struct break_settings {
	pid_t pid;
	char **where;
	size_t where_count;
	const char *condition; /* --if, without what is about the result */
	char *entry_text;      /* which that may point to */
	struct break_result_test result_test[BREAK_RESULT_TESTS];
	size_t result_tests;
	int explain;
	int list;
	int args;
	int ret;
	int stack;
	int inlined;
	uint64_t limit;
	uint64_t for_ns;
	uint64_t max_rate;
	int json;
	int no_bpf;
	const char *output;
	const char *record; /* NULL: no recording */
	int is_break;	    /* of `record`: said by --break */
	int no_stack;
	char **command; /* NULL: none */
};

/* Options and WHERE. 0, an exit status with a line printed, or -1: --help was printed. */
int break_settings_read(struct break_settings *set, int argc, char **argv);

/* Cuts out of --if what is about the result. 0 or an exit status, line printed. */
int break_result_split(struct break_settings *set);
/* Can the result of a function be compared so? 0 or an exit status, line printed. */
int break_result_check(const struct break_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function);
bool break_result_holds(const struct break_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned);

/* Look up all WHERE. 0 or an exit status, line printed; notes tell what is left out. */
int break_find(struct symbols *s, const struct break_settings *set, struct output *o,
	       struct code_sites *sites);
/* Only their form. */
int break_check(const struct break_settings *set);
/* `3 functions and 2 inlined copies` */
void break_describe(const struct code_sites *sites, char *buf, size_t n);
/* --list */
void break_print_list(struct symbols *s, const struct code_sites *sites,
		      struct output *o);

/* The events of a run. */
struct break_armed {
	struct trapline_event *event[BREAK_EVENTS_MAX];
	size_t count;
	size_t emulated; /* places with uprobes on instructions that the kernel emulates */
	size_t stepped;	 /* and on others */
	size_t hardware; /* places with hardware breakpoints */
	size_t refused;	 /* places where neither works */
	char refused_names[200];
};

/* 0 or an exit status, line printed. texts: registers whose text is wanted. */
struct session;
int break_arm(struct trapline *target, const struct session *session,
	      const struct break_settings *set, const struct code_sites *sites,
	      const struct trapline_event_opts *opts, struct break_armed *armed);

/* A value as it travels, in a hit. */
struct break_values {
	struct symbols *s;
	const struct trapline_hit *hit;
	bool later; /* becomes true when memory of the target was read only now */
};
/* `a=1, s=0x5581c0 "text"`; buf is filled as far as it goes. */
void break_args_text(struct break_values *v, const struct signature *signature, char *buf,
		     size_t n);
json_t *break_args_json(struct break_values *v, const struct signature *signature);
/* Empty and null for a function that returns nothing; signature NULL: not known. */
void break_result_text(struct break_values *v, const struct signature *signature,
		       char *buf, size_t n);
json_t *break_result_json(struct break_values *v, const struct signature *signature);
/* The registers that lead to text, a bit each. */
uint32_t break_texts(const struct signature *signature, bool of_result);

/* A call of a function, as it is told: at once, or when it has returned. */
struct break_call {
	size_t site; /* index in the sites */
	struct trapline_hit
		hit; /* of the call: no memory behind its pointers is valid any more */
	uint64_t caller;	  /* 0: not known */
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
	uint64_t dropped; /* so many calls that never returned, that the oldest were forgotten */
	uint64_t unpaired; /* returns whose call was not seen */
	uint64_t trampoline; /* where return addresses lead that the kernel replaced; 0: unknown */
	uint64_t trampoline_end;
};

/* Keeps the call; the table owns it. */
void break_calls_enter(struct break_calls *calls, struct break_call *call);
/* The call that has returned, taken out; NULL: not seen. */
struct break_call *break_calls_return(struct break_calls *calls,
				      const struct trapline_hit *hit);
/*
 * The kernel replaces return addresses of calls whose return is wanted. The real one of a hit's
 * caller; and those in a copy of a stack.
 */
uint64_t break_calls_real_caller(struct break_calls *calls,
				 const struct trapline_hit *hit);
void break_calls_mend_stack(struct break_calls *calls, const struct trapline_hit *hit,
			    void *stack);
/* All calls that have not returned, oldest first, to be freed each and as an array. */
size_t break_calls_take(struct break_calls *calls, struct break_call ***out);
void break_calls_free(struct break_calls *calls);

struct break_output {
	struct output to;
	struct run_writer *record; /* NULL: none */
	bool is_quiet;		   /* of the text only the summary */
	bool is_broken;		   /* writing failed */
	struct run_info info;
	struct run_calls calls;
	char what[256];
	char description[200];
};

/* 0 or an exit status, line printed. */
int break_output_open(struct break_output *o, const struct break_settings *set);
/* When the places are known, before the first hit. 0 or an exit status, line printed. */
int break_output_begin(struct break_output *o, const struct break_settings *set, pid_t pid,
		       const struct code_sites *sites);
/* returned NULL: it is told when it is entered, or has not returned. */
void break_output_call(struct break_output *o, struct symbols *s,
		       const struct break_call *call, const struct trapline_hit *returned,
		       const struct signature *signature);
void break_output_end(struct break_output *o, const struct run_end *end,
		      const struct run_calls_end *more);
void break_output_close(struct break_output *o);

/* The price of one hit on each kind of place, as far as it is used. */
enum break_price_kind {
	BREAK_PRICE_EMULATED,
	BREAK_PRICE_STEPPED,
	BREAK_PRICE_HARDWARE
};
double break_price_ns(const struct break_settings *set, enum break_price_kind kind);

#endif
