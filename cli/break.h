/* SPDX-License-Identifier: MIT */
/* break.h - what the files of `trapline break` share. */
#ifndef CLI_BREAK_H
#define CLI_BREAK_H

#include "cli/output.h"
#include "cli/pace.h"
#include "report/code_sites.h"
#include "report/run.h"
#include "report/signature.h"
#include "report/symbols.h"

#include <trapline/trapline.h>

#include <stdbool.h>

#define BREAK_REGISTERS_MAX 4 /* hardware breakpoints */
#define BREAK_EVENTS_MAX (2 + BREAK_REGISTERS_MAX)
#define BREAK_BUCKETS 64

struct break_settings {
	pid_t pid;
	char **where;
	size_t where_count;
	const char *condition; /* --if */
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
	char **command; /* NULL: none */
};

/* What is known of one site in a run; by the index of the site. */
struct break_site {
	struct signature *signature; /* NULL: not looked for, or none */
	bool looked_for;
	uint64_t hits;
	uint64_t returns;
	uint64_t total_ns;
	uint64_t max_ns;
	uint64_t *buckets; /* BREAK_BUCKETS durations: n is 2^n ns and more; NULL: none yet */
};

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
	const struct code_site *site;
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
	bool with_ret; /* a call without a return has none yet */
};

/* returned NULL: it is told when it is entered. */
void break_output_call(struct break_output *o, struct symbols *s,
		       const struct break_call *call, const struct trapline_hit *returned,
		       const struct signature *signature);

struct break_end {
	const struct break_settings *set;
	const struct code_sites *sites;
	const struct break_site *site; /* by index of sites */
	const struct break_armed *armed;
	const struct break_calls *calls;
	const struct tally *functions;
	const struct tally *callers;
	struct run_end run;
	uint64_t hits;
	uint64_t beyond;    /* records that came after the limit was reached */
	double emulated_ns; /* negative: not measured */
	double stepped_ns;
	double hardware_ns;
};
void break_summary(struct break_output *o, const struct break_end *end);

/* The price of one hit on each kind of place, as far as it is used. */
enum break_price_kind {
	BREAK_PRICE_EMULATED,
	BREAK_PRICE_STEPPED,
	BREAK_PRICE_HARDWARE
};
double break_price_ns(const struct break_settings *set, enum break_price_kind kind);

/* `12.3 us` */
void break_duration(uint64_t ns, char *buf, size_t n);

#endif
