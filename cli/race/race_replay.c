/* SPDX-License-Identifier: MIT */
/*
 * race_replay.c - `trapline race --replay`: a race of an earlier run, searched again.
 *
 * Traps are set at its two sites only, and a thread that reaches one of them is stalled
 * for long. A race that was seen once in hours is then seen within moments, and a fixed
 * program shows none.
 */
#include "cli/race/race_replay.h"

#include "cli/message.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

#define COMMAND "race"
#define REPLAY_TIME_NS 60000000000u

int race_replay_open(struct race_cli_settings *set, struct race_replay_run *replay)
{
	char error[PATH_MAX + 400];

	if (!set->replay)
		return set->input ? cli_wrong(COMMAND, "--input needs --replay FINGERPRINT") : 0;
	if (set->sweep || set->until_covered)
		return cli_wrong(COMMAND,
				 "cannot combine --replay with --sweep: a replay stalls only the "
				 "two sites of one race");
	if (!set->input)
		return cli_wrong(COMMAND,
				 "--replay needs --input FILE: the JSON lines of a run that found "
				 "the race (written with --json -o FILE)");
	if (!*set->replay || strspn(set->replay, "0123456789abcdef") != strlen(set->replay))
		return cli_wrong(
			COMMAND,
			"invalid --replay '%s': expected a fingerprint or its first digits, "
			"as a report prints it in brackets (example: 3f9a)",
			set->replay);
	if (race_replay_read(set->input, set->replay, &replay->race, error, sizeof(error)))
		return cli_wrong(COMMAND, "%s", error);
	set->sweep = 1;
	if (!set->for_ns)
		set->time_ns = REPLAY_TIME_NS;
	/* It is shown, whichever grade it has. */
	if ((unsigned int)(replay->race.grade - 'A') > set->grade_max && replay->race.grade <= 'C')
		set->grade_max = (enum race_grade)(replay->race.grade - 'A');
	return 0;
}

static void print_side(const struct race_replay_side *side, char *text, size_t n)
{
	if (side->file[0] && side->line)
		snprintf(text, n, "%s (%s:%d)", side->function[0] ? side->function : "?",
			 basename(side->file), side->line);
	else if (side->function[0])
		snprintf(text, n, "%s+0x%" PRIx64 " in %s", side->function, side->function_offset,
			 side->module);
	else
		snprintf(text, n, "%s+0x%" PRIx64, side->module, side->module_offset);
}

int race_replay_arm(const struct race_cli_settings *set, struct race_replay_run *replay,
		    struct race_region *region)
{
	char error[PATH_MAX + 400];
	char text[600];

	if (!set->replay)
		return 0;
	if (race_replay_find(&replay->race, set->command[0], &region->settings, error,
			     sizeof(error)))
		return cli_wrong(COMMAND, "cannot replay %s: %s", replay->race.fingerprint, error);
	for (int i = 0; i < 2; i++) {
		const struct race_replay_side *side = &replay->race.sides[i];

		if (!side->is_rebuilt)
			continue;
		print_side(side, text, sizeof(text));
		cli_note(COMMAND, "%s was rebuilt after %s was written: %s of %s are stalled",
			 side->module, set->input,
			 side->is_whole_function ? "all accesses in the function" :
						   "the accesses in the same line of the function",
			 text);
	}
	return 0;
}

void race_replay_ended(struct race_replay_run *replay, const char *outcome, uint64_t run)
{
	if (!*outcome || strcmp(outcome, replay->race.outcome) != 0 || run == replay->last_run)
		return;
	replay->times++;
	replay->runs_seen++;
	replay->last_run = run;
}

bool race_replay_is_seen(struct race_replay_run *replay, struct race_report *r, uint64_t run)
{
	uint64_t times = 0;

	if (replay->race.outcome[0])
		return replay->times != 0;
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);

		if (!strcmp(v->fingerprint, replay->race.fingerprint))
			times += race_report_times(r, v);
	}
	if (times != replay->times && run != replay->last_run) {
		replay->runs_seen++;
		replay->last_run = run;
	}
	replay->times = times;
	return times != 0;
}

/* The sites of one of the two locations. */
struct armed {
	uint64_t sites;
	uint64_t reached;
	uint64_t stalls;
};

static bool replay_is_in(const struct race_range *range, const struct race_region *region,
			 uint64_t place)
{
	char path[sizeof(region->files[0].path)];
	uint64_t at = place & RACE_PLACE_MASK;

	memcpy(path, region->files[place >> RACE_PLACE_BITS].path, sizeof(path));
	path[sizeof(path) - 1] = '\0';
	return at >= range->start && at < range->end && !strcmp(basename(path), range->file);
}

/* Ranges of the first side come before those of the second. */
static void count_side(const struct race_replay_run *replay, const struct race_region *region,
		       int which, struct armed *out)
{
	const struct race_settings *set = &region->settings;
	uint64_t from = which ? replay->race.second_range : 0;
	uint64_t to = which ? set->range_count : replay->race.second_range;

	*out = (struct armed){ 0, 0, 0 };
	for (uint32_t i = 0; i < race_site_rows(region); i++) {
		const struct race_site *site = &region->sites[i];
		uint64_t place = __atomic_load_n(&site->place, __ATOMIC_RELAXED);
		bool is_it = false;

		if (!(site->flags & RACE_SITE_LISTED) || place >> RACE_PLACE_BITS >= RACE_FILES)
			continue;
		for (uint64_t k = from; k < to && k < RACE_RANGES; k++)
			is_it |= replay_is_in(&set->ranges[k], region, place);
		out->sites += is_it;
		out->stalls += is_it ? site->stalls : 0;
		out->reached += is_it && (site->stalls || site->flags & RACE_SITE_REACHED);
	}
}

/* The line of a changed function makes no access: then all accesses of the function are stalled. */
static void widen_side(struct race_replay_run *replay, struct race_region *region, int which)
{
	struct race_settings *set = &region->settings;
	struct race_replay_side *side = &replay->race.sides[which];
	uint64_t from = which ? replay->race.second_range : 0;
	uint64_t to = which ? set->range_count : replay->race.second_range;
	char text[600];
	struct armed armed;

	if (!side->is_rebuilt || side->is_whole_function || from == to)
		return;
	count_side(replay, region, which, &armed);
	if (armed.sites)
		return;
	set->ranges[from] = side->function_range;
	for (uint64_t i = from + 1; i < to; i++)
		set->ranges[i].end = set->ranges[i].start;
	side->is_whole_function = true;
	print_side(side, text, sizeof(text));
	cli_note(COMMAND,
		 "no access was trapped in that line of %s: all accesses in the function are "
		 "stalled from now on",
		 text);
}

/* Between two runs. */
void race_replay_widen(struct race_replay_run *replay, struct race_region *region)
{
	for (int i = 0; i < 2; i++)
		widen_side(replay, region, i);
}

static const char *state_of(const struct race_replay_side *side, const struct armed *armed)
{
	if (!side->is_known)
		return "unknown, not stalled";
	if (side->is_memory_function)
		return "calls a memory function of libc, not stalled";
	if (!armed->sites)
		return "not trapped (not loaded, only one thread, or not possible)";
	return armed->reached ? NULL : "not reached while another thread ran";
}

void race_replay_text(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f)
{
	uint64_t reached = t->counters[RACE_SITE_HITS];
	char text[600];

	fprintf(f, "replay of %s: ", replay->race.fingerprint);
	if (replay->times)
		fprintf(f, "seen %" PRIu64 " time%s, in %" PRIu64 " of %" PRIu64 " run%s",
			replay->times, replay->times == 1 ? "" : "s", replay->runs_seen, t->runs,
			t->runs == 1 ? "" : "s");
	else
		fprintf(f, "not seen in %" PRIu64 " run%s", t->runs, t->runs == 1 ? "" : "s");
	fprintf(f, "; its locations were reached %" PRIu64 " time%s\n", reached,
		reached == 1 ? "" : "s");
	for (int i = 0; i < 2; i++) {
		struct armed armed;

		count_side(replay, region, i, &armed);
		const char *state = state_of(&replay->race.sides[i], &armed);
		print_side(&replay->race.sides[i], text, sizeof(text));
		if (!replay->race.sides[i].is_known)
			snprintf(text, sizeof(text), "second access");
		if (state)
			fprintf(f, "  %s: %s\n", text, state);
		else
			fprintf(f, "  %s: stalled %" PRIu64 " time%s\n", text, armed.stalls,
				armed.stalls == 1 ? "" : "s");
	}
}

void race_replay_json(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f)
{
	json_t *locations = json_array();

	for (int i = 0; i < 2; i++) {
		const struct race_replay_side *side = &replay->race.sides[i];
		struct armed armed;

		count_side(replay, region, i, &armed);
		json_array_append_new(
			locations,
			json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I}", "function", side->function,
				  "module", side->module, "rebuilt", side->is_rebuilt,
				  "whole_function", side->is_whole_function, "sites",
				  (json_int_t)armed.sites, "sites_reached",
				  (json_int_t)armed.reached, "stalls", (json_int_t)armed.stalls));
	}
	json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "type", "replay",
			      "fingerprint", replay->race.fingerprint, "seen",
			      (json_int_t)replay->times, "runs_seen", (json_int_t)replay->runs_seen,
			      "runs", (json_int_t)t->runs, "occurrences",
			      (json_int_t)t->counters[RACE_SITE_HITS], "locations", locations);
	run_jsonl_line(f, j);
}
