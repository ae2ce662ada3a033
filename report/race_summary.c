// SPDX-License-Identifier: MIT
/*
 * race_summary.c - the end of a run for people: what was found, how much was looked at, and what it
 * means that nothing was found.
 */
#include "report/race.h"

#include <inttypes.h>
#include <math.h>

static const char grade_letters[] = "ABC";

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void print_list(struct race_report *r, enum race_grade grade_max, FILE *f)
{
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);
		uint64_t times = race_report_times(r, v);

		if (race_verdict(v, grade_max) == RACE_SHOWN)
			fprintf(f, "  %c [%s] %" PRIu64 " time%s: %s / %s\n",
				grade_letters[v->grade], v->fingerprint, times,
				plural(times),
				v->first.function[0] ? v->first.function : "?",
				v->second.function[0] ? v->second.function : "?");
	}
}

/* Returns how many races are shown. */
static size_t print_found(struct race_report *r, enum race_grade grade_max, FILE *f)
{
	size_t counts[3] = { 0 };
	size_t verdicts[RACE_VERDICTS];

	race_report_verdicts(r, grade_max, verdicts);
	size_t shown = verdicts[RACE_SHOWN];
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);
		enum race_verdict verdict = race_verdict(v, grade_max);

		counts[v->grade] += verdict == RACE_SHOWN || verdict == RACE_BELOW_GRADE;
	}
	if (counts[0] || counts[1] || shown)
		fprintf(f, "%zu race%s: %zu of grade A, %zu of grade B", shown,
			plural(shown), counts[0], counts[1]);
	else
		fputs("0 races were found", f);
	if (counts[2])
		fprintf(f, "; %zu of grade C, likely meant so%s", counts[2],
			grade_max < RACE_GRADE_C ? " (shown with --grade C)" : "");
	fputc('\n', f);
	print_list(r, grade_max, f);
	return shown;
}

static void print_coverage(const struct race_totals *t, FILE *f)
{
	const struct race_coverage *c = &t->coverage;

	fprintf(f,
		"coverage: %" PRIu64 " of %" PRIu64 " sites held, in %" PRIu64
		" run%s; %" PRIu64 " were reached while threads ran side by side\n",
		c->held, c->total, t->runs, plural(t->runs), c->reached);
	if (t->runs_cut)
		fprintf(f, "%" PRIu64 " run%s hung on after --time and %s ended by a signal; what it "
			"found counts, its exit status does not\n", t->runs_cut,
			t->runs_cut == 1 ? "" : "s", t->runs_cut == 1 ? "was" : "were");
	if (t->sites_lost)
		fprintf(f, "%" PRIu64 " sites had no room in the table\n", t->sites_lost);
}

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

/* By the timer: who knows what code is there only from the files, when all is over. */
static void print_not_held(const struct race_totals *t, FILE *f)
{
	if (t->sites_there > t->sites)
		fprintf(f, "Nothing is said of the rest of some %" PRIu64 " accesses that the code of the %"
			PRIu64 " object%s has in which threads were met (%.2g%% were held)",
			t->sites_there, t->objects, plural(t->objects),
			100.0 * (double)t->sites / (double)t->sites_there);
	else
		fputs("Nothing is said of sites that were not held", f);
	if (t->objects_unread)
		fprintf(f, "; how many %" PRIu64 " more object%s could not be read",
			t->objects_unread, t->objects_unread == 1 ? " has" : "s have");
	fputs(": --overhead and longer runs hold more, --sweep goes for all\n", f);
}

/*
 * Who is held for t in all meets one that comes at random, every p on average, with the chance
 * 1 - exp(-t / p). 95% are reached where p is a third of t.
 */
static void print_chance(const struct race_totals *t, FILE *f)
{
	uint64_t sites = t->is_sweep ? t->coverage.held : t->sites;
	double stalls = (double)t->counters[RACE_STALLS];
	double held_s = (double)t->stalled_ns / 1e9 / (double)(sites ? sites : 1);
	char in_all[32];
	char period[32];

	fprintf(f,
		"what this says: on average a site was held %.1f times, %s in all. A thread that "
		"touches the same memory every %s would have been caught there with 95%%, one that does "
		"so once a second with %.2g%%. ",
		stalls / (double)(sites ? sites : 1),
		duration(held_s, in_all, sizeof(in_all)),
		duration(held_s / 3, period, sizeof(period)),
		100.0 * (1.0 - exp(-held_s)));
	if (t->is_sweep)
		fprintf(f,
			"Nothing is said of the %" PRIu64 " sites that were not held\n",
			t->coverage.total - t->coverage.held);
	else
		print_not_held(t, f);
}

/* Few stalls: what became of the samples? */
static void print_samples(const struct race_totals *t, FILE *f)
{
	static const struct {
		enum race_counter counter;
		const char *what;
	} reasons[] = {
		{ RACE_SAMPLES_ALONE, "while only one thread existed" },
		{ RACE_SAMPLES_EARLY, "when the budget was used up (--overhead)" },
		{ RACE_SAMPLES_EXCLUDED, "in runtimes and other code that is left out" },
		{ RACE_SAMPLES_NOTHING, "with no access ahead that is worth it" },
		{ RACE_AIMS_MISSED,
		  "before an access that the thread then did not come to" },
	};
	const char *comma = ": ";

	fprintf(f, "of %" PRIu64 " samples", t->counters[RACE_SAMPLES]);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		uint64_t n = t->counters[reasons[i].counter];

		if (!n)
			continue;
		fprintf(f, "%s%" PRIu64 " came %s", comma, n, reasons[i].what);
		comma = ", ";
	}
	fputc('\n', f);
}

/* Most of the time nothing was to be held, however large the budget is. */
static bool is_aside(const struct race_totals *t)
{
	const uint64_t *c = t->counters;

	return c[RACE_SAMPLES_ALONE] + c[RACE_SAMPLES_EXCLUDED] +
		       c[RACE_SAMPLES_NOTHING] + c[RACE_AIMS_MISSED] >
	       c[RACE_SAMPLES] / 2;
}

static void print_meaning(const struct race_totals *t, size_t shown, FILE *f)
{
	uint64_t stalls = t->counters[RACE_STALLS];

	if (t->is_sweep && !t->is_replay && stalls)
		print_coverage(t, f);
	if (shown || t->is_replay)
		return;
	if (!t->is_sweep && is_aside(t))
		print_samples(t, f);
	if (t->most_threads < 2)
		fputs("no two threads were ever seen at once: nothing could be found\n",
		      f);
	else if (!stalls)
		fputs("no access was ever held, so this run says nothing: it was too short, or ran "
		      "no code of its own\n",
		      f);
	else
		print_chance(t, f);
	if (t->is_sweep && t->has_openmp && !t->is_varied)
		fputs("OpenMP shares loops out by the number of threads: some races are there with "
		      "others only (--vary OMP_NUM_THREADS=2,4,36)\n",
		      f);
}

static void print_small_stacks(const struct race_totals *t, FILE *f)
{
	uint64_t held = t->counters[RACE_STALLS_NO_ROOM];
	uint64_t seen = t->counters[RACE_HITS_NO_ROOM];

	if (held || seen)
		fprintf(f,
			"small stacks: %" PRIu64 " times a thread was left alone, and %" PRIu64
			" accesses to what was watched were not looked at, since too little of their "
			"threads' stacks was left (some 11 KiB are needed, more where registers are "
			"wide): give them larger ones, pthread_attr_setstacksize(3)\n",
			held, seen);
}

static void print_losses(const struct race_totals *t, FILE *f)
{
	print_small_stacks(t, f);
	if (t->cpus_changed)
		fputs("a CPU was switched on or off, and nobody was held from then on, since not all "
		      "CPUs were watched: search again\n",
		      f);
	if (t->counters[RACE_HEAP_LOST_BLOCKS] || t->counters[RACE_HEAP_LOST_STACKS])
		fprintf(f,
			"heap: %" PRIu64 " blocks and %" PRIu64
			" stacks had no room: races for "
			"them are told without\n",
			t->counters[RACE_HEAP_LOST_BLOCKS],
			t->counters[RACE_HEAP_LOST_STACKS]);
	if (t->counters[RACE_LOST_FULL] || t->torn || t->lost_processes ||
	    t->counters[RACE_LOST_TABLES])
		fprintf(f,
			"lost: %" PRIu64 " records (ring full), %" PRIu64
			" torn, %" PRIu64 " table rows, %" PRIu64 " processes\n",
			t->counters[RACE_LOST_FULL], t->torn,
			t->counters[RACE_LOST_TABLES], t->lost_processes);
}

void race_summary_text(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f)
{
	double run = t->run_ns ? (double)t->run_ns : 1.0;
	size_t shown = print_found(r, grade_max, f);

	race_policy_text(r, grade_max, f);
	fprintf(f,
		"%" PRIu64 " stalls at %" PRIu64 " sites, in %" PRIu64
		" process%s; up to %" PRIu32 " threads at once%s\n",
		t->counters[RACE_STALLS], t->sites, t->processes,
		t->processes == 1 ? "" : "es", t->most_threads,
		!t->processes		   ? "" :
		t->on_cpus == t->processes ? ", watched on the CPUs" :
		t->on_cpus		   ? ", watched on the CPUs and in each thread" :
					     ", watched in each thread");
	if (!t->is_replay)
		fprintf(f,
			"cost: %.2f%% of the %.2f s that the program ran (threads held %.1f ms)\n",
			100.0 * (double)t->spent_ns / run, (double)t->run_ns / 1e9,
			(double)t->stalled_ns / 1e6);
	print_meaning(t, shown, f);
	print_losses(t, f);
}
