/* SPDX-License-Identifier: MIT */
/* race_provoked.c - see race_provoked.h. */
#include "cli/race/race_provoked.h"

#include "cli/message.h"
#include "report/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "race"
#define UNDISTURBED_RUNS 3u
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

bool race_provoked_note(struct race_provoked *p, struct race_report *r,
			const struct race_region *region, const struct race_run_end *end)
{
	p->all.runs++;
	if (!race_outcome(end->status, end->is_hang, p->last, sizeof(p->last)))
		return false;
	struct race_failure *failure = find(p, p->last);
	if (!failure) {
		p->uncounted++;
		return false;
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
	/* Without a stall there is nothing that could have provoked it. */
	return !p->all.undisturbed_runs && failure->stalls;
}

void race_provoked_compare(struct race_provoked *p, struct race_undisturbed *u,
			   const struct race_region *region, char *const *command,
			   uint64_t longest_ns)
{
	struct race_undisturbed_end end;
	char outcome[40];

	cli_note(COMMAND, "%s in run %" PRIu64 ": up to %u runs without stalls follow, to compare",
		 p->last, p->all.runs, UNDISTURBED_RUNS);
	for (uint32_t i = 0; i < UNDISTURBED_RUNS; i++) {
		if (!race_undisturbed_run(u, region, command, longest_ns, &end))
			return;
		p->all.undisturbed_runs++;
		bool is_hang = end.is_hang || end.is_cut;
		struct race_failure *failure =
			race_outcome(end.status, is_hang, outcome, sizeof(outcome)) ?
				find(p, outcome) :
				NULL;
		if (failure)
			failure->undisturbed++;
		if (!strcmp(outcome, p->last))
			return; /* more runs show nothing else */
	}
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
			fprintf(f,
				"%s in %" PRIu64 " run%s, and in %" PRIu64 " of %" PRIu64
				" without stalls\n",
				failure->outcome, failure->runs, plural(failure->runs),
				failure->undisturbed, p->all.undisturbed_runs);
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
