/* SPDX-License-Identifier: MIT */
/* test_race_text.c - the exact lines of a race and of the summary, for people. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/race/race_report.h"
#include "report/race/race_totals.h"

static struct race_region *region;
static struct race_report *report;

static int setup(void **state)
{
	region = calloc(1, sizeof(*region));
	return region ? race_report_open(region, &report) : -1;
}

static int teardown(void **state)
{
	race_report_close(report);
	free(region);
	return 0;
}

static const unsigned char load[] = { 0x8b, 0x07, 0x01, 0xd0,
				      0xc3 }; /* mov (%rdi),%eax */
static const unsigned char store[] = { 0x89, 0x37, 0x90, 0x90,
				       0xc3 }; /* mov %esi,(%rdi) */

static void set_side(struct race_side *side, unsigned int access,
		     const unsigned char *code)
{
	memset(side, 0, sizeof(*side));
	side->access = (uint8_t)access;
	side->flags = RACE_DECODED;
	side->address = 0x1000;
	side->size = 4;
	side->tid = access == RACE_READ ? 11 : 12;
	side->frame_count = 1;
	side->frames[0] = 0x400;
	side->code_bytes = sizeof(load);
	side->length = 2;
	memcpy(side->code, code, sizeof(load));
}

/* A reader and a writer of the same word, of grade B. */
static void set_race(struct race_record *record)
{
	memset(record, 0, sizeof(*record));
	set_side(&record->first, RACE_READ, load);
	set_side(&record->second, RACE_WRITE, store);
	strcpy(record->second.thread, "writer");
	record->address = 0x1000;
	record->len = 4;
	record->flags = RACE_CHANGED;
	record->old_value = 1;
	record->new_value = 2;
	record->stalled_ns = 120000;
	record->pair = RACE_PAIRS;
}

static struct race_view *add(const struct race_record *record)
{
	struct race_view *view;

	assert_int_equal(race_report_add(report, record, &view), 0);
	strcpy(view->fingerprint, "0123456789abcdef");
	return view;
}

static char *text;
static size_t length;

static void expect_text(FILE *f, const char *expected)
{
	fclose(f);
	assert_string_equal(text, expected);
	free(text);
}

static void expect_race(const struct race_view *view, bool has_color,
			const char *expected)
{
	FILE *f = open_memstream(&text, &length);

	race_print_text(report, view, has_color, f);
	expect_text(f, expected);
}

static void expect(const struct race_totals *t, const struct race_summary_options *how,
		   const char *expected)
{
	FILE *f = open_memstream(&text, &length);

	race_summary_text(report, t, how, f);
	expect_text(f, expected);
}

static char *const app[] = { "./app", "-n", "4", NULL };
static const struct race_summary_options plain = { .grade_max = RACE_GRADE_B,
						   .command = app };

/* A search that tested everything. */
static struct race_totals all_well(void)
{
	struct race_totals t = {
		.processes = 1,
		.on_cpus = 1,
		.most_threads = 3,
		.sites = 774,
		.sites_there = 774,
		.wall_ns = 9800000000u,
		.run_ns = 9700000000u,
		.spent_ns = 97000000u,
		.stalled_ns = 77400000u,
	};

	t.counters[RACE_STALLS] = 1094;
	t.counters[RACE_SAMPLES] = 1500;
	return t;
}

#define ALL_WELL "no race found in 9.8 s: 1094 stalls at 774 sites, none lost\n"

static void a_race_has_its_two_accesses_and_the_value(void **state)
{
	struct race_record record;

	set_race(&record);
	expect_race(
		add(&record), false,
		"race B: read-write in ? (likely: plain aligned accesses) [0123456789abcdef]\n"
		"  read of 4 bytes at 0x1000 by thread 11, stalled before it:\n"
		"    #0  0x400\n"
		"  write of 4 bytes at 0x1000 by thread 12 (writer), during the stall:\n"
		"    #0  0x400\n"
		"  value of 4 bytes at 0x1000: 0x1 -> 0x2, 120 us after the stall began\n\n");
}

static void one_byte_is_not_bytes_and_a_terminal_has_a_bold_head(void **state)
{
	struct race_record record;

	set_race(&record);
	record.first.size = 1;
	record.second.size = 1;
	record.len = 1;
	record.memory = RACE_MEMORY_STACK;
	expect_race(
		add(&record), true,
		"\033[1mrace B: read-write in ? (likely: plain aligned accesses) "
		"[0123456789abcdef]\033[0m\n"
		"  read of 1 byte at 0x1000 by thread 11, stalled before it:\n"
		"    #0  0x400\n"
		"  write of 1 byte at 0x1000 by thread 12 (writer), during the stall:\n"
		"    #0  0x400\n"
		"  value of 1 byte at 0x1000: 0x1 -> 0x2, 120 us after the stall began\n"
		"  on the stack of a thread\n\n");
}

static void a_change_without_a_thread_is_said(void **state)
{
	struct race_record record;

	set_race(&record);
	record.flags |= RACE_UNKNOWN_ORIGIN;
	record.first.flags = 0;
	record.memory = RACE_MEMORY_HEAP;
	memset(&record.second, 0, sizeof(record.second));
	expect_race(
		add(&record), false,
		"race B: unknown-origin in ? (likely: the value changed during the stall) "
		"[0123456789abcdef]\n"
		"  read of 4 bytes at 0x1000 by thread 11, by the instruction before frame #0, "
		"stalled before it:\n"
		"    #0  0x400\n"
		"  the value changed during the stall, but no thread was seen writing it (system "
		"call or other process)\n"
		"  value of 4 bytes at 0x1000: 0x1 -> 0x2, 120 us after the stall began\n"
		"  heap memory; --heap reports where it was allocated\n\n");
}

static void a_heap_block_has_its_allocation(void **state)
{
	struct race_record record;

	set_race(&record);
	region->settings.is_heap = 1;
	record.has_heap = 1;
	record.heap.start = 0xfd8;
	record.heap.size = 96;
	record.heap.allocated.tid = 10;
	record.heap.allocated.time_ns = 5;
	record.heap.allocated.frame_count = 1;
	record.heap.allocated.frames[0] = 0x500;
	record.heap.freed.tid = 10;
	record.heap.freed.time_ns = 6;
	record.held_since_ns = 9;
	expect_race(
		add(&record), false,
		"race B: read-write in ? (likely: plain aligned accesses) [0123456789abcdef]\n"
		"  read of 4 bytes at 0x1000 by thread 11, stalled before it:\n"
		"    #0  0x400\n"
		"  write of 4 bytes at 0x1000 by thread 12 (writer), during the stall:\n"
		"    #0  0x400\n"
		"  value of 4 bytes at 0x1000: 0x1 -> 0x2, 120 us after the stall began\n"
		"  heap block of 96 bytes at 0xfd8, race at offset 40, allocated by thread 10:\n"
		"    #0  0x500\n"
		"  freed by thread 10, stack not recorded\n\n");
}

static void one_line_when_all_is_well(void **state)
{
	struct race_totals t = all_well();

	expect(&t, &plain, ALL_WELL);
	t.counters[RACE_STALLS] = 5;
	t.sites = t.sites_there = 1;
	expect(&t, &plain, "no race found in 9.8 s: 5 stalls at 1 site, none lost\n");
}

static void a_sweep_counts_sites_and_runs(void **state)
{
	struct race_totals t = all_well();

	t.is_sweep = true;
	t.runs = 37;
	t.coverage = (struct race_coverage){ .total = 1520, .reached = 774, .held = 774 };
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 of 1520 sites in 37 runs, none lost\n");
	t.runs = 1;
	t.coverage.reached = 900;
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 of 1520 sites in 1 run, none lost\n"
	       "only 774 of the 900 sites that the program reached were tested\n"
	       "try: a longer search (--for 5m)\n");
	t.coverage.reached = 774;
	t.most_threads = 4;
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 of 1520 sites in 1 run, none lost\n"
	       "some races exist only with another number of threads; if a variable of the "
	       "environment sets it, try --vary NAME=2,8,32\n");
	t.is_varied = true;
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 of 1520 sites in 1 run, none lost\n");
}

static void few_tested_accesses_are_said_and_what_to_do(void **state)
{
	static const struct race_summary_options process = { .grade_max = RACE_GRADE_B };
	static char *const quoted[] = { "sh", "-c", "./a b", "", NULL };
	static char *const not_quoted[] = { "sh", "-c", "echo 'a'", NULL };
	struct race_summary_options how = plain;
	struct race_totals t = all_well();

	t.sites_there = 5200;
	expect(&t, &plain,
	       ALL_WELL "only 774 of about 5200 memory accesses were tested\n"
			"try: trapline race --sweep -- ./app -n 4\n");
	expect(&t, &process,
	       ALL_WELL
	       "only 774 of about 5200 memory accesses were tested\n"
	       "try: a longer search (--for 10m) or a higher cost (--overhead 20%)\n");
	t.has_jvm = true;
	expect(&t, &plain,
	       ALL_WELL
	       "only 774 of about 5200 memory accesses were tested\n"
	       "try: a longer search (--for 10m) or a higher cost (--overhead 20%)\n");
	t.has_jvm = false;
	t.is_outside = true; /* a sweep needs the detector inside */
	expect(&t, &plain,
	       ALL_WELL
	       "only 774 of about 5200 memory accesses were tested\n"
	       "try: a longer search (--for 10m) or a higher cost (--overhead 20%)\n");
	t.is_outside = false;
	t.has_jvm = true;
	how.command = NULL;
	how.overhead = 50;
	expect(&t, &how,
	       ALL_WELL "only 774 of about 5200 memory accesses were tested\n"
			"try: a longer search (--for 10m)\n");
	t.has_jvm = false;
	t.objects_unread = 1;
	how.command = quoted;
	expect(&t, &how,
	       ALL_WELL
	       "only 774 of about 5200 memory accesses were tested (the code of 1 object "
	       "could not be read)\n"
	       "try: trapline race --sweep -- sh -c './a b' ''\n");
	t.objects_unread = 0;
	how.command = not_quoted;
	t.counters[RACE_STALLS] = 5;
	t.sites = 1;
	t.sites_there = 45;
	t.wall_ns = 300000000;
	expect(&t, &how,
	       "no race found in 0.3 s: 5 stalls at 1 site, none lost\n"
	       "this run was too short: only 1 of about 45 memory accesses was tested\n"
	       "try: trapline race --sweep -- CMD\n");
}

static void the_true_cause_of_nothing_is_named(void **state)
{
	static const struct race_summary_options process = { .grade_max = RACE_GRADE_B };
	struct race_totals t = all_well();

#define NOTHING \
	"no race found in 9.8 s: 0 stalls at 0 sites, none lost\nthis run shows nothing: "
	t.counters[RACE_STALLS] = 0;
	t.counters[RACE_SAMPLES] = 0;
	t.sites = 0;
	expect(&t, &plain,
	       NOTHING "no access was stalled (too short, or all code was excluded)\n");
	t.counters[RACE_SAMPLES] = 12;
	t.counters[RACE_SAMPLES_EXCLUDED] = 11;
	t.counters[RACE_SAMPLES_NOTHING] = 1;
	expect(&t, &plain,
	       NOTHING
	       "no access was stalled (too short, or all code was excluded)\n"
	       "of 12 samples: 11 in runtimes and other excluded code, 1 with no suitable "
	       "access ahead\n");
	t.counters[RACE_SAMPLES] = 0;
	t.most_threads = 1;
	expect(&t, &plain, NOTHING "too short, or never two threads at the same time\n");
	struct race_totals sweep = t;
	sweep.is_sweep = true;
	sweep.runs = 2;
	memset(&sweep.coverage, 0, sizeof(sweep.coverage));
	expect(&sweep, &plain,
	       "no race found in 9.8 s: 0 stalls at 0 of 0 sites in 2 runs, none lost\n"
	       "this run shows nothing: no process created a second thread\n");
	sweep.coverage.total = 3;
	expect(&sweep, &plain,
	       "no race found in 9.8 s: 0 stalls at 0 of 3 sites in 2 runs, none lost\n"
	       "this run shows nothing: too short, or never two threads at the same time\n");
	t.most_threads = 0;
	expect(&t, &plain, NOTHING "too short, or never two threads at the same time\n");
	expect(&t, &process, NOTHING "the threads used too little CPU time for a sample\n");
	t.stopped = "the process was stopped (SIGSTOP, or a debugger)";
	expect(&t, &process,
	       NOTHING "the process was stopped (SIGSTOP, or a debugger)\n");
	t.stopped = NULL;
	t.processes = 0;
	expect(&t, &plain, NOTHING "no process was searched\n");
}

static void what_was_lost_or_skipped_is_always_said(void **state)
{
	struct race_totals t = all_well();

	t.counters[RACE_LOST_FULL] = 3;
	t.torn = 1;
	t.lost_processes = 2;
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 sites, some records lost\n"
	       "lost: 3 race records (ring full), 1 incomplete record, 2 processes\n");
	t = all_well();
	t.counters[RACE_LOST_TABLES] = 7;
	expect(&t, &plain,
	       "no race found in 9.8 s: 1094 stalls at 774 sites, some records lost\n"
	       "lost: 7 table rows\n");
	t = all_well();
	t.cpus_changed = true;
	t.runs_cut = t.runs_hung = 1;
	t.sites_lost = 1;
	t.counters[RACE_STALLS_NO_ROOM] = 1;
	t.counters[RACE_HEAP_LOST_STACKS] = 4;
	expect(&t, &plain,
	       ALL_WELL
	       "1 run was considered hung and ended by a signal; its races count, its exit "
	       "status does not\n"
	       "1 site was not searched (table full)\n"
	       "small stacks: 1 stall and 0 hits were skipped, because less than about 11 "
	       "KiB of a thread's stack was free; see pthread_attr_setstacksize(3)\n"
	       "a CPU was switched on or off: no thread was stalled after that; search "
	       "again\n"
	       "heap: 0 blocks and 4 stacks were not recorded (table full)\n");
}

static void races_are_counted_by_grade(void **state)
{
	struct race_summary_options how = plain;
	struct race_totals t = all_well();
	struct race_record record;

	set_race(&record);
	add(&record);
	expect(&t, &plain,
	       "1 race: 1 likely (B), in 9.8 s with 1094 stalls at 774 sites, none lost\n"
	       "  B [0123456789abcdef] 1 time: ? / ?\n");
	how.grade_max = RACE_GRADE_A;
	expect(&t, &how,
	       "no race of grade A found in 9.8 s: 1094 stalls at 774 sites, none lost; not shown: "
	       "1 likely (B), see --grade B\n");
	record.address = record.first.address = record.second.address = 0x1001;
	record.first.frames[0] = 0x600;
	struct race_view *definite = add(&record);
	strcpy(definite->fingerprint, "fedcba9876543210");
	expect(&t, &plain,
	       "2 races: 1 definite (A), 1 likely (B), in 9.8 s with 1094 stalls at 774 sites, none "
	       "lost\n"
	       "  B [0123456789abcdef] 1 time: ? / ?\n"
	       "  A [fedcba9876543210] 1 time: ? / ?\n");
	definite->is_baselined = true;
	race_report_view(report, 0)->is_baselined = true;
	expect(&t, &plain,
	       "no new race found in 9.8 s: 1094 stalls at 774 sites, none lost\n"
	       "2 races in the baseline\n");
}

static void the_bookkeeping_needs_verbose(void **state)
{
	struct race_summary_options how = plain;
	struct race_totals t = all_well();

	how.is_verbose = true;
	t.counters[RACE_SAMPLES_EARLY] = 200;
	expect(&t, &how,
	       ALL_WELL
	       "budget: 200 of 1500 samples were not used (--overhead)\n"
	       "searched: 1 process, at most 3 threads at the same time; watchpoints on the "
	       "CPUs\n"
	       "cost: 1.00% of the 9.70 s that the program ran; threads were stalled for 77.4 "
	       "ms\n"
	       "of 1500 samples: 200 after the budget was used up (--overhead)\n"
	       "chance: each tested site was stalled 1.4 times on average, 100 us in total; a "
	       "second access that comes every 33 us is found with 95%, one per second with "
	       "0.01%\n");
	t.processes = 2;
	t.most_threads = 0;
	t.is_sweep = true;
	t.runs = 2;
	t.coverage = (struct race_coverage){ .total = 9, .reached = 1, .held = 1 };
	t.counters[RACE_STALLS] = 0;
	t.most_threads = 1;
	expect(&t, &how,
	       "no race found in 9.8 s: 0 stalls at 1 of 9 sites in 2 runs, none lost\n"
	       "this run shows nothing: too short, or never two threads at the same time\n"
	       "of 1500 samples: 200 after the budget was used up (--overhead)\n"
	       "searched: 2 processes, at most 1 thread at the same time; watchpoints on the CPUs and "
	       "in each thread\n"
	       "cost: 1.00% of the 9.70 s that the program ran; threads were stalled for 77.4 ms\n"
	       "coverage: 1 of 9 sites stalled in 2 runs; 1 was reached while several threads ran\n");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_race_has_its_two_accesses_and_the_value),
		TEST(one_byte_is_not_bytes_and_a_terminal_has_a_bold_head),
		TEST(a_change_without_a_thread_is_said),
		TEST(a_heap_block_has_its_allocation),
		TEST(one_line_when_all_is_well),
		TEST(a_sweep_counts_sites_and_runs),
		TEST(few_tested_accesses_are_said_and_what_to_do),
		TEST(the_true_cause_of_nothing_is_named),
		TEST(what_was_lost_or_skipped_is_always_said),
		TEST(races_are_counted_by_grade),
		TEST(the_bookkeeping_needs_verbose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
