// SPDX-License-Identifier: MIT
/*
 * race_replay.c - `trapline race --replay`: a race of an earlier run, shown again.
 *
 * Its two places are the only ones that are trapped, and whoever comes there is held for long: so
 * what was seen once in hours is seen in moments, and a mended program shows that it is mended.
 */
#include "cli/cmd.h"
#include "cli/race.h"

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
		return set->from ? cli_wrong(COMMAND,
					     "--from goes with --replay FINGERPRINT") :
				   0;
	if (set->sweep || set->until_covered)
		return cli_wrong(COMMAND,
				 "--replay holds two places only: without --sweep");
	if (!set->from)
		return cli_wrong(
			COMMAND,
			"--replay %s: where are its places? Give --from FILE, the JSON "
			"lines (--json -o FILE) of a run that found it",
			set->replay);
	if (!*set->replay ||
	    strspn(set->replay, "0123456789abcdef") != strlen(set->replay))
		return cli_wrong(
			COMMAND,
			"--replay %s: a fingerprint, or its beginning, as it stands in "
			"brackets in a report",
			set->replay);
	if (race_replay_read(set->from, set->replay, &replay->race, error, sizeof(error)))
		return cli_wrong(COMMAND, "--from %s", error);
	set->sweep = 1;
	if (!set->time)
		set->time_ns = REPLAY_TIME_NS;
	/* It shall be shown whatever its grade. */
	if ((unsigned int)(replay->race.grade - 'A') > set->grade_max &&
	    replay->race.grade <= 'C')
		set->grade_max = (enum race_grade)(replay->race.grade - 'A');
	return 0;
}

static void print_side(const struct race_replay_side *side, char *text, size_t n)
{
	if (side->file[0] && side->line)
		snprintf(text, n, "%s at %s:%d", side->function[0] ? side->function : "?",
			 strrchr(side->file, '/') ? strrchr(side->file, '/') + 1 :
						    side->file,
			 side->line);
	else if (side->function[0])
		snprintf(text, n, "%s+0x%" PRIx64 " in %s", side->function,
			 side->function_offset, side->module);
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
		return cli_wrong(COMMAND, "--replay %s: %s", replay->race.fingerprint,
				 error);
	for (int i = 0; i < 2; i++) {
		const struct race_replay_side *side = &replay->race.sides[i];

		if (!side->is_rebuilt)
			continue;
		print_side(side, text, sizeof(text));
		cli_note(
			COMMAND, "%s was built anew since %s was written: of %s %s",
			side->module, set->from, text,
			side->is_whole_function ?
				"all accesses of the function are held, since the line is not found" :
				"the same line of the function is held, counted from where it begins");
	}
	return 0;
}

bool race_replay_is_seen(struct race_replay_run *replay, struct race_report *r,
			 uint64_t run)
{
	uint64_t times = 0;

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

/* What became of the places of one side. */
struct armed {
	uint64_t sites;
	uint64_t reached;
	uint64_t held;
};

static bool is_in(const struct race_range *range, const struct race_region *region,
		  uint64_t place)
{
	const char *path = region->files[place >> RACE_PLACE_BITS].path;
	const char *slash = strrchr(path, '/');
	uint64_t at = place & RACE_PLACE_MASK;

	return at >= range->start && at < range->end &&
	       !strcmp(slash ? slash + 1 : path, range->file);
}

/* Ranges of the first side come before those of the second. */
static void count_side(const struct race_replay_run *replay,
		       const struct race_region *region, int which, struct armed *out)
{
	const struct race_settings *set = &region->settings;
	uint64_t from = which ? replay->race.second_range : 0;
	uint64_t to = which ? set->range_count : replay->race.second_range;

	*out = (struct armed){ 0, 0, 0 };
	for (uint32_t i = 0; i < RACE_SITES; i++) {
		const struct race_site *site = &region->sites[i];
		bool is_it = false;

		if (!(site->flags & RACE_SITE_LISTED) ||
		    site->place >> RACE_PLACE_BITS >= RACE_FILES)
			continue;
		for (uint64_t k = from; k < to && k < RACE_RANGES; k++)
			is_it |= is_in(&set->ranges[k], region, site->place);
		out->sites += is_it;
		out->held += is_it ? site->stalls : 0;
		out->reached += is_it &&
				(site->stalls || site->flags & RACE_SITE_REACHED);
	}
}

/* The function is another one now, and its line makes no access: then any of its accesses. */
static void widen_side(struct race_replay_run *replay, struct race_region *region,
		       int which)
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
	cli_note(
		COMMAND,
		"no access was trapped in that line of %s: from now on all accesses of the "
		"function are held",
		text);
}

/* Between two runs. */
void race_replay_widen(struct race_replay_run *replay, struct race_region *region)
{
	for (int i = 0; i < 2; i++)
		widen_side(replay, region, i);
}

static const char *state_of(const struct race_replay_side *side,
			    const struct armed *armed)
{
	if (!side->is_known)
		return "nobody was seen there: not held";
	if (side->is_memory_function)
		return "a memory function of libc on its behalf: not held";
	if (!armed->sites)
		return "could not be trapped, or its module was not loaded, or only one thread ran";
	return armed->reached ? NULL : "no thread came there while another one ran";
}

void race_replay_text(const struct race_replay_run *replay,
		      const struct race_region *region, const struct race_totals *t,
		      FILE *f)
{
	char text[600];

	fprintf(f, "replay of %s: ", replay->race.fingerprint);
	if (replay->times)
		fprintf(f, "seen %" PRIu64 " time%s, in %" PRIu64 " of %" PRIu64 " run%s",
			replay->times, replay->times == 1 ? "" : "s", replay->runs_seen,
			t->runs, t->runs == 1 ? "" : "s");
	else
		fprintf(f, "not seen in %" PRIu64 " run%s", t->runs,
			t->runs == 1 ? "" : "s");
	fprintf(f,
		"; threads came to its places %" PRIu64 " times while they were armed\n",
		t->counters[RACE_SITE_HITS]);
	for (int i = 0; i < 2; i++) {
		struct armed armed;

		count_side(replay, region, i, &armed);
		const char *state = state_of(&replay->race.sides[i], &armed);
		print_side(&replay->race.sides[i], text, sizeof(text));
		if (!replay->race.sides[i].is_known)
			snprintf(text, sizeof(text), "other side");
		if (state)
			fprintf(f, "  %s: %s\n", text, state);
		else
			fprintf(f, "  %s: held %" PRIu64 " times\n", text, armed.held);
	}
}

void race_replay_json(const struct race_replay_run *replay,
		      const struct race_region *region, const struct race_totals *t,
		      FILE *f)
{
	json_t *places = json_array();

	for (int i = 0; i < 2; i++) {
		const struct race_replay_side *side = &replay->race.sides[i];
		struct armed armed;

		count_side(replay, region, i, &armed);
		json_array_append_new(
			places, json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I}",
					  "function", side->function, "module",
					  side->module, "rebuilt", side->is_rebuilt,
					  "whole_function", side->is_whole_function,
					  "sites", (json_int_t)armed.sites,
					  "sites_reached", (json_int_t)armed.reached,
					  "held", (json_int_t)armed.held));
	}
	json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "type", "replay",
			      "fingerprint", replay->race.fingerprint, "seen",
			      (json_int_t)replay->times, "runs_seen",
			      (json_int_t)replay->runs_seen, "runs", (json_int_t)t->runs,
			      "passes", (json_int_t)t->counters[RACE_SITE_HITS], "places",
			      places);
	json_dumpf(j, f, JSON_COMPACT);
	fputc('\n', f);
	json_decref(j);
}
