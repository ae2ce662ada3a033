/* SPDX-License-Identifier: MIT */
/* race_provoked.c - see race_provoked.h. */
#include "cli/race/race_provoked.h"

#include "cli/message.h"
#include "report/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "race"
/* So often in runs without stalls, a failure is the program's own. */
#define OWN_FAILURES 4u
#define SURE 2e-4 /* the probability of chance alone, below which no more runs are needed */
/* Where no failure is in doubt: one run in so many, and this part of the time. */
#define SELDOM 16u
/* While one is in doubt, most runs with stalls are for the sites before it. */
#define ALL_SITES_ONE_IN 4u
#define AIMED_AT_FIRST 12u
#define RIGHT_AFTER_NS 20000000u /* a death, after the end of a stall */

static struct race_failure *find(struct race_provoked *p, const char *outcome)
{
	for (size_t i = 0; i < p->all.count; i++)
		if (!strcmp(p->all.rows[i].outcome, outcome))
			return &p->all.rows[i];
	if (p->all.count == RACE_OUTCOMES)
		return NULL;
	struct race_failure *failure = &p->all.rows[p->all.count++];
	memset(failure, 0, sizeof(*failure));
	snprintf(failure->outcome, sizeof(failure->outcome), "%s", outcome);
	race_failure_name(failure, p->program);
	return failure;
}

/* It may be provoked, and more runs would show that. Without a stall nothing provokes it. */
static bool is_in_doubt(const struct race_provoked *p, const struct race_failure *failure)
{
	return failure->stalls && failure->undisturbed < OWN_FAILURES &&
	       race_failure_chance(&p->all, failure) > SURE;
}

/* The failure in doubt that occurred least often: it needs runs most. NULL: none is. */
static struct race_failure *find_doubt(struct race_provoked *p)
{
	struct race_failure *found = NULL;

	for (size_t i = 0; i < p->all.count; i++) {
		struct race_failure *failure = &p->all.rows[i];

		if (is_in_doubt(p, failure) && (!found || failure->runs < found->runs))
			found = failure;
	}
	return found;
}

bool race_provoked_is_due(struct race_provoked *p, const struct race_undisturbed *u,
			  uint64_t stalled_ns)
{
	if (u->is_over || u->is_asked)
		return false;
	if (find_doubt(p))
		return p->all.undisturbed_runs < p->all.runs && u->total_ns <= stalled_ns;
	return !p->all.undisturbed_runs || (p->all.undisturbed_runs < p->all.runs / SELDOM &&
					    u->total_ns < stalled_ns / SELDOM);
}

/* Runs for these sites have shown nothing: another one provokes it, or none. */
static bool is_missed(const struct race_failure *failure)
{
	return failure->aimed_runs >= AIMED_AT_FIRST && !failure->aimed;
}

bool race_provoked_aim(struct race_provoked *p, struct race_focus *focus,
		       struct race_region *region)
{
	struct race_failure *failure = find_doubt(p);
	uint64_t places[2];
	size_t n = 0;

	if (!failure || is_missed(failure) || p->all.runs % ALL_SITES_ONE_IN == 0 ||
	    region->sites_refused)
		return false;
	for (unsigned int i = 0; i < failure->stalls; i++) {
		const struct race_record *record = &failure->stall.record;
		const struct race_side *side = i ? &record->second : &record->first;

		/* That of a call into libc is another one. */
		if (!(side->flags & RACE_BLOCK))
			places[n++] = side->frames[0];
	}
	if (n)
		race_focus_on(focus, region, places, n);
	p->aim = n ? failure : NULL;
	return n;
}

/* The run that ended was for the sites of one failure. */
static void note_aimed(struct race_provoked *p)
{
	if (!p->aim)
		return;
	p->aim->aimed_runs++;
	p->aim->aimed += !strcmp(p->aim->outcome, p->last);
	p->aim = NULL;
}

void race_provoked_note(struct race_provoked *p, struct race_report *r,
			const struct race_region *region, const struct race_run_end *end)
{
	bool has_failed = race_outcome(end->status, end->is_hang, p->last, sizeof(p->last));

	p->all.runs++;
	note_aimed(p);
	if (!has_failed)
		return;
	struct race_failure *failure = find(p, p->last);
	if (!failure) {
		p->uncounted++;
		return;
	}
	if (!failure->runs++) {
		failure->first_run = p->all.runs;
		failure->status = end->is_hang ? 0 : end->status;
	}
	/* The first run that has a stall to show. */
	if (!failure->stalls) {
		race_failure_stalls(r, region, end->run, end->ended_ns, failure);
		if (failure->stalls) {
			failure->first_run = p->all.runs;
			snprintf(failure->stall.varied, sizeof(failure->stall.varied), "%s",
				 end->varied);
		}
	}
}

void race_provoked_undisturbed(struct race_provoked *p, const struct race_undisturbed_end *end)
{
	char outcome[40];

	p->all.undisturbed_runs++;
	if (!race_outcome(end->is_cut ? 0 : end->status, end->is_hang, outcome, sizeof(outcome)))
		return;
	struct race_failure *failure = find(p, outcome);
	if (failure)
		failure->undisturbed++;
}

size_t race_provoked_count(const struct race_provoked *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->all.count; i++)
		count += race_failure_is_new(&p->all, &p->all.rows[i]);
	return count;
}

int race_provoked_status(const struct race_provoked *p, int status, bool is_written)
{
	bool is_any_known = false;
	int other = 0;

	for (size_t i = p->all.count; i--;) {
		const struct race_failure *failure = &p->all.rows[i];
		bool is_known = failure->is_baselined ||
				(is_written && race_failure_is_provoked(&p->all, failure));

		is_any_known |= is_known;
		if (failure->runs && failure->status && !is_known)
			other = failure->status;
	}
	return is_any_known ? other : status;
}

/* Chance, or the program by itself, may be the cause. */
static void print_own(const struct race_provoked *p, const struct race_failure *failure, FILE *f)
{
	fprintf(f,
		"%s in %" PRIu64 " of %" PRIu64 " run%s with stalls, and in %" PRIu64 " of %" PRIu64
		" without: not reported, as chance alone gives that with a probability of %.2g\n",
		failure->outcome, failure->runs, p->all.runs, plural(p->all.runs),
		failure->undisturbed, p->all.undisturbed_runs,
		race_failure_chance(&p->all, failure));
}

void race_provoked_text(const struct race_provoked *p, struct race_report *r, FILE *f)
{
	for (size_t i = 0; i < p->all.count; i++) {
		const struct race_failure *failure = &p->all.rows[i];

		if (race_failure_is_new(&p->all, failure))
			race_failure_text(r, &p->all, failure, f);
		else if (failure->is_baselined)
			fprintf(f, "%s in %" PRIu64 " run%s: in the baseline\n", failure->outcome,
				failure->runs, plural(failure->runs));
		else if (failure->runs && p->all.undisturbed_runs)
			print_own(p, failure, f);
	}
	if (p->uncounted)
		fprintf(f, "%" PRIu64 " run%s failed in other ways\n", p->uncounted,
			plural(p->uncounted));
}

void race_provoked_json(const struct race_provoked *p, struct race_report *r, FILE *f)
{
	for (size_t i = 0; i < p->all.count; i++)
		if (race_failure_is_new(&p->all, &p->all.rows[i]))
			race_failure_json(r, &p->all, &p->all.rows[i], f);
}

void race_provoked_death(struct race_report *r, const struct race_region *region,
			 const struct race_death *death, bool is_json, FILE *f)
{
	struct race_failure *failure = calloc(1, sizeof(*failure));

	if (!failure)
		return;
	race_outcome(death->signal, false, failure->outcome, sizeof(failure->outcome));
	race_failure_stalls(r, region, region->run, death->time_ns, failure);
	if (failure->stalls && failure->stall.record.pid == death->pid &&
	    failure->before_ns[0] - failure->stalled_ns[0] < RIGHT_AFTER_NS)
		(is_json ? race_failure_death_json : race_failure_death_text)(r, failure, f);
	free(failure);
}
