/* SPDX-License-Identifier: MIT */
/*
 * test_point.c - a process is stopped exactly at a point: count, instruction, registers; the
 * counter is a uprobe, which needs no PMU.
 */
#include "points.h"

#include <pthread.h>

#define SIGNALS SIGNALS_MAX
#define SAMPLE_NS 150000

static uint64_t tick_address(void)
{
	return ADDR(tick);
}

static void open_counter(void)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t address = tick_address();

	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK) || geteuid())
		skip_because("uprobes (CONFIG_UPROBE_EVENTS, root)");
	rig_open_pid(&rig, BY_BPF, child);
	opts.flags = TRAPLINE_QUIET;
	expect_ok(trapline_break_sites(rig.target, &address, 1, &opts, &counter));
}

static int run_to(uint64_t count, uint64_t ip)
{
	struct trapline_point point = {
		.size = sizeof(point), .counter = counter, .count = count, .ip = ip,
	};

	return trapline_run_to(rig.target, child, &point, 20000);
}

static void it_stops_at_the_count_and_goes_on_to_the_next(void **state)
{
	static const uint64_t counts[] = {1, 2, 1000, 1001, 50000};

	start_child(60000);
	open_counter();
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		expect_ok(run_to(counts[i], 0));
		/* The probed instruction has run, the count of the child has not. */
		assert_int_equal(shared->ticks, counts[i] - 1);
		usleep(1000);
		assert_int_equal(shared->ticks, counts[i] - 1);
	}
	end_child();
}

static void it_stops_before_the_instruction_of_that_pass(void **state)
{
	start_child(60000);
	open_counter();
	for (uint64_t count = 0; count < 20000; count += 1 + count / 2) {
		/* At the counter's own place the pass to come is not yet counted. */
		expect_ok(run_to(count, tick_address()));
		assert_int_equal(shared->ticks, count);
		expect_at(tick_address());
	}
	end_child();
}

static void a_condition_at_the_place_decides(void **state)
{
	struct trapline_condition *condition;
	uint64_t address = tick_address();
	struct trapline_point point = {.size = sizeof(point), .ip = address};

	start_child(60000);
	open_counter();
	assert_int_equal(trapline_condition_parse("arg0 == 777", NULL, &condition), 0);
	point.condition = condition;
	expect_ok(trapline_run_to(rig.target, child, &point, 20000));
	assert_int_equal(shared->ticks, 777);
	expect_at(address);
	trapline_condition_free(condition);
	end_child();
}

static void a_missed_point_is_an_error_with_the_distance(void **state)
{
	char why[256];

	start_child(60000);
	open_counter();
	expect_ok(run_to(100, 0));
	assert_int_equal(run_to(90, 0), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "10 past it"));
	/* Never at this instruction before the next tick: stopped there, and said so. */
	assert_int_equal(run_to(200, ADDR(start_child)), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "1 past it"));
	expect_ok(run_to(300, 0));
	end_child();
}

static void the_end_and_the_timeout_are_told(void **state)
{
	struct trapline_point point = {.size = sizeof(point)};

	start_child(100);
	open_counter();
	assert_int_equal(run_to(1000000, 0), -ESRCH);
	end_child();
	start_child(UINT64_MAX);
	open_counter();
	point.counter = counter;
	point.count = UINT64_MAX;
	assert_int_equal(trapline_run_to(rig.target, child, &point, 50), -ETIMEDOUT);
	/* It went on meanwhile, and a later point is still reached. */
	expect_ok(run_to(shared->ticks + 20000, 0));
	end_child();
}

static void what_is_no_point_is_refused(void **state)
{
	struct trapline_point point = {.size = sizeof(point)};
	struct trapline *self;

	start_child(100);
	open_counter();
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	point.registers_used = 1;
	point.counter = counter;
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	point.registers_used = 1ull << 60;
	point.ip = tick_address();
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	expect_ok(trapline_open(0, NULL, &self));
	point.registers_used = 0;
	assert_int_equal(trapline_run_to(self, child, &point, 0), -EINVAL);
	trapline_close(self);
	end_child();
}

#define PASSING_THREADS 12

static void *pass_for_ever(void *unused)
{
	for (uint64_t i = 0;; i++)
		tick(i);
	return unused;
}

static uint64_t run_threads(uint64_t rounds)
{
	pthread_t thread;

	for (int i = 1; i < PASSING_THREADS; i++)
		pthread_create(&thread, NULL, pass_for_ever, NULL);
	pass_for_ever(NULL);
	return rounds;
}

/* Another thread may pass a few more times before the stop reaches it. */
static void a_point_among_threads_is_not_missed(void **state)
{
	struct trapline_point point = {.size = sizeof(point), .ip = tick_address()};
	uint64_t count = 0;

#if !defined(__x86_64__)
	skip_because("a processor that lets an instruction run after its breakpoint");
#endif
	start_program(run_threads, 0);
	open_counter();
	point.counter = counter;
	for (int i = 0; i < 300; i++) {
		pid_t tid;

		point.count = count += 40;
		expect_ok(tid = trapline_run_to(rig.target, 0, &point, 20000));
		assert_true(tid > 0);
		/* Another thread may stand there too, as one of the passes before. */
		assert_true(stats_of(counter).delivered >= count + 1 - PASSING_THREADS);
	}
	end_child();
}

static void a_thousand_signals_are_replayed_exactly(void **state)
{
	expect_replay(SIGNALS, SAMPLE_NS, open_counter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POINT_TEST(it_stops_at_the_count_and_goes_on_to_the_next),
		POINT_TEST(it_stops_before_the_instruction_of_that_pass),
		POINT_TEST(a_condition_at_the_place_decides),
		POINT_TEST(a_missed_point_is_an_error_with_the_distance),
		POINT_TEST(a_point_among_threads_is_not_missed),
		POINT_TEST(the_end_and_the_timeout_are_told),
		POINT_TEST(what_is_no_point_is_refused),
		POINT_TEST(a_thousand_signals_are_replayed_exactly),
	};

	return run_group(tests);
}
