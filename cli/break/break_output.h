/* SPDX-License-Identifier: MIT */
/* break_output.h - a call with all its names and values, and the sites for the summary. */
#ifndef CLI_BREAK_BREAK_OUTPUT_H
#define CLI_BREAK_BREAK_OUTPUT_H

#include "cli/break/break_calls.h"
#include "cli/observe/observe.h"
#include "report/code/code_sites.h"
#include "report/lang/signature.h"

struct break_output {
	struct run_calls calls;
	char what[256];
	char description[200];
};

/* Sets o->info; call this before the first hit. 0 or an exit status, line printed. */
int break_output_begin(struct observe *o, struct break_output *out, const struct code_sites *sites);
/*
 * s: of the process of the call; returned NULL: returns are not wanted, or the call has not
 * returned.
 */
void break_output_call(struct observe *o, struct symbols *s, const struct break_call *call,
		       const struct trapline_hit *returned, const struct signature *signature);
/* A call as a report has it, without its result; and its line. more->result_json is released. */
struct run_call break_output_call_of(const struct break_call *call);
void break_output_print(struct observe *o, const struct break_call *call, struct run_hit *hit,
			struct run_call *more);
void break_output_end(struct break_output *out);

#endif
