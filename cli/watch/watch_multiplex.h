/* SPDX-License-Identifier: MIT */
/*
 * watch_multiplex.h - several expressions, or a long one, share the debug registers.
 *
 * Each expression is divided into chunks, naturally aligned parts of at most 8 bytes. If there are
 * more chunks than registers, the registers move to the next chunks after each time slice. The time
 * that each chunk is watched is measured, and the summary reports the share of each expression.
 */
#ifndef WATCH_MULTIPLEX_H
#define WATCH_MULTIPLEX_H

#include "cli/observe/session.h"
#include "cli/watch/watch_hit.h"
#include "cli/watch/watch_slots.h"
#include "report/run/run_watch.h"

struct chunk {
	uint64_t address;
	size_t len;
	size_t expr;
	uint64_t watched_ns; /* before since_ns */
	uint64_t since_ns;   /* 0: it is not watched now */
};

struct watch_multiplex {
	const struct observe_settings *set;
	struct watch_expr *expr;
	size_t expr_count;
	struct chunk *chunk;
	size_t chunk_count;
	size_t first; /* chunk that is watched; the others follow it */
	struct watch_slots slots;
	struct chunk *holds[WATCH_REGISTERS];
	uint64_t next_ns;
	struct run_multiplex sums; /* hits and counts of slices; the rest is set at the end */
	bool is_paused;
	char title[200];
};

/* 0 or an exit status, line printed. */
int watch_multiplex_find(struct watch_multiplex *t, struct symbols *s,
			 const struct observe_settings *set);
/* The type that all expressions have; NULL: their types differ. */
const struct value_view *watch_multiplex_view(const struct watch_multiplex *t, uint64_t *len);
int watch_multiplex_arm(struct watch_multiplex *t, struct trapline *target,
			const struct session *session, const struct trapline_event_opts *opts);
/* False: the hit is outside of all expressions. */
bool watch_multiplex_hit(struct watch_multiplex *t, const struct trapline_hit *hit,
			 struct watch_which *which);
/* A pause does not count as watched. Returns the ms until the next call is needed. */
int watch_multiplex_tick(struct watch_multiplex *t, bool is_paused);
/* t must live as long as *end. */
void watch_multiplex_end(struct watch_multiplex *t, struct run_end *end);
void watch_multiplex_release(struct watch_multiplex *t);

#endif
