/* SPDX-License-Identifier: MIT */
/* test_code_and_counters.c - breaks on instructions, counted amounts, samples. */
#include "common.h"

#include <sys/mman.h>
#include <ucontext.h>

#define PAGES 16
#define CALLS 1000

static volatile int calls;

static NOINLINE int twice(int x)
{
	calls++;
	return 2 * x;
}

static NOINLINE int thrice(int x)
{
	calls++;
	return 3 * x;
}

static void rig_break(struct rig *rig, uint64_t addr, struct trapline_event_opts *opts)
{
	TRAPLINE_OPTS(event, plain);

	if (!opts)
		opts = &plain;
	rig_prepare(rig, opts);
	expect_ok(trapline_break(rig->target, addr, opts, &rig->event));
	expect_mechanism(rig);
}

static void rig_count(struct rig *rig, enum trapline_counter what, uint64_t period)
{
	TRAPLINE_OPTS(event, opts);

	opts.period = period;
	rig_prepare(rig, &opts);
	expect_ok(trapline_count(rig->target, what, &opts, &rig->event));
}

static void break_hits_at_the_instruction(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_break(&rig, ADDR(twice), NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(twice(i), 2 * i);
	assert_int_equal(thrice(5), 15);
	expect_hits(&rig, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rig.seen[i].ip, ADDR(twice));
		assert_int_equal(rig.seen[i].address, ADDR(twice));
		assert_int_equal(rig.seen[i].access, TRAPLINE_EXECUTE);
		assert_int_equal(rig.seen[i].done, 0);
		assert_int_equal(rig.seen[i].value_when, TRAPLINE_VALUE_NONE);
		assert_int_equal(rig.seen[i].tid, gettid());
	}
	rig_close(&rig);
}

static int calls_at_hit;

static enum trapline_action note_calls(const struct trapline_hit *hit)
{
	calls_at_hit = calls;
	return rig_note(hit);
}

static void break_fires_before_the_function(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = note_calls;
	rig_break(&rig, ADDR(twice), &opts);
	calls = 10;
	calls_at_hit = -1;
	twice(1);
	assert_int_equal(calls_at_hit, 10);
	assert_int_equal(calls, 11);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

#if defined(__x86_64__)
static enum trapline_action set_argument(const struct trapline_hit *hit)
{
	ucontext_t *context = hit->context;

	context->uc_mcontext.gregs[REG_RDI] = 50;
	return rig_note(hit);
}

static enum trapline_action redirect(const struct trapline_hit *hit)
{
	ucontext_t *context = hit->context;

	context->uc_mcontext.gregs[REG_RIP] = (greg_t)ADDR(thrice);
	return rig_note(hit);
}

static void callback_may_change_the_context(void **state)
{
	const trapline_callback callbacks[] = {set_argument, redirect};
	const int results[] = {100, 21};

	for (int i = 0; i < 2; i++) {
		TRAPLINE_OPTS(event, opts);
		struct rig rig;

		rig_open(&rig, BY_CALLBACK);
		opts.callback = callbacks[i];
		rig_break(&rig, ADDR(twice), &opts);
		assert_int_equal(twice(7), results[i]);
		assert_int_equal(thrice(7), 21);
		expect_hits(&rig, 1);
		trapline_event_disable(rig.event);
		assert_int_equal(twice(7), 14);
		rig_close(&rig);
	}
}
#else
static void callback_may_change_the_context(void **state)
{
	skip_because("register names of this architecture");
}
#endif

static void moved_break_hits_at_the_new_address_only(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_break(&rig, ADDR(twice), NULL);
	assert_int_equal(trapline_event_move(rig.event, ADDR(thrice)), 0);
	twice(1);
	expect_hits(&rig, 0);
	thrice(1);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].ip, ADDR(thrice));
	rig_close(&rig);
}

static volatile uint8_t *fresh_pages(void)
{
	size_t len = PAGES * 4096;
	void *pages = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	madvise(pages, len, MADV_NOHUGEPAGE);
	return pages;
}

static NOINLINE void touch(volatile uint8_t *pages)
{
	for (int i = 0; i < PAGES; i++)
		pages[i * 4096] = 1;
}

/* The first pass also faults in all that the second one needs. */
static void page_faults_are_counted_exactly(void **state)
{
	volatile uint8_t *warm = fresh_pages();
	volatile uint8_t *pages = fresh_pages();
	uint64_t before;
	uint64_t after;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_count(&rig, TRAPLINE_PAGE_FAULTS, 1);
	touch(warm);
	rig_hits(&rig);
	assert_int_equal(trapline_event_read(rig.event, &before), 0);
	assert_int_equal(trapline_event_read(rig.event, &before), 0);
	touch(pages);
	assert_int_equal(trapline_event_read(rig.event, &after), 0);
	assert_int_equal(after - before, PAGES);
	touch(pages);
	assert_int_equal(trapline_event_read(rig.event, &before), 0);
	assert_int_equal(before, after);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	rig_stats(&rig);
	rig_close(&rig);
	munmap((void *)warm, PAGES * 4096);
	munmap((void *)pages, PAGES * 4096);
}

static void each_page_fault_is_a_hit(void **state)
{
	volatile uint8_t *pages = fresh_pages();
	unsigned int found = 0;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_count(&rig, TRAPLINE_PAGE_FAULTS, 1);
	touch(pages);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	for (uint64_t i = 0; i < rig.hits && i < SEEN_MAX; i++) {
		assert_int_equal(rig.seen[i].access, TRAPLINE_AMOUNT);
		assert_int_equal(rig.seen[i].len, 0);
		assert_int_equal(rig.seen[i].amount, 1);
		found += rig.seen[i].ip >= ADDR(touch) && rig.seen[i].ip < ADDR(touch) + 128;
	}
	assert_int_equal(found, PAGES);
	rig_close(&rig);
	munmap((void *)pages, PAGES * 4096);
}

static void period_of_zero_only_counts(void **state)
{
	volatile uint8_t *pages = fresh_pages();
	uint64_t count = 0;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_count(&rig, TRAPLINE_PAGE_FAULTS, 0);
	touch(pages);
	assert_int_equal(trapline_event_read(rig.event, &count), 0);
	assert_true(count >= PAGES);
	assert_int_equal(rig_hits(&rig), 0);
	close_target(rig.target);
	munmap((void *)pages, PAGES * 4096);
}

static void *call_in_thread(void *arg)
{
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return NULL;
}

/* The thread is made and joined by calls of its own, some more. */
static void system_calls_of_all_threads_are_counted(void **state)
{
	uint64_t before = 0;
	uint64_t after = 0;
	struct rig rig;
	pthread_t thread;

	need_syscall_tracepoint();
	rig_open(&rig, MODE(state));
	rig_count(&rig, TRAPLINE_SYSCALLS, 0);
	expect_ok(trapline_event_read(rig.event, &before));
	call_in_thread(NULL);
	assert_int_equal(pthread_create(&thread, NULL, call_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect_ok(trapline_event_read(rig.event, &after));
	print_message("# %d and some: %lu\n", 2 * CALLS, after - before);
	assert_in_range(after - before, 2 * CALLS, 2 * CALLS + CALLS / 2);
	assert_int_equal(rig_hits(&rig), 0);
	close_target(rig.target);
}

static void unknown_counter_is_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_prepare(&rig, &opts);
	assert_int_equal(trapline_count(rig.target, (enum trapline_counter)77, &opts, &event),
			 -EINVAL);
	assert_null(event);
	close_target(rig.target);
}

static void sample_hits_while_the_thread_runs(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_prepare(&rig, &opts);
	expect_ok(trapline_sample(rig.target, 1000000, &opts, &rig.event));
	while (rig_hits(&rig) < 20)
		for (int i = 0; i < 10000; i++)
			twice(i);
	assert_int_equal(trapline_event_disable(rig.event), 0);

	uint64_t hits = rig_hits(&rig);

	for (int i = 0; i < 20000000; i++)
		calls++;
	assert_int_equal(rig_hits(&rig), hits);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rig.seen[i].access, TRAPLINE_AMOUNT);
		assert_int_equal(rig.seen[i].amount, 1000000);
		assert_int_equal(rig.seen[i].tid, gettid());
	}
	rig_close(&rig);
}

static void sample_needs_twenty_microseconds(void **state)
{
	struct trapline_event *event = NULL;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_prepare(&rig, &opts);
	assert_int_equal(trapline_sample(rig.target, 19999, &opts, &event), -EINVAL);
	assert_int_equal(trapline_sample(rig.target, 0, &opts, &event), -EINVAL);
	assert_null(event);
	expect_ok(trapline_sample(rig.target, 20000, &opts, &event));
	close_target(rig.target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(break_hits_at_the_instruction),
		TEST(break_fires_before_the_function),
		TEST(callback_may_change_the_context),
		TEST_EACH_MODE(moved_break_hits_at_the_new_address_only),
		TEST_EACH_MODE(page_faults_are_counted_exactly),
		TEST(each_page_fault_is_a_hit),
		TEST_EACH_MODE(period_of_zero_only_counts),
		TEST_EACH_MODE(system_calls_of_all_threads_are_counted),
		TEST_EACH_MODE(unknown_counter_is_refused),
		TEST_EACH_MODE(sample_hits_while_the_thread_runs),
		TEST_EACH_MODE(sample_needs_twenty_microseconds),
	};

	return run_group(tests);
}
