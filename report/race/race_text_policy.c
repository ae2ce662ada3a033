/* SPDX-License-Identifier: MIT */
/* race_text_policy.c - the races that are not shown: suppressed, or in the baseline. */
#include "report/race/race_report.h"
#include "report/race/race_totals.h"

#include "report/finding/baseline.h"
#include "report/plural.h"

#include <inttypes.h>

#define GONE_MAX 20 /* listed; the others are counted */

static void print_used(struct race_report *r, enum race_grade grade_max, FILE *f)
{
	struct suppressions *all = race_report_policy(r)->suppressions;

	for (size_t i = 0; i < suppressions_count(all); i++) {
		const struct suppression *s = suppressions_at(all, i);
		uint64_t times;
		size_t races;

		race_suppression_uses(r, s, grade_max, &races, &times);
		if (races)
			fprintf(f, "  %zu race%s, %" PRIu64 " time%s: %s (%s:%d)\n", races,
				plural(races), times, plural(times), s->text, s->file, s->line);
	}
}

static bool is_unused(const struct suppression *s)
{
	return !s->matches && suppression_is_reported(s);
}

static void print_unused(const struct suppressions *all, FILE *f)
{
	size_t unused = 0;

	for (size_t i = 0; i < suppressions_count(all); i++)
		unused += is_unused(suppressions_at(all, i));
	if (!unused)
		return;
	fprintf(f, "%zu suppression%s not used in this run:\n", unused,
		unused == 1 ? " was" : "s were");
	for (size_t i = 0; i < suppressions_count(all); i++) {
		const struct suppression *s = suppressions_at(all, i);

		if (is_unused(s))
			fprintf(f, "  %s (%s:%d)\n", s->text, s->file, s->line);
	}
}

static void print_gone(const struct baseline *b, FILE *f)
{
	size_t gone = baseline_gone(b);
	size_t told = 0;

	if (!gone)
		return;
	fprintf(f,
		"%zu of the %zu %s of the baseline %s not seen this time (fixed, or just not "
		"hit):\n",
		gone, baseline_count(b), baseline_count(b) == 1 ? "entry" : "entries",
		gone == 1 ? "was" : "were");
	for (size_t i = 0; i < baseline_count(b) && told < GONE_MAX; i++) {
		const struct baseline_entry *e = baseline_at(b, i);

		if (e->is_seen)
			continue;
		fprintf(f, "  [%s] %s\n", e->fingerprint, e->text);
		told++;
	}
	if (gone > told)
		fprintf(f, "  and %zu more\n", gone - told);
}

void race_policy_text(struct race_report *r, enum race_grade grade_max, FILE *f)
{
	const struct suppressions *all = race_report_policy(r)->suppressions;
	const struct baseline *b = race_report_policy(r)->baseline;
	size_t counts[RACE_VERDICTS];

	race_report_verdicts(r, grade_max, counts);
	if (counts[RACE_SUPPRESSED])
		fprintf(f, "%zu race%s suppressed:\n", counts[RACE_SUPPRESSED],
			plural(counts[RACE_SUPPRESSED]));
	print_used(r, grade_max, f);
	print_unused(all, f);
	if (suppressions_passed_over(all))
		fprintf(f, "%zu suppression%s of other errors ignored\n",
			suppressions_passed_over(all), plural(suppressions_passed_over(all)));
	if (counts[RACE_BASELINED])
		fprintf(f, "%zu race%s in the baseline\n", counts[RACE_BASELINED],
			plural(counts[RACE_BASELINED]));
	print_gone(b, f);
}
