/* SPDX-License-Identifier: MIT */
/* watch_hit.h - an access to what is watched, with all its names and values. */
#ifndef CLI_WATCH_WATCH_HIT_H
#define CLI_WATCH_WATCH_HIT_H

#include "cli/observe/observe.h"
#include "cli/watch/watch_expr.h"

/* The expression or object that a hit belongs to. */
struct watch_which {
	const struct watch_expr *expr;
	const char *name; /* NULL: there is only one */
	bool is_object;
	uint64_t *hits; /* the counter of this expression; NULL: none */
};

void watch_hit_print(struct observe *o, const struct trapline_hit *hit,
		     const struct watch_which *which);

#endif
