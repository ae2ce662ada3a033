/* SPDX-License-Identifier: MIT */
/* race_replay.h - a race that is known shall be seen again. */
#ifndef CLI_RACE_RACE_REPLAY_H
#define CLI_RACE_RACE_REPLAY_H

#include "cli/race/race_settings.h"
#include "report/race/race_places.h"
#include "report/race/race_totals.h"

/*
 * Changes settings: read them before. Functions that return int give 0 or an exit status, line
 * printed.
 */
struct race_replay_run {
	struct race_replay race;
	uint64_t times;	    /* it was seen, until the end of the last run */
	uint64_t runs_seen; /* in which it was */
	uint64_t last_run;  /* of them; they count from 1 */
};
int race_replay_open(struct race_cli_settings *set, struct race_replay_run *replay);
/* Sets which sites are armed; after the region exists. */
int race_replay_arm(const struct race_cli_settings *set, struct race_replay_run *replay,
		    struct race_region *region);
/* At the end of a run: has the race been seen? */
bool race_replay_is_seen(struct race_replay_run *replay, struct race_report *r, uint64_t run);
/* For a failure: how that run ended; empty: well. Before race_replay_is_seen(). */
void race_replay_ended(struct race_replay_run *replay, const char *outcome, uint64_t run);
/* After it: if no access was trapped at a line of another build, its function is used. */
void race_replay_widen(struct race_replay_run *replay, struct race_region *region);
void race_replay_text(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f);
void race_replay_json(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f);

#endif
