/* SPDX-License-Identifier: MIT */
/*
 * conditions.c - what a hit costs whose condition is false: this library beside its peers.
 *
 *   bench_conditions [--rounds N] [--hits N] [--only NAME]   one JSON object a line
 *   bench_conditions --check                                 TAP: is each one right?
 *
 * The condition holds on the last of N hits, of a data watch and of a code break. The floor is
 * the bare hardware trap: a breakpoint event that only counts. In each round every contender
 * makes its hits once, and the floor just before and after each of them, so that all see the same
 * weather: on a shared machine the bare trap itself was seen at 8.4 and at 11.3 us, for seconds at
 * a time. Ratios are to the mean of these two; where they differ by more than SETTLED the weather
 * changed in between, and the round is left out as unsettled, unless all are. The floor's ratio to itself shows how far
 * to trust the others. Figures are medians over the rounds. A round in which the condition was
 * not true on exactly its hit is no measurement: it is named, and the exit status is 1.
 *
 * Placements: one_cpu - target and supervisor pinned to one CPU, which is the supervisor's best
 * case (a stop is a plain switch); two_cpus - each pinned to its own; unpinned.
 */
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "child.h"
#include "round.h"

#define ROUNDS_MAX 101
#define CHECK_HITS 40
#define BOTH (BENCH_WATCH | BENCH_BREAK)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define SETTLED 0.05
#define AIM_RATIO 1.05
#define AIM_LESS_PERCENT 94.0

static const struct contender contenders[] = {
	{ .name = "floor",
	  .mode = "floor",
	  .events = BOTH,
	  .slowness = 1,
	  .is_unconditional = 1 },
	{ .name = "trapline_kernel", .mode = "kernel", .events = BOTH, .slowness = 1 },
	{ .name = "trapline_handler", .mode = "handler", .events = BOTH, .slowness = 1 },
	{ .name = "trapline_probe",
	  .mode = "probe",
	  .events = BENCH_BREAK,
	  .slowness = 1,
	  .is_without_trap = 1 },
	{ .name = "bpftrace",
	  .mode = "plain",
	  .peer = "bpftrace.sh",
	  .mechanism = "hardware",
	  .events = BOTH,
	  .slowness = 1 },
	{ .name = "bpftrace_uprobe",
	  .mode = "plain",
	  .peer = "bpftrace.sh",
	  .mechanism = "uprobe",
	  .events = BENCH_BREAK,
	  .slowness = 1,
	  .is_without_trap = 1 },
	{ .name = "perf_filter",
	  .mode = "plain",
	  .peer = "perf.sh",
	  .events = BOTH,
	  .slowness = 1,
	  .is_without_trap = 1,
	  .may_refuse = BENCH_WATCH },
	{ .name = "ptrace_registers",
	  .mode = "plain",
	  .peer = "peer_ptrace",
	  .mechanism = "registers",
	  .events = BOTH,
	  .slowness = 4 },
	{ .name = "ptrace_int3",
	  .mode = "plain",
	  .peer = "peer_ptrace",
	  .mechanism = "int3",
	  .events = BENCH_BREAK,
	  .slowness = 4 },
	{ .name = "gdb",
	  .mode = "plain",
	  .peer = "gdb.sh",
	  .events = BOTH,
	  .slowness = 16 },
};
enum {
	FLOOR = 0,
	OURS_IN_KERNEL = 1,
	CONTENDERS = COUNT(contenders)
};

struct placement {
	const char *name;
	int target_cpu;
	int peer_cpu;
};

/* One contender's rounds, by round number; negative: not measured. */
struct row {
	double ns[ROUNDS_MAX];
	double mean_ns[ROUNDS_MAX];
	double floor_ns[ROUNDS_MAX]; /* around it */
	int is_settled[ROUNDS_MAX];
	char skipped[256];
	int is_wrong;
};

static struct row rows[CONTENDERS];
static const char *only; /* the contender that is wanted, beside the floor; NULL: all */
static char folder[PATH_MAX];

static const char *event_name(int event)
{
	return event == BENCH_WATCH ? "watch" : "break";
}

static int is_wanted(const struct contender *contender, int event)
{
	return (contender->events & event) &&
	       (only == NULL || contender == &contenders[FLOOR] ||
		strcmp(contender->name, only) == 0);
}

static int is_known(const char *name)
{
	for (int c = 0; c < CONTENDERS; c++)
		if (strcmp(contenders[c].name, name) == 0)
			return 1;
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* values: sorted on return. */
static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] :
			   (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print(json_t *object)
{
	json_dumpf(object, stdout,
		   JSON_PRESERVE_ORDER | JSON_COMPACT | JSON_REAL_PRECISION(5));
	putchar('\n');
	fflush(stdout);
	json_decref(object);
}

static json_t *object_for(const char *bench, int event, const struct placement *placement)
{
	return json_pack("{s:s, s:s, s:s}", "bench", bench, "event", event_name(event),
			 "placement", placement->name);
}

/* What the rounds say of a contender and of the floor around it. */
struct figures {
	int rounds;
	int unsettled; /* left out, or all of them when none is settled */
	double ns;
	double mean_ns;
	double ns_min;
	double ns_max;
	double floor_ns;
	double ratio;
	double above_floor_ns;
};

static int is_measured(const struct row *row, int i)
{
	return row->ns[i] >= 0 && row->floor_ns[i] >= 0;
}

static int figures_of(const struct row *row, int rounds, struct figures *out)
{
	double ns[ROUNDS_MAX];
	double mean_ns[ROUNDS_MAX];
	double floor_ns[ROUNDS_MAX];
	double ratio[ROUNDS_MAX];
	double above_ns[ROUNDS_MAX];
	int measured = 0;
	int settled = 0;
	int n = 0;

	for (int i = 0; i < rounds; i++) {
		measured += is_measured(row, i);
		settled += is_measured(row, i) && row->is_settled[i];
	}
	for (int i = 0; i < rounds; i++) {
		if (!is_measured(row, i) || (settled > 0 && !row->is_settled[i]))
			continue;
		ns[n] = row->ns[i];
		mean_ns[n] = row->mean_ns[i];
		floor_ns[n] = row->floor_ns[i];
		ratio[n] = row->ns[i] / row->floor_ns[i];
		above_ns[n++] = row->ns[i] - row->floor_ns[i];
	}
	if (n == 0)
		return 0;
	out->rounds = n;
	out->unsettled = measured - settled;
	out->ns = median(ns, n);
	out->mean_ns = median(mean_ns, n);
	out->ns_min = ns[0];
	out->ns_max = ns[n - 1];
	out->floor_ns = median(floor_ns, n);
	out->ratio = median(ratio, n);
	out->above_floor_ns = median(above_ns, n);
	return 1;
}

static json_t *figures_object(const struct contender *contender, uint64_t hits,
			      const struct figures *f)
{
	json_t *object = json_pack("{s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}",
				   "hits", (json_int_t)(hits / contender->slowness),
				   "rounds", f->rounds, "unsettled", f->unsettled, "ns",
				   f->ns, "ns_min", f->ns_min, "ns_max", f->ns_max,
				   "mean_ns", f->mean_ns, "floor_ns", f->floor_ns,
				   "ratio", f->ratio);

	if (!contender->is_without_trap) {
		json_object_set_new(object, "above_floor_ns",
				    json_real(f->above_floor_ns));
		json_object_set_new(object, "trap_share", json_real(1 / f->ratio));
	}
	return object;
}

static void report_row(int index, int event, const struct placement *placement,
		       int rounds, uint64_t hits)
{
	json_t *object = object_for("condition", event, placement);
	struct figures f;

	json_object_set_new(object, "contender", json_string(contenders[index].name));
	if (rows[index].skipped[0] != '\0') {
		json_object_set_new(object, "skipped", json_string(rows[index].skipped));
	} else if (figures_of(&rows[index], rounds, &f)) {
		json_t *figures = figures_object(&contenders[index], hits, &f);

		json_object_update(object, figures);
		json_decref(figures);
	}
	print(object);
}

/*
 * How much less ours costs, in percent: as it stands, and with the hardware's trap off both. In
 * units of the floor that each was measured beside.
 */
static void report_less(int index, int event, const struct placement *placement,
			int rounds)
{
	const struct contender *contender = &contenders[index];
	struct figures ours;
	struct figures theirs;

	if (!figures_of(&rows[OURS_IN_KERNEL], rounds, &ours) ||
	    !figures_of(&rows[index], rounds, &theirs))
		return;

	json_t *object = object_for("condition_less", event, placement);

	json_object_set_new(object, "than", json_string(contender->name));
	json_object_set_new(object, "percent",
			    json_real(100 * (1 - ours.ratio / theirs.ratio)));
	if (!contender->is_without_trap && theirs.ratio > 1) {
		double percent = 100 * (1 - (ours.ratio - 1) / (theirs.ratio - 1));

		json_object_set_new(object, "percent_floor_off", json_real(percent));
		if (strcmp(contender->name, "ptrace_int3") == 0) {
			json_object_set_new(object, "aim", json_real(AIM_LESS_PERCENT));
			json_object_set_new(object, "is_met",
					    json_boolean(percent >= AIM_LESS_PERCENT));
		}
	}
	print(object);
}

static void report_aim(int event, const struct placement *placement, int rounds)
{
	struct figures ours;

	if (!figures_of(&rows[OURS_IN_KERNEL], rounds, &ours))
		return;

	json_t *object = object_for("condition_ratio", event, placement);

	json_object_set_new(object, "ratio", json_real(ours.ratio));
	json_object_set_new(object, "aim", json_real(AIM_RATIO));
	json_object_set_new(object, "is_met", json_boolean(ours.ratio <= AIM_RATIO));
	print(object);
}

/* Fills *out; 1 when it is a measurement. */
static int run_one(int index, int event, const struct placement *placement, uint64_t hits,
		   struct outcome *out)
{
	const struct contender *contender = &contenders[index];
	struct round round = {
		.folder = folder,
		.event = event,
		.hits = hits / contender->slowness,
		.true_on = hits / contender->slowness,
		.target_cpu = placement->target_cpu,
		.peer_cpu = placement->peer_cpu,
	};

	round_run(contender, &round, out);
	if (out->wrong[0] != '\0') {
		rows[index].is_wrong = 1;
		fprintf(stderr, "conditions: %s %s %s: %s\n", event_name(event),
			placement->name, contender->name, out->wrong);
	}
	return out->skipped[0] == '\0' && out->wrong[0] == '\0';
}

static void keep(struct row *row, int i, const struct outcome *outcome, double before_ns,
		 double after_ns)
{
	row->ns[i] = outcome->ns;
	row->mean_ns[i] = outcome->mean_ns;
	row->floor_ns[i] = (before_ns + after_ns) / 2;
	row->is_settled[i] = fabs(before_ns - after_ns) <= SETTLED * row->floor_ns[i];
}

static void measure_round(int event, const struct placement *placement, int i,
			  uint64_t hits)
{
	struct outcome before;
	struct outcome outcome;
	struct outcome after;
	int has_before = run_one(FLOOR, event, placement, hits, &before);

	for (int c = 0; c < CONTENDERS; c++) {
		if (!is_wanted(&contenders[c], event) || rows[c].skipped[0] != '\0')
			continue;

		int is_right = run_one(c, event, placement, hits, &outcome);
		int has_after = run_one(FLOOR, event, placement, hits, &after);

		if (is_right && has_before && has_after)
			keep(&rows[c], i, &outcome, before.ns, after.ns);
		memcpy(rows[c].skipped, outcome.skipped, sizeof(rows[c].skipped));
		has_before = has_after;
		before = after;
	}
}

/* 1 when something was wrong. */
static int measure(int event, const struct placement *placement, int rounds,
		   uint64_t hits)
{
	int is_wrong = 0;

	memset(rows, 0, sizeof(rows));
	for (int c = 0; c < CONTENDERS; c++)
		for (int i = 0; i < rounds; i++)
			rows[c].ns[i] = rows[c].floor_ns[i] = -1;
	for (int i = 0; i < rounds; i++)
		measure_round(event, placement, i, hits);
	for (int c = 0; c < CONTENDERS; c++) {
		if (is_wanted(&contenders[c], event))
			report_row(c, event, placement, rounds, hits);
		is_wrong |= rows[c].is_wrong;
	}
	report_aim(event, placement, rounds);
	for (int c = OURS_IN_KERNEL + 1; c < CONTENDERS; c++)
		report_less(c, event, placement, rounds);
	return is_wrong;
}

/* The first two CPUs we may use; one and the same where there is no second. */
static void choose_cpus(int cpus[2])
{
	cpu_set_t set;
	int n = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[n++] = cpu;
	if (n == 1)
		cpus[1] = cpus[0];
}

static int measure_all(int rounds, uint64_t hits)
{
	struct utsname system;
	int is_wrong = 0;
	int cpus[2];

	choose_cpus(cpus);
	uname(&system);
	print(json_pack("{s:s, s:s, s:s, s:[i, i]}", "bench", "condition_machine",
			"kernel", system.release, "machine", system.machine, "cpus",
			cpus[0], cpus[1]));

	const struct placement placements[] = {
		{ "one_cpu", cpus[0], cpus[0] },
		{ "two_cpus", cpus[0], cpus[1] },
		{ "unpinned", CHILD_ANY_CPU, CHILD_ANY_CPU },
	};

	for (size_t i = 0; i < COUNT(placements); i++) {
		if (i == 1 && cpus[0] == cpus[1]) {
			print(json_pack("{s:s, s:s, s:s}", "bench", "condition",
					"placement", "two_cpus", "skipped",
					"there is one CPU"));
			continue;
		}
		is_wrong |= measure(BENCH_WATCH, &placements[i], rounds, hits);
		is_wrong |= measure(BENCH_BREAK, &placements[i], rounds, hits);
	}
	return is_wrong;
}

/*
 * True on the first hit: it was armed in time. On the last: it is armed still. Never: nothing
 * else makes it true.
 */
static void try_each(const struct contender *contender, int event, uint64_t *asked,
		     struct outcome *out)
{
	const uint64_t true_on[] = { 1, CHECK_HITS, CHECK_HITS + 1 };

	for (size_t i = 0; i < COUNT(true_on); i++) {
		const struct round round = {
			.folder = folder,
			.event = event,
			.hits = CHECK_HITS,
			.true_on = true_on[i],
			.target_cpu = CHILD_ANY_CPU,
			.peer_cpu = CHILD_ANY_CPU,
		};

		*asked = true_on[i];
		round_run(contender, &round, out);
		if (out->skipped[0] != '\0' || out->wrong[0] != '\0')
			return;
	}
}

/* bare: the floor's outcome. Where the hardware cannot be had nobody can be told wrong. */
static int check_one(const struct contender *contender, int event, int number,
		     const struct outcome *bare, struct outcome *out)
{
	uint64_t asked = 0;

	if (bare->skipped[0] != '\0')
		*out = *bare;
	else
		try_each(contender, event, &asked, out);

	int is_refused = (contender->may_refuse & event) && out->skipped[0] != '\0';
	const char *claim = contender->is_unconditional ? "counts_every_hit" :
			    is_refused			? "says_why_it_cannot" :
							  "is_true_on_its_hit_only";

	printf("%sok %d - %s_%s_%s", out->wrong[0] != '\0' ? "not " : "", number,
	       event_name(event), contender->name, claim);
	if (out->wrong[0] == '\0' && out->skipped[0] != '\0' && !is_refused)
		printf(" # SKIP %s", out->skipped);
	printf("\n");
	if (out->wrong[0] != '\0')
		printf("# asked for hit %lu of %u: %s\n", (unsigned long)asked,
		       CHECK_HITS, out->wrong);
	fflush(stdout);
	return out->wrong[0] != '\0';
}

static int check_all(void)
{
	struct outcome bare;
	struct outcome out;
	int number = 0;
	int failed = 0;

	for (int event = BENCH_WATCH; event <= BENCH_BREAK; event++) {
		bare = (struct outcome){ 0 };
		for (int c = 0; c < CONTENDERS; c++) {
			if (!is_wanted(&contenders[c], event))
				continue;
			failed |= check_one(&contenders[c], event, ++number, &bare, &out);
			if (c == FLOOR)
				bare = out;
		}
	}
	printf("1..%d\n", number);
	return failed;
}

static int find_folder(void)
{
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (n <= 0)
		return -1;
	folder[n] = '\0';
	*strrchr(folder, '/') = '\0';
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "check", no_argument, NULL, 'c' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "hits", required_argument, NULL, 'n' },
		{ "only", required_argument, NULL, 'o' },
		{ 0 },
	};
	uint64_t hits = 6400;
	int rounds = 15;
	int is_check = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'c') {
			is_check = 1;
		} else if (option == 'r') {
			rounds = atoi(optarg);
		} else if (option == 'n') {
			hits = strtoull(optarg, NULL, 10);
		} else if (option == 'o') {
			only = optarg;
		} else {
			return 2;
		}
	}
	if (only != NULL && !is_known(only)) {
		fprintf(stderr, "conditions: no contender is called %s\n", only);
		return 2;
	}
	/* The slowest contender still makes two hits: one false, one true. */
	if (rounds < 1 || rounds > ROUNDS_MAX || hits < 32 || find_folder() < 0) {
		fprintf(stderr, "conditions: --rounds is 1 to %d, --hits at least 32\n",
			ROUNDS_MAX);
		return 2;
	}
	return is_check ? check_all() : measure_all(rounds, hits);
}
