/* SPDX-License-Identifier: MIT */
/*
 * condition_names.h - conditions with names of the program.
 *
 * The language (trapline-condition(7)) knows numbers, registers and loads from memory. Names become
 * steps of it. `conn->state` is loaded by its pointer at each hit; a parameter or a local variable
 * is in a register or on the stack at its instruction. new and old have the sign, or the bits, of
 * the watched type.
 */
#ifndef REPORT_LANG_CONDITION_NAMES_H
#define REPORT_LANG_CONDITION_NAMES_H

#include "report/lang/expression.h"
#include "report/lang/result.h"
#include "report/lang/signature.h"
#include "report/lang/value.h"

#include <trapline/condition.h>

struct condition_names {
	struct symbols *symbols; /* NULL: there is no process yet, and only the form is checked */
	const char *thread;	 /* whose thread-local variables; NULL: not given */
	/*
	 * A condition that must be true as well, in the words of the language alone: no name of
	 * the program hides them. NULL: no other.
	 */
	const char *threads;
	struct value_view view; /* of the watched bytes; type NULL: not known */
	uint64_t len;		/* bytes watched */
	bool is_shared;		/* other processes may write them: the old value is not known */
	bool is_in_parts;	/* in several registers, of which a hit has the value of one */
	/* The function with the breakpoint, whose parameters are names too. NULL: none. */
	const struct signature *signature;
	/*
	 * Where the breakpoint is: inside of a function local variables are names too. NULL: at no
	 * location.
	 */
	const struct code_site *site;
	bool has_result;  /* parts about the result are taken out */
	bool has_vectors; /* a hit has vector registers: it is a probe's */
};

struct condition_parts {
	struct trapline_condition *entry; /* NULL: no condition is needed at the hit */
	struct result_tests result;
	bool has_parameters; /* entry is valid only for functions with the same parameters */
};

/*
 * A bit-field adds a condition of its own, that rejects writes to other bits of its bytes.
 * names->threads is joined to text by &&. text NULL: no other. 0, or -errno with *error, except for
 * -ENOMEM. trapline_condition_free() releases out->entry.
 */
int condition_make(const struct condition_names *names, const char *text,
		   struct condition_parts *out, struct expression_error *error);

/*
 * The steps, for an evaluator in another process. *counts_hits: it depends on the number of hits.
 * 0; -EINVAL: it counts other events, which that process does not have; -E2BIG.
 */
int condition_copy(const struct trapline_condition *condition, void *out, size_t size,
		   uint32_t *bytes, bool *counts_hits);

/* Whether a condition reads memory of the program; NULL: no. */
bool condition_reads_memory(const struct trapline_condition *condition);

/* Whether a condition reads vector registers, which BPF programs do not have; NULL: no. */
bool condition_reads_vectors(const struct trapline_condition *condition);

/*
 * Compares what a condition means with two sets of names. 0: the same; 1: not the same; -1: the
 * same with any names, since it has no parameter.
 */
int condition_compare(const struct condition_names *names, const struct condition_names *other,
		      const char *text);

#endif
