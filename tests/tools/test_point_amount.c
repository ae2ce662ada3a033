/* SPDX-License-Identifier: MIT */
/*
 * test_point_amount.c - points by what a thread has used up: counters whose interrupts come late,
 * and page faults and system calls, which have none or need none.
 *
 * Where the machine has a PMU that passes the library's self-test, asynchronous signals are
 * replayed by it. What does not depend on one is tried with page faults everywhere.
 */
#include "points.h"

#define SIGNALS 150
#define SAMPLE_NS 300000
#define PAGE 4096
#define PAGES 200
#define TICKS_PER_PAGE 5

static void open_amount(enum trapline_counter what)
{
	TRAPLINE_OPTS(event, opts);

	rig_open_pid(&rig, BY_BPF, child);
	opts.scope = TRAPLINE_THREADS;
	opts.tids = &child;
	opts.tid_count = 1;
	expect_ok(trapline_count(rig.target, what, &opts, &counter));
}

static int run_to(uint64_t count, uint64_t ip)
{
	struct trapline_point point = {
		.size = sizeof(point), .counter = counter, .count = count, .ip = ip,
	};

	return trapline_run_to(rig.target, child, &point, 20000);
}

static uint64_t amount_now(void)
{
	uint64_t now = 0;

	expect_ok(trapline_event_read(counter, &now));
	return now;
}

/* --- page faults --- */

/* A fault, five ticks, a fault, five ticks; and an argument that tells these apart. */
__attribute__((noipa)) static uint64_t fault_program(uint64_t rounds)
{
	volatile char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise((void *)(uintptr_t)area, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < rounds; i++) {
		if (i % TICKS_PER_PAGE == 0)
			area[i / TICKS_PER_PAGE % PAGES * PAGE] = 1;
		tick(i % TICKS_PER_PAGE);
		shared->ticks = i + 1;
	}
	return 1;
}

/* To the first tick of the second page: whatever else faults once has done so. Its count. */
static uint64_t start_faulting(void)
{
	struct trapline_condition *condition;
	struct trapline_point point = {.size = sizeof(point), .ip = ADDR(tick)};

	start_program(fault_program, UINT64_MAX);
	open_amount(TRAPLINE_PAGE_FAULTS);
	assert_int_equal(trapline_condition_parse("arg0 == 4", NULL, &condition), 0);
	point.condition = condition;
	expect_ok(trapline_run_to(rig.target, child, &point, 20000));
	trapline_condition_free(condition);
	assert_int_equal(shared->ticks, 4);
	expect_at(ADDR(tick));
	return amount_now();
}

static void the_first_pass_at_an_amount_is_the_point(void **state)
{
	uint64_t base = start_faulting();

	for (uint64_t page = 1; page < PAGES; page += page) {
		expect_ok(run_to(base + page, ADDR(tick)));
		assert_int_equal(shared->ticks, page * TICKS_PER_PAGE);
		expect_at(ADDR(tick));
		assert_int_equal(amount_now(), base + page);
	}
	end_child();
}

static void registers_tell_passes_at_the_same_amount(void **state)
{
	struct trapline_point point = {.size = sizeof(point), .ip = ADDR(tick)};
	const unsigned int argument = GENERAL_REGISTERS == 16 ? 5 : 0; /* rdi, x0 */

	point.count = start_faulting() + 10;
	point.counter = counter;
	point.registers_used = 1u << argument;
	for (uint64_t nth = 1; nth < TICKS_PER_PAGE; nth += 2) {
		point.regs[argument] = nth;
		expect_ok(trapline_run_to(rig.target, child, &point, 20000));
		assert_int_equal(shared->ticks, 10 * TICKS_PER_PAGE + nth);
	}
	/* The pass with 2 is over, and another one at that amount does not come. */
	point.regs[argument] = 2;
	assert_int_equal(trapline_run_to(rig.target, child, &point, 20000), -ERANGE);
	end_child();
}

static void what_is_past_is_told_with_the_distance(void **state)
{
	char why[256];
	uint64_t base = start_faulting();

	expect_ok(run_to(base + 20, ADDR(tick)));
	assert_int_equal(run_to(base + 13, ADDR(tick)), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "7 past it"));
	expect_ok(run_to(base + 21, ADDR(tick)));
	end_child();
}

static void an_instruction_that_never_comes_ends_in_a_miss(void **state)
{
	uint64_t base = start_faulting();

	assert_int_equal(run_to(base + 2, ADDR(start_faulting)), -ERANGE);
	/* Stopped there, not at its end. */
	uint64_t ticks = shared->ticks;
	usleep(2000);
	assert_int_equal(shared->ticks, ticks);
	end_child();
}

#define PASSES 500

static uint64_t counts[PASSES];
static uint64_t arguments[PASSES];

static enum trapline_action note_count(const struct trapline_hit *hit)
{
	uint64_t *seen = hit->arg;

	if (*seen < ARRAY_LEN(counts)) {
		counts[*seen] = hit->count;
		trapline_hit_register(hit, GENERAL_REGISTERS == 16 ? 5 : 0, &arguments[*seen]);
		++*seen;
	}
	return TRAPLINE_GO_ON;
}

/* The next passes of tick(), with what is counted at each. */
static uint64_t record_passes(uint64_t passes)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *ticks;
	uint64_t seen = 0;

	opts.count_of = counter;
	opts.arg = &seen;
	opts.limit = passes;
	expect_ok(trapline_break(rig.target, ADDR(tick), &opts, &ticks));
	kill(child, SIGCONT);
	while (seen < passes)
		trapline_poll(rig.target, 1000, note_count);
	trapline_event_close(ticks);
	return seen;
}

static void records_hold_the_amount_at_the_hit(void **state)
{
	uint64_t base = start_faulting();
	uint64_t seen = record_passes(8);

	/* It may stand before a pass that is seen once more: the argument says which it was. */
	for (size_t i = arguments[0] == 4; i < seen; i++)
		assert_int_equal(counts[i], base + 1 + (i - (arguments[0] == 4)) / TICKS_PER_PAGE);
	end_child();
}

/* --- system calls --- */

/* At least one between two ticks; how many is as irregular as it is the same in each run. */
__attribute__((noipa)) static uint64_t call_program(uint64_t rounds)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < rounds; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		for (uint64_t k = 0; k <= x % 4; k++)
			syscall(SYS_getppid);
		tick(i);
		shared->ticks = i + 1;
	}
	return 1;
}

static void start_calling(void)
{
	need_syscall_tracepoint();
	start_program(call_program, UINT64_MAX);
	open_amount(TRAPLINE_SYSCALLS);
}

/* Each pass is the only one at its count, so that the count alone must find it again. */
static void passes_are_found_again_by_system_calls(void **state)
{
	uint64_t equal = 0;

	start_calling();
	uint64_t seen = record_passes(PASSES);
	end_child();
	start_calling();
	for (uint64_t i = 0; i < seen; i++) {
		expect_ok(run_to(counts[i], ADDR(tick)));
		expect_at(ADDR(tick));
		equal += shared->ticks == arguments[i] && amount_now() == counts[i];
	}
	print_message("# %lu of %lu passes at the same count, up to %lu system calls\n", equal, seen,
		      counts[seen - 1]);
	assert_int_equal(equal, seen);
	/* Irregular they are: a count of passes would not do. */
	assert_true(counts[seen - 1] > counts[0] + seen && arguments[seen - 1] == seen - 1);
	end_child();
}

static void system_calls_are_counted_one_by_one(void **state)
{
	uint64_t x = 88172645463325252u;

	start_calling();
	uint64_t seen = record_passes(PASSES);
	for (uint64_t i = 0; i < seen; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (i)
			assert_int_equal(counts[i], counts[i - 1] + 1 + x % 4);
	}
	end_child();
}

static void a_count_of_calls_that_no_pass_has_is_missed(void **state)
{
	char why[256];
	uint64_t at = 1;

	start_calling();
	uint64_t seen = record_passes(PASSES);
	while (at < seen && counts[at] < counts[at - 1] + 3)
		at++;
	end_child();
	start_calling();
	/* Stopped at the very next pass, and told so. */
	assert_int_equal(run_to(counts[at] - 2, ADDR(tick)), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "past it"));
	assert_true(amount_now() > counts[at] - 2);
	/* What is over does not come again. */
	assert_int_equal(run_to(counts[0], ADDR(tick)), -ERANGE);
	expect_ok(run_to(counts[seen - 1], ADDR(tick)));
	assert_int_equal(shared->ticks, seen - 1);
	end_child();
}

static void system_calls_have_no_period(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	char why[256];

	start_child(100);
	rig_open_pid(&rig, BY_BPF, child);
	opts.period = 10;
	assert_int_equal(trapline_count(rig.target, TRAPLINE_SYSCALLS, &opts, &event), -EINVAL);
	trapline_explain(-EINVAL, why, sizeof(why));
	assert_non_null(strstr(why, "a count of system calls takes no period"));
	end_child();
}

/* --- what must not be trusted --- */

/* Its ticks are lost inside system calls (perf_exclude_event), and no two runs are alike. */
static void a_counter_that_loses_interrupts_is_refused_with_the_reason(void **state)
{
	char why[256];

	start_child(UINT64_MAX);
	open_amount(TRAPLINE_TASK_CLOCK);
	assert_int_equal(run_to(1000000000, ADDR(tick)), -EOPNOTSUPP);
	trapline_explain(-EOPNOTSUPP, why, sizeof(why));
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "interrupts were due"));
	/* Not touched meanwhile: it stands before its first round. */
	assert_int_equal(shared->ticks, 0);
	end_child();
}

static void what_is_no_point_is_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_point point = {.size = sizeof(point), .count = 1, .ip = ADDR(tick)};

	start_child(100);
	open_amount(TRAPLINE_PAGE_FAULTS);
	/* It comes late, so a count alone says nothing. */
	assert_int_equal(run_to(1, 0), -EINVAL);
	point.counter = counter;
	assert_int_equal(trapline_run_to(rig.target, 0, &point, 0), -EINVAL);
	/* Of all threads together: nobody can say where one of them is. */
	expect_ok(trapline_count(rig.target, TRAPLINE_PAGE_FAULTS, &opts, &point.counter));
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	opts.flags = TRAPLINE_QUIET;
	expect_ok(trapline_count(rig.target, TRAPLINE_PAGE_FAULTS, &opts, &point.counter));
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	end_child();
}

/* --- the PMU --- */

static enum trapline_counter chosen;

static void open_chosen(void)
{
	open_amount(chosen);
}

/* One run to the next tick: refused where the counter has not passed the self-test. */
static int is_trusted(enum trapline_counter what)
{
	TRAPLINE_OPTS(event, opts);
	char why[256] = "";
	int err;

	chosen = what;
	start_child(UINT64_MAX);
	rig_open_pid(&rig, BY_BPF, child);
	opts.scope = TRAPLINE_THREADS;
	opts.tids = &child;
	opts.tid_count = 1;
	err = trapline_count(rig.target, what, &opts, &counter);
	if (!err)
		err = run_to(1000000, ADDR(start_child));
	if (err != -ERANGE)
		trapline_explain(err, why, sizeof(why));
	print_message("# counter %d: %s\n", (int)what, why[0] ? why : "trusted");
	end_child();
	return err == -ERANGE;
}

static void choose_counter(void)
{
	if (!is_trusted(TRAPLINE_CONDITIONAL_BRANCHES) && !is_trusted(TRAPLINE_INSTRUCTIONS) &&
	    !is_trusted(TRAPLINE_CYCLES))
		skip_because("a PMU whose counter tells points (trapline check: point_*)");
}

/* Hardly a tick is at that very count; then it is missed by no more than the next tick is away. */
static void a_process_that_runs_is_stopped_in_time(void **state)
{
	const uint64_t tick_at_most = 60 * 12 + 100;

	choose_counter();
	start_child(UINT64_MAX);
	open_chosen();
	for (uint64_t i = 0; i < 10; i++) {
		kill(child, SIGCONT);
		usleep(1000);
		uint64_t count = amount_now() + 4000000 + 2000 * i;

		int err = run_to(count, ADDR(tick));
		if (err != -ERANGE)
			expect_ok(err);
		assert_in_range(amount_now(), count, count + tick_at_most);
	}
	end_child();
}

static void signals_are_replayed_exactly_by_the_pmu(void **state)
{
	alarm(900);
	choose_counter();
	expect_replay(SIGNALS, SAMPLE_NS, open_chosen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POINT_TEST(the_first_pass_at_an_amount_is_the_point),
		POINT_TEST(registers_tell_passes_at_the_same_amount),
		POINT_TEST(what_is_past_is_told_with_the_distance),
		POINT_TEST(an_instruction_that_never_comes_ends_in_a_miss),
		POINT_TEST(records_hold_the_amount_at_the_hit),
		POINT_TEST(system_calls_are_counted_one_by_one),
		POINT_TEST(passes_are_found_again_by_system_calls),
		POINT_TEST(a_count_of_calls_that_no_pass_has_is_missed),
		POINT_TEST(system_calls_have_no_period),
		POINT_TEST(a_counter_that_loses_interrupts_is_refused_with_the_reason),
		POINT_TEST(what_is_no_point_is_refused),
		POINT_TEST(a_process_that_runs_is_stopped_in_time),
		POINT_TEST(signals_are_replayed_exactly_by_the_pmu),
	};

	return run_group(tests);
}
