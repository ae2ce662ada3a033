/* SPDX-License-Identifier: MIT */
/*
 * race_summary.c - the end of a run for people: what was found, how much was tested, and what it
 * means that nothing was found.
 *
 * One line when all is well. The bookkeeping follows with --verbose; a line that matters (a loss, a
 * run that was ended, few accesses tested) always follows.
 */
#include "report/plural.h"
#include "report/race/race_group.h"
#include "report/race/race_report.h"
#include "report/race/race_totals.h"
#include "report/run/run.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define STALLS_ENOUGH 100u
#define COMMAND_BYTES 80

static const char *were(uint64_t n)
{
	return n == 1 ? "was" : "were";
}

static void print_list(struct race_report *r, enum race_grade grade_max, FILE *f)
{
	size_t others = 0;

	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);
		uint64_t times;

		if (v->head || race_verdict(v, grade_max) != RACE_SHOWN)
			continue;
		size_t more = race_group_others(r, v, &times);
		const char *first = v->first.head[0] ? v->first.head : "?";
		const char *second = v->second.head[0] ? v->second.head : "?";
		fprintf(f, "  %c [%s] %" PRIu64 " time%s: %s / %s", "ABC"[v->grade],
			v -> fingerprint, times, plural(times), first, second);
		if (more)
			fprintf(f, ", and %zu more pair%s of lines there", more, plural(more));
		fputc('\n', f);
		others += more;
	}
	if (others)
		fputs("  each pair of lines of a variable: --each\n", f);
}

static bool has_losses(const struct race_totals *t)
{
	const uint64_t *c = t->counters;

	return c[RACE_LOST_FULL] || t->torn || t->unlisted || t->lost_processes ||
	       c[RACE_LOST_TABLES];
}

/* `12 stalls at 5 of 20 sites in 3 runs, none lost` */
static void print_work(const struct race_totals *t, FILE *f)
{
	uint64_t stalls = t->counters[RACE_STALLS];
	uint64_t sites = t->is_sweep ? t->coverage.held : t->sites;

	fprintf(f, "%" PRIu64 " stall%s at %" PRIu64, stalls, plural(stalls), sites);
	if (t->is_sweep)
		fprintf(f, " of %" PRIu64 " site%s in %" PRIu64 " run%s", t->coverage.total,
			plural(t->coverage.total), t->runs, plural(t->runs));
	else
		fprintf(f, " site%s", plural(sites));
	fputs(has_losses(t) ? ", some records lost" : ", none lost", f);
}

static void print_grades(const size_t counts[3], FILE *f)
{
	static const char *const words[] = { "definite (A)", "likely (B)",
					     "probably intentional (C)" };
	const char *comma = "";

	for (size_t i = 0; i < 3; i++) {
		if (!counts[i])
			continue;
		fprintf(f, "%s%zu %s", comma, counts[i], words[i]);
		comma = ", ";
	}
}

/* The first line, and the list of the races. Returns how many are shown. */
static size_t print_found(struct race_report *r, const struct race_totals *t,
			  enum race_grade grade_max, FILE *f)
{
	size_t shown[3] = { 0 };
	size_t below[3] = { 0 };
	size_t verdicts[RACE_VERDICTS];

	race_report_verdicts(r, grade_max, verdicts);
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);
		enum race_verdict verdict = race_verdict(v, grade_max);

		shown[v->grade] += verdict == RACE_SHOWN && !v->head;
		below[v->grade] += verdict == RACE_BELOW_GRADE;
	}
	if (verdicts[RACE_SHOWN]) {
		fprintf(f, "%zu race%s: ", verdicts[RACE_SHOWN], plural(verdicts[RACE_SHOWN]));
		print_grades(shown, f);
		fprintf(f, ", in %.1f s with ", (double)t->wall_ns / 1e9);
	} else {
		fprintf(f, "no %srace%s found in %.1f s: ",
			verdicts[RACE_SUPPRESSED] || verdicts[RACE_BASELINED] ? "new " : "",
			!verdicts[RACE_BELOW_GRADE] ? "" :
			grade_max == RACE_GRADE_A   ? " of grade A" :
						      " of grade A or B",
			(double)t->wall_ns / 1e9);
	}
	print_work(t, f);
	if (verdicts[RACE_BELOW_GRADE]) {
		fputs("; not shown: ", f);
		print_grades(below, f);
		fprintf(f, ", see --grade %c", below[RACE_GRADE_C] ? 'C' : 'B');
	}
	fputc('\n', f);
	print_list(r, grade_max, f);
	return verdicts[RACE_SHOWN];
}

/* ---- what it means that nothing was found ---- */

/* Adds a word, quoted for a shell. False: it cannot be quoted simply, or does not fit. */
static bool add_word(const char *word, char *text, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./=:,@%+";
	bool is_plain = *word && !word[strspn(word, plain)];
	size_t used = strlen(text);

	if (strchr(word, '\''))
		return false;
	int length = snprintf(text + used, n - used, is_plain ? "%s%s" : "%s'%s'", used ? " " : "",
			      word);
	return (size_t)length < n - used;
}

/* `./app 1 2`, as it was given; `CMD` where it is long. */
static void command_text(char *const *command, char *text, size_t n)
{
	bool is_whole = true;

	for (*text = '\0'; *command && is_whole; command++)
		is_whole = add_word(*command, text, n);
	if (!is_whole)
		snprintf(text, n, "CMD");
	clean_text(text);
}

#define ADVISED_OVERHEAD 20
#define POOL_THREADS 4u /* the first one, and a pool */

static void print_advice(const struct race_totals *t, const struct race_summary_options *how,
			 FILE *f)
{
	char command[COMMAND_BYTES];

	if (t->is_sweep) {
		fputs("try: a longer search (--for 5m)\n", f);
	} else if (!how->command || how->is_endless || t->has_jvm || t->is_outside) {
		fprintf(f, "try: a longer search (--for 10m)%s\n",
			how->overhead < ADVISED_OVERHEAD ? " or a higher cost (--overhead 20%)" :
							   "");
	} else {
		command_text(how->command, command, sizeof(command));
		fprintf(f, "try: trapline race --sweep -- %s\n", command);
	}
}

static unsigned int percent_of(uint64_t part, uint64_t all)
{
	return all ? (unsigned int)(100.0 * (double)part / (double)all) : 100;
}

/* Sites took turns: of those that threads reached it is known whether they had one. */
static void print_turns(const struct race_totals *t, FILE *f)
{
	const struct race_coverage *c = &t->coverage;
	uint64_t reached = c->reached > c->held ? c->reached : c->held;

	fprintf(f, "tested: %" PRIu64 " of %" PRIu64 " memory access%s that threads reached (%u%%)",
		c->held, reached, reached == 1 ? "" : "es", percent_of(c->held, reached));
	if (t->sites_there > reached)
		fprintf(f, "; about %" PRIu64 " exist", t->sites_there);
	fputc('\n', f);
}

/* Samples alone: how much code there is, is known from the files when the run is over. */
static bool print_tested_by_samples(const struct race_totals *t, FILE *f)
{
	bool is_short = t->counters[RACE_STALLS] < STALLS_ENOUGH;

	if (t->coverage.reached) {
		print_turns(t, f);
		return is_short || t->coverage.held < t->coverage.reached;
	}
	if (t->sites_there <= t->sites)
		return false;
	fprintf(f, "%sonly %" PRIu64 " of about %" PRIu64 " memory accesses %s tested",
		is_short ? "this run was too short: " : "", t->sites, t->sites_there,
		were(t->sites));
	if (t->objects_unread)
		fprintf(f, " (the code of %" PRIu64 " object%s could not be read)",
			t->objects_unread, plural(t->objects_unread));
	fputc('\n', f);
	return true;
}

static bool print_tested_by_sweep(const struct race_totals *t, FILE *f)
{
	const struct race_coverage *c = &t->coverage;
	uint64_t reached = c->reached > c->held ? c->reached : c->held;

	if (c->held >= reached)
		return false;
	fprintf(f, "only %" PRIu64 " of the %" PRIu64 " sites that the program reached %s tested\n",
		c->held, reached, were(c->held));
	return true;
}

/* Why so few stalls: what became of the samples. */
static void print_samples(const struct race_totals *t, FILE *f)
{
	static const struct {
		enum race_counter counter;
		const char *what;
	} reasons[] = {
		{ RACE_SAMPLES_ALONE, "while only one thread existed" },
		{ RACE_SAMPLES_EARLY, "after the budget was used up (--overhead)" },
		{ RACE_SAMPLES_EXCLUDED, "in runtimes and other excluded code" },
		{ RACE_SAMPLES_NOTHING, "with no suitable access ahead" },
	};
	const char *comma = ": ";

	fprintf(f, "of %" PRIu64 " sample%s", t->counters[RACE_SAMPLES],
		plural(t->counters[RACE_SAMPLES]));
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		uint64_t n = t->counters[reasons[i].counter];

		if (!n)
			continue;
		fprintf(f, "%s%" PRIu64 " %s", comma, n, reasons[i].what);
		comma = ", ";
	}
	/* A sample may aim several times. */
	if (t->counters[RACE_AIMS_MISSED])
		fprintf(f, "; %" PRIu64 " access%s aimed at and not reached",
			t->counters[RACE_AIMS_MISSED],
			t->counters[RACE_AIMS_MISSED] == 1 ? " was" : "es were");
	fputc('\n', f);
}

static void print_nothing_stalled(const struct race_totals *t,
				  const struct race_summary_options *how, FILE *f)
{
	if (t->stopped)
		fprintf(f, "this run shows nothing: %s\n", t->stopped);
	else if (!t->processes)
		fputs("this run shows nothing: no process was searched\n", f);
	else if (!t->most_threads && !how->command)
		fputs("this run shows nothing: the threads used too little CPU time for a sample\n",
		      f);
	else if (t->is_sweep && !t->coverage.total && !t->sites_refused && t->most_threads == 1)
		fputs("this run shows nothing: no process created a second thread\n", f);
	else if (t->most_threads < 2)
		fputs("this run shows nothing: too short, or never two threads at the same time\n",
		      f);
	else
		fputs("this run shows nothing: no access was stalled (too short, or all code was "
		      "excluded)\n",
		      f);
	if (t->counters[RACE_SAMPLES])
		print_samples(t, f);
}

static void print_meaning(const struct race_totals *t, const struct race_summary_options *how,
			  FILE *f)
{
	uint64_t stalls = t->counters[RACE_STALLS];

	if (!stalls || t->most_threads < 2) {
		print_nothing_stalled(t, how, f);
	} else if (t->is_sweep ? print_tested_by_sweep(t, f) : print_tested_by_samples(t, f)) {
		print_advice(t, how, f);
	}
	if (t->is_sweep && t->has_openmp && !t->is_varied)
		fputs("some OpenMP races exist only with another number of threads; try --vary "
		      "OMP_NUM_THREADS=2,4,36\n",
		      f);
	else if (t->is_sweep && t->most_threads >= POOL_THREADS && !t->is_varied && !t->has_jvm)
		fputs("some races exist only with another number of threads; if a variable of the "
		      "environment sets it, try --vary NAME=2,8,32\n",
		      f);
}

/* ---- the bookkeeping ---- */

static const char *duration(double seconds, char *text, size_t n)
{
	bool is_us = seconds < 1e-3;
	double number = seconds * (is_us ? 1e6 : seconds < 1 ? 1e3 : 1);

	snprintf(text, n, "%.*f %s", number < 10 ? 1 : 0, number,
		 is_us	     ? "us" :
		 seconds < 1 ? "ms" :
			       "s");
	return text;
}

/*
 * If accesses of others come at random, every p on average, one of them falls into a stall of t
 * with the chance 1 - exp(-t / p). That is 95% where p is a third of t.
 */
static void print_chance(const struct race_totals *t, FILE *f)
{
	uint64_t sites = t->is_sweep ? t->coverage.held : t->sites;
	double count = (double)(sites ? sites : 1);
	double stalled_s = (double)t->stalled_ns / 1e9 / count;
	char in_all[32];
	char period[32];

	fprintf(f,
		"chance: each tested site was stalled %.1f times on average, %s in total; a second "
		"access that comes every %s is found with 95%%, one per second with %.2g%%\n",
		(double)t->counters[RACE_STALLS] / count,
		duration(stalled_s, in_all, sizeof(in_all)),
		duration(stalled_s / 3, period, sizeof(period)), 100.0 * (1.0 - exp(-stalled_s)));
}

static void race_print_bookkeeping(const struct race_totals *t, FILE *f)
{
	const struct race_coverage *c = &t->coverage;
	double run = t->run_ns ? (double)t->run_ns : 1.0;

	fprintf(f, "searched: %" PRIu64 " process%s", t->processes, t->processes == 1 ? "" : "es");
	if (t->most_threads)
		fprintf(f, ", at most %" PRIu32 " thread%s at the same time", t->most_threads,
			plural(t->most_threads));
	if (t->processes)
		fprintf(f, "; %s",
			t->is_by_sites		   ? "no watchpoints" :
			t->on_cpus == t->processes ? "watchpoints on the CPUs" :
			t->on_cpus		   ? "watchpoints on the CPUs and in each thread" :
						     "watchpoints in each thread");
	fputc('\n', f);
	if (!t->is_replay)
		fprintf(f,
			"cost: %.2f%% of the %.2f s that the program ran; threads were stalled for "
			"%.1f ms\n",
			100.0 * (double)t->spent_ns / run, (double)t->run_ns / 1e9,
			(double)t->stalled_ns / 1e6);
	if (t->is_sweep)
		fprintf(f,
			"coverage: %" PRIu64 " of %" PRIu64 " sites stalled in %" PRIu64
			" run%s; %" PRIu64 " %s reached while several threads ran\n",
			c->held, c->total, t->runs, plural(t->runs), c->reached, were(c->reached));
	else if (t->counters[RACE_STALLS] && !t->is_outside)
		print_samples(t, f);
	if (!t->is_sweep && t->coverage.total)
		fprintf(f,
			"coverage: %" PRIu64 " of the %" PRIu64 " sites that threads reached were "
			"stalled; %" PRIu64 " sites had a trap for a time\n",
			t->coverage.held, t->coverage.reached, t->coverage.total);
	if (t->sites_unproven)
		fprintf(f,
			"left out: about %" PRIu64
			" site%s in bytes that are not known to be code\n",
			t->sites_unproven, plural(t->sites_unproven));
	if (t->counters[RACE_STALLS])
		print_chance(t, f);
}

/* ---- what matters whether or not it is asked for ---- */

static void print_small_stacks(const struct race_totals *t, FILE *f)
{
	uint64_t stalls = t->counters[RACE_STALLS_NO_ROOM];
	uint64_t hits = t->counters[RACE_HITS_NO_ROOM];

	if (stalls || hits)
		fprintf(f,
			"small stacks: %" PRIu64 " stall%s and %" PRIu64
			" hit%s were skipped, because "
			"less than about 11 KiB of a thread's stack was free; see "
			"pthread_attr_setstacksize(3)\n",
			stalls, plural(stalls), hits, plural(hits));
}

static void print_count(const char **comma, uint64_t n, const char *what, const char *many, FILE *f)
{
	if (!n)
		return;
	fprintf(f, "%s%" PRIu64 " %s%s", *comma, n, what, n == 1 ? "" : many);
	*comma = ", ";
}

static void print_lost(const struct race_totals *t, FILE *f)
{
	const char *comma = "lost: ";

	if (!has_losses(t))
		return;
	print_count(&comma, t->counters[RACE_LOST_FULL], "race record", "s", f);
	if (t->counters[RACE_LOST_FULL])
		fputs(" (ring full)", f);
	print_count(&comma, t->torn, "incomplete record", "s", f);
	print_count(&comma, t->unlisted, "race record", "s", f);
	if (t->unlisted)
		fputs(" (too many to report)", f);
	print_count(&comma, t->counters[RACE_LOST_TABLES], "table row", "s", f);
	print_count(&comma, t->lost_processes, "process", "es", f);
	fputc('\n', f);
}

/* What the run would have inspected with a larger budget. */
static void print_over_budget(const struct race_totals *t, FILE *f)
{
	uint64_t samples = t->counters[RACE_SAMPLES_EARLY];
	uint64_t hits = t->counters[RACE_SITE_HITS_EARLY];

	if (!t->counters[RACE_STALLS])
		return; /* print_samples() states it */
	if (samples)
		fprintf(f, "budget: %" PRIu64 " of %" PRIu64 " samples %s not used (--overhead)\n",
			samples, t->counters[RACE_SAMPLES], were(samples));
	if (hits)
		fprintf(f, "budget: threads were not stalled at %" PRIu64 " trap%s (--overhead)\n",
			hits, plural(hits));
}

static void print_cut(uint64_t runs, const char *why, FILE *f)
{
	if (runs)
		fprintf(f,
			"%" PRIu64 " run%s %sended by a signal; %s races count, %s exit status "
			"does not\n",
			runs, runs == 1 ? " was" : "s were", why, runs == 1 ? "its" : "their",
			runs == 1 ? "its" : "their");
}

static void print_exceptions(const struct race_totals *t, FILE *f)
{
	const uint64_t *c = t->counters;

	print_cut(t->runs_hung, "considered hung and ", f);
	print_cut(t->runs_cut - t->runs_hung, "", f);
	if (t->sites_lost)
		fprintf(f, "%" PRIu64 " site%s not searched (table full)\n", t->sites_lost,
			t->sites_lost == 1 ? " was" : "s were");
	if (c[RACE_LOST_TRAPS] || c[RACE_LOST_OBJECTS])
		fprintf(f,
			"%" PRIu64 " site%s and %" PRIu64 " object%s got no traps (table full)\n",
			c[RACE_LOST_TRAPS], plural(c[RACE_LOST_TRAPS]), c[RACE_LOST_OBJECTS],
			plural(c[RACE_LOST_OBJECTS]));
	if (c[RACE_LOST_LOCALS])
		fprintf(f, "%" PRIu64 " access%s to local variables got no traps (table full)\n",
			c[RACE_LOST_LOCALS], c[RACE_LOST_LOCALS] == 1 ? "" : "es");
	print_over_budget(t, f);
	print_small_stacks(t, f);
	if (t->cpus_changed)
		fputs("a CPU was switched on or off: no thread was stalled after that; search again\n",
		      f);
	if (c[RACE_HEAP_LOST_BLOCKS] || c[RACE_HEAP_LOST_STACKS])
		fprintf(f,
			"heap: %" PRIu64 " block%s and %" PRIu64
			" stack%s were not recorded (table "
			"full)\n",
			c[RACE_HEAP_LOST_BLOCKS], plural(c[RACE_HEAP_LOST_BLOCKS]),
			c[RACE_HEAP_LOST_STACKS], plural(c[RACE_HEAP_LOST_STACKS]));
	print_lost(t, f);
}

void race_summary_text(struct race_report *r, const struct race_totals *t,
		       const struct race_summary_options *how, FILE *f)
{
	size_t shown = print_found(r, t, how->grade_max, f);

	race_policy_text(r, how->grade_max, f);
	if (!shown && !t->is_replay)
		print_meaning(t, how, f);
	print_exceptions(t, f);
	if (how->is_verbose)
		race_print_bookkeeping(t, f);
}
