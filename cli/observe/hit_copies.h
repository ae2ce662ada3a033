/* SPDX-License-Identifier: MIT */
/*
 * hit_copies.h - which memory the text of a value needs from the hit: the value itself, if it is in
 * memory, and the text and elements that it leads to.
 *
 * What does not fit is read later, and marked.
 */
#ifndef CLI_OBSERVE_HIT_COPIES_H
#define CLI_OBSERVE_HIT_COPIES_H

#include "report/lang/expression.h"
#include "report/lang/signature.h"

#include <trapline/trapline.h>

#include <stdbool.h>

struct hit_copies {
	struct trapline_memory row[TRAPLINE_MEMORY_MAX];
	size_t count;
	uint64_t site;	 /* that the next ones are for */
	uint32_t texts;	 /* registers whose text is copied anyway */
	bool is_several; /* processes: each has its own addresses, and globals are read later */
	enum hit_copies_at {
		HIT_COPIES_CALL,
		HIT_COPIES_RETURN,
		HIT_COPIES_EXIT, /* results too, at a location of its own: Go */
	} at;
};

/* A parameter, a result, a local variable: with all that its text contains. */
void hit_copies_value(struct hit_copies *c, const struct signature_value *v);
/* What a path leads to, and each pointer on the way. */
void hit_copies_place(struct hit_copies *c, const struct expression_place *p);
/* All parameters, or the results. */
void hit_copies_signature(struct hit_copies *c, const struct signature *signature);

#endif
