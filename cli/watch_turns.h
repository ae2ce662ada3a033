/* SPDX-License-Identifier: MIT */
/*
 * watch_turns.h - several places, of which as many are watched at a time as there are registers.
 *
 * Each place is cut into words, naturally aligned parts of at most 8 bytes. When there are more of
 * them than registers, the registers move on through the words, round and round. How long each word
 * was watched is measured: the summary tells each place's share.
 */
#ifndef CLI_WATCH_TURNS_H
#define CLI_WATCH_TURNS_H

#include "cli/session.h"
#include "cli/watch.h"
#include "cli/watch_slots.h"
#include "report/run_watch.h"

struct turn_word {
	uint64_t address;
	size_t len;
	size_t place;
	uint64_t watched_ns; /* before since_ns */
	uint64_t since_ns;   /* 0: it is not watched now */
};

struct watch_turns {
	const struct watch_settings *set;
	struct watch_what *place;
	size_t place_count;
	struct turn_word *word;
	size_t word_count;
	size_t first; /* word of those that are watched: they are neighbours */
	struct watch_slots slots;
	struct turn_word *holds[WATCH_REGISTERS];
	uint64_t next_ns;
	struct run_turns sums; /* hits of places and counts of turns; the rest at the end */
	uint64_t unplaced; /* hits of none of the words */
	bool is_paused;
	char title[200];
};

/* 0 or an exit status, line printed. */
int watch_turns_find(struct watch_turns *t, struct symbols *s,
		     const struct watch_settings *set);
/* The type that all places have; NULL: there is none. */
const struct value_view *watch_turns_view(const struct watch_turns *t, uint64_t *len);
int watch_turns_arm(struct watch_turns *t, struct trapline *target,
		    const struct session *session,
		    const struct trapline_event_opts *opts);
/* False: it is of none of the places. */
bool watch_turns_hit(struct watch_turns *t, const struct trapline_hit *hit,
		     struct watch_which *which);
/* The clocks stand still in a pause. Returns in how many ms it is to be called again. */
int watch_turns_tick(struct watch_turns *t, bool is_paused);
/* t must live as long as *end. */
void watch_turns_end(struct watch_turns *t, struct run_end *end);
void watch_turns_release(struct watch_turns *t);

#endif
