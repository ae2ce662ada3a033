/* SPDX-License-Identifier: MIT */
/*
 * run_call.h - a run of breakpoints as data: the sites, the calls, and their sums.
 *
 * A call is a hit, see run.h, with more members. Live output, `trapline report FILE` and the
 * summaries of both are made from these structures.
 */
#ifndef RUN_CALL_H
#define RUN_CALL_H

#include "report/run/run.h"

/* As enum code_site_kind, and one more. */
enum run_site_kind {
	RUN_SITE_FUNCTION,
	RUN_SITE_INLINED,
	RUN_SITE_LINE,
	RUN_SITE_ADDRESS,
	RUN_SITE_KERNEL, /* an event of the kernel */
	RUN_SITE_KINDS
};

/* It is called, and has a caller. */
static inline bool run_site_is_call(enum run_site_kind kind)
{
	return kind == RUN_SITE_FUNCTION || kind == RUN_SITE_KERNEL;
}

/* A site with a breakpoint. */
struct run_site {
	uint64_t address;
	const char *name;
	const char *module; /* NULL: no file behind it */
	enum run_site_kind kind;
	bool is_emulated;
	bool has_no_return; /* none of it is observed, no matter what is wanted */
};

/* What a hit of a breakpoint has beside struct run_hit. */
struct run_call {
	size_t site;	 /* index in struct run_calls */
	uint64_t caller; /* 0: not known */
	struct place caller_place;
	const char *args;    /* NULL: not wanted */
	const char *printed; /* instead of the function, the arguments and the caller; NULL: not */
	const char *key;     /* that hits are grouped by; NULL: none */
	json_t *args_json;
	bool args_later; /* memory of the process was read after the hit */
	bool has_result; /* of its return: else it has not returned, or returns are not wanted */
	bool has_no_duration; /* its begin was not seen */
	uint64_t duration_ns;
	const char *result; /* empty: it returns nothing */
	json_t *result_json;
};

#define RUN_BUCKETS 64

struct run_site_sums {
	uint64_t hits;
	uint64_t returns;
	uint64_t total_ns;
	uint64_t max_ns;
	uint64_t *buckets; /* RUN_BUCKETS durations: n is 2^n ns and more; NULL: none yet */
};

struct run_calls {
	const char *const *locations; /* as the user wrote them */
	size_t location_count;
	const char *description; /* `3 functions, 2 inlined copies` */
	bool with_results;
	struct run_site *site; /* in a recording only those that were hit */
	size_t site_count;
	uint64_t all_sites;
	uint64_t unresolved;
	uint64_t copies_left_out;
	/* Sums, made by run_calls_add(). */
	struct run_site_sums *sums; /* by index of site */
	struct tally functions;	    /* by index of site instead of an address */
	struct tally callers;
	struct tally processes; /* by process instead of a thread */
	uint64_t hits;
};

/* How it ended, beside struct run_end. */
struct run_calls_end {
	uint64_t emulated; /* sites with uprobes on instructions that the kernel emulates */
	uint64_t stepped;
	uint64_t hardware;
	uint64_t probes;      /* by a jump in the process */
	uint64_t traps;	      /* by an int3 there, where a jump does not fit */
	uint64_t tracepoints; /* programs in the kernel */
	uint64_t refused;
	const char *refused_names;
	double emulated_ns; /* cost of a hit; negative: not measured */
	double stepped_ns;
	double hardware_ns;
	double probe_ns;      /* of a hit that the condition rejects, or without one of any hit */
	const char *no_probe; /* why none was chosen, although CMD was started; NULL: not asked */
	/* machine code evaluates the condition, and counts no hit that it rejects */
	bool is_in_code;
	uint64_t beyond;	/* records that came after the limit was reached */
	uint64_t not_returned;	/* calls */
	uint64_t unpaired;	/* returns of calls that were not seen */
	uint64_t other_results; /* calls that --if rejected by their result */
};

/* 0 or -ENOMEM. After site and site_count are set. */
int run_calls_begin(struct run_calls *calls);
/* Only sums and tallies: the rest is the caller's. */
void run_calls_end_sums(struct run_calls *calls);
void run_calls_add(struct run_calls *calls, const struct run_hit *hit);

#define RUN_CALL_TEXT 2500
/* `lookup(n=5) = 16  12.3 us` */
void run_call_text(const struct run_calls *calls, const struct run_call *call, char *buf, size_t n);
/* `lookup = 16`, by which calls are grouped. */
void run_call_short_text(const struct run_calls *calls, const struct run_call *call, char *buf,
			 size_t n);
/* `12.3 us` */
void run_duration_text(uint64_t ns, char *buf, size_t n);

void run_text_call(struct run_text *o, const struct run_info *info, const struct run_calls *calls,
		   const struct run_hit *hit);
void run_text_calls_end(struct run_text *o, const struct run_calls *calls,
			const struct run_end *end, const struct run_calls_end *more);
void run_jsonl_call(FILE *f, const struct run_calls *calls, const struct run_hit *hit);
void run_jsonl_calls_end(FILE *f, const struct run_calls *calls, const struct run_end *end,
			 const struct run_calls_end *more);

#endif
