/* SPDX-License-Identifier: MIT */
/*
 * test_throttle.c - threads draw no more than their budget, and pay in their own context.
 *
 * What is asserted is an upper bound that holds on any machine, however busy: the amount the
 * kernel counted against what the elapsed time has earned. bench/throttle measures how near it is.
 */
#include "../kernel/common.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <trapline/tools.h>

#define CHECK_NS 1000000u
#define BURST_NS 20000000u
/* trapline_throttle(3): a smaller debt is not told. */
#define DEBT_NS 1000000u

static struct trapline *target;
static struct trapline_throttle *throttle;
static _Atomic int told_throttled;
static _Atomic int told_even;

static int begin(void **state)
{
	test_begin(state);
	told_throttled = 0;
	told_even = 0;
	throttle = NULL;
	expect_ok(trapline_open(0, NULL, &target));
	return 0;
}

static int end(void **state)
{
	trapline_throttle_end(throttle);
	trapline_close(target);
	return test_end(state);
}

static void tell_throttled(void *arg, uint64_t debt_ns)
{
	told_throttled++;
}

static void tell_even(void *arg)
{
	told_even++;
}

static void limit(uint32_t counter, uint64_t per_second, uint32_t flags)
{
	struct trapline_throttle_opts opts = {
		.size = sizeof(opts),
		.flags = flags,
		.counter = counter,
		.per_second = per_second,
		.check = counter == TRAPLINE_TASK_CLOCK ? CHECK_NS : 0,
		.burst_ns = BURST_NS,
		.throttled = tell_throttled,
		.unthrottled = tell_even,
	};

	require(BY_CALLBACK);
	expect_ok(trapline_throttle(target, &opts, &throttle));
}

static struct trapline_throttle_stats stats(void)
{
	struct trapline_throttle_stats s = {.size = sizeof(s)};

	assert_int_equal(trapline_throttle_stats(throttle, &s), 0);
	return s;
}

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void work_until(uint64_t end_ns)
{
	while (now_ns() < end_ns)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void *work_main(void *arg)
{
	work_until(*(const uint64_t *)arg);
	return NULL;
}

static void work_in_threads(unsigned int n, uint64_t ns)
{
	uint64_t end_ns = now_ns() + ns;
	pthread_t threads[32];

	for (unsigned int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, work_main, &end_ns);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Each thread may draw one check's worth before it looks, and a tick can come late. */
static void expect_at_most(uint64_t drawn, uint64_t elapsed_ns, double share, unsigned int threads)
{
	double earned = (double)(elapsed_ns + BURST_NS) * share;
	double loose = threads * (double)CHECK_NS + 20e6;

	print_message("# drew %.1f ms of %.1f ms earned\n", (double)drawn / 1e6, earned / 1e6);
	assert_true((double)drawn <= earned + loose);
}

static void one_thread_draws_no_more_than_its_share(void **state)
{
	limit(TRAPLINE_TASK_CLOCK, 300000000, TRAPLINE_THROTTLE_SLEEP);

	uint64_t start = now_ns();
	work_until(start + 1000000000u);
	uint64_t elapsed = now_ns() - start;
	/* It may be throttled again on each side of the count. */
	uint64_t told_before = (uint64_t)told_throttled;
	struct trapline_throttle_stats s = stats();
	uint64_t told_after = (uint64_t)told_throttled;

	expect_at_most(s.drawn, elapsed, 0.3, 1);
	/* Where others leave the thread less than its share, it has nothing to sleep off. */
	if ((double)s.drawn < 0.2 * (double)elapsed)
		return;
	assert_true(s.sleeps > 0);
	/* A debt that is paid before it has grown is not told. */
	assert_in_range(s.throttled, told_before, told_after);
	assert_true(!told_throttled || told_even > 0);
}

static void threads_share_one_budget_also_those_created_later(void **state)
{
	limit(TRAPLINE_TASK_CLOCK, 400000000, TRAPLINE_THROTTLE_SLEEP);

	uint64_t start = now_ns();
	work_in_threads(8, 1000000000u);
	uint64_t elapsed = now_ns() - start;

	expect_at_most(stats().drawn, elapsed, 0.4, 9);
}

static void *work_and_measure(void *arg)
{
	uint64_t start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);

	work_until(now_ns() + 800000000u);
	*(uint64_t *)arg = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	return NULL;
}

static void each_thread_may_have_its_own_budget(void **state)
{
	uint64_t drawn[3];
	pthread_t threads[3];

	limit(TRAPLINE_TASK_CLOCK, 200000000, TRAPLINE_THROTTLE_SLEEP | TRAPLINE_THROTTLE_EACH);

	uint64_t start = now_ns();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work_and_measure, &drawn[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	uint64_t elapsed = now_ns() - start;
	for (int i = 0; i < 3; i++) {
		expect_at_most(drawn[i], elapsed, 0.2, 1);
		assert_true(drawn[i] > 0);
	}
}

static void without_sleep_the_thread_is_told_and_pays_where_it_likes(void **state)
{
	limit(TRAPLINE_TASK_CLOCK, 100000000, 0);

	/* CPU time, so that the debt is there however slow the machine is. */
	uint64_t cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 200000000u)
		work_until(now_ns() + 1000000u);

	struct trapline_throttle_stats s = stats();

	assert_int_equal(s.sleeps, 0);
	assert_true(s.checks > 0);
	/* Once for each time in debt, not at each tick; on a busy machine it may get even. */
	assert_true(told_throttled >= 1 && told_throttled - told_even <= 1);
	assert_true((uint64_t)told_throttled < s.checks / 2);
	if (trapline_throttle_debt(throttle)) {
		assert_true(trapline_throttle_pay(throttle) > 0);
		assert_int_equal(stats().sleeps, 1);
		/*
		 * The way back from a payment and the next look draw as well, and each nanosecond
		 * costs ten here. So what is left is small, not zero.
		 */
		for (int i = 0; i < 50 && trapline_throttle_debt(throttle); i++)
			trapline_throttle_pay(throttle);
		assert_true(trapline_throttle_debt(throttle) < DEBT_NS);
	}
	trapline_throttle_pay(throttle);
	assert_int_equal(told_even, told_throttled);
}

/* What a sleep costs is drawn, too: who pays that by one more sleep does nothing else in the end. */
static void small_debts_leave_time_to_work(void **state)
{
	struct trapline_throttle_opts opts = {
		.size = sizeof(opts),
		.counter = TRAPLINE_TASK_CLOCK,
		.per_second = 200000000,
		.scope = TRAPLINE_CALLER,
		.burst_ns = BURST_NS,
	};
	uint64_t worked = 0;

	require(BY_CALLBACK);
	expect_ok(trapline_throttle(target, &opts, &throttle));
	uint64_t wall = now_ns();
	uint64_t start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < 2000; i++) {
		uint64_t before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before < 100000u)
			;
		worked += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		trapline_throttle_pay(throttle);
	}
	uint64_t drawn = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	uint64_t passed = now_ns() - wall;

	print_message("# %lu us drawn in %lu us, %lu of it work\n", drawn / 1000, passed / 1000,
		      worked / 1000);
	assert_true(drawn < 2 * worked);
	/* All that was drawn has been paid for, but for the burst. */
	assert_true(5 * drawn < passed + 5 * BURST_NS + 10000000u);
}

static void page_faults_are_rationed(void **state)
{
	uint64_t pages = 1000;

	limit(TRAPLINE_PAGE_FAULTS, 2000, TRAPLINE_THROTTLE_SLEEP);

	uint64_t start = now_ns();
	char *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < pages; i++)
		memory[i * 4096] = 1;
	uint64_t elapsed = now_ns() - start;
	munmap(memory, pages * 4096);

	assert_true(stats().drawn >= pages);
	/* 1,000 faults at 2,000 a second, less what the burst and one check give. */
	assert_true(elapsed >= 400000000u);
}

static void threads_not_in_the_scope_are_free(void **state)
{
	struct trapline_throttle_opts opts = {
		.size = sizeof(opts),
		.flags = TRAPLINE_THROTTLE_SLEEP,
		.counter = TRAPLINE_TASK_CLOCK,
		.per_second = 50000000,
		.scope = TRAPLINE_CALLER,
	};

	require(BY_CALLBACK);
	expect_ok(trapline_throttle(target, &opts, &throttle));
	/* This thread waits; those that work are not in the scope. */
	work_in_threads(4, 300000000u);
	assert_int_equal(stats().sleeps, 0);
	assert_int_equal(stats().checks, 0);
	/* More CPU time than is there without a sleep, however long it takes to get it. */
	uint64_t cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 30000000u && !stats().sleeps)
		work_until(now_ns() + 1000000u);
	assert_true(stats().sleeps > 0);
}

static _Atomic int alarms;

static void on_alarm(int number)
{
	alarms++;
}

static void signals_of_the_program_are_handled_in_a_sleep(void **state)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 10000000}, {0, 10000000}};
	timer_t timer;

	alarms = 0;
	sigaction(SIGUSR1, &sa, NULL);
	limit(TRAPLINE_TASK_CLOCK, 20000000, TRAPLINE_THROTTLE_SLEEP);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	timer_settime(timer, 0, &every, NULL);

	uint64_t start = now_ns();
	work_until(start + 500000000u);
	uint64_t elapsed = now_ns() - start;
	timer_delete(timer);
	expect_at_most(stats().drawn, elapsed, 0.02, 1);
	assert_true(alarms >= 5);
	signal(SIGUSR1, SIG_DFL);
}

static void after_its_end_there_is_no_budget(void **state)
{
	limit(TRAPLINE_TASK_CLOCK, 100000000, TRAPLINE_THROTTLE_SLEEP);
	work_until(now_ns() + 100000000u);
	assert_true(stats().sleeps > 0);
	trapline_throttle_end(throttle);
	throttle = NULL;

	/* A thread that computes leaves the CPU of its own will only to sleep. */
	struct rusage before;
	struct rusage after;
	uint64_t cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);

	getrusage(RUSAGE_THREAD, &before);
	while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 300000000u)
		work_until(now_ns() + 1000000u);
	getrusage(RUSAGE_THREAD, &after);
	assert_true(after.ru_nvcsw - before.ru_nvcsw <= 2);
	/* The row can be used again. */
	limit(TRAPLINE_TASK_CLOCK, 500000000, TRAPLINE_THROTTLE_SLEEP);
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct trapline_throttle_opts opts = {.size = sizeof(opts)};

	assert_int_equal(trapline_throttle(target, &opts, &throttle), -EINVAL);
	opts.per_second = 1;
	opts.flags = 64;
	assert_int_equal(trapline_throttle(target, &opts, &throttle), -EINVAL);
	opts.flags = TRAPLINE_THROTTLE_EACH;
	opts.counter = TRAPLINE_CONTEXT_SWITCHES;
	assert_int_equal(trapline_throttle(target, &opts, &throttle), -EINVAL);
	opts.flags = 0;
	opts.counter = TRAPLINE_TASK_CLOCK;
	opts.check = 10;
	assert_int_equal(trapline_throttle(target, &opts, &throttle), -EINVAL);
	throttle = NULL;
	trapline_throttle_end(NULL);
}

#define THROTTLE_TEST(f) {#f, f, begin, end, NULL}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THROTTLE_TEST(one_thread_draws_no_more_than_its_share),
		THROTTLE_TEST(threads_share_one_budget_also_those_created_later),
		THROTTLE_TEST(each_thread_may_have_its_own_budget),
		THROTTLE_TEST(without_sleep_the_thread_is_told_and_pays_where_it_likes),
		THROTTLE_TEST(small_debts_leave_time_to_work),
		THROTTLE_TEST(page_faults_are_rationed),
		THROTTLE_TEST(threads_not_in_the_scope_are_free),
		THROTTLE_TEST(signals_of_the_program_are_handled_in_a_sleep),
		THROTTLE_TEST(after_its_end_there_is_no_budget),
		THROTTLE_TEST(what_makes_no_sense_is_refused),
	};

	return run_group(tests);
}
