/* SPDX-License-Identifier: MIT */
/* test_watch.c - what a watch reports, when it is armed, and which arguments are refused. */
#include "common.h"

#include <sys/prctl.h>

static volatile uint64_t word __attribute__((aligned(64)));
static volatile uint64_t other __attribute__((aligned(64)));

/* At a hit that is reported before the access the value is still the one that was. */
static uint64_t value_at_hit(uint64_t before, uint64_t after)
{
	return ACCESS_DONE ? after : before;
}

static void watch_reports_new_value(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	word = 7;
	rig_watch(&rig, &word, NULL);
	store(&word, 41);
	store(&word, 42);
	expect_hits(&rig, 2);
	if (rig.mode == BY_RING) {
		assert_int_equal(rig.seen[1].value_when, TRAPLINE_VALUE_LATER);
		assert_int_equal(rig.seen[1].new_value, 42);
	} else {
		for (int i = 0; i < 2; i++) {
			assert_int_equal(rig.seen[i].value_when, TRAPLINE_VALUE_AT_HIT);
			assert_int_equal(rig.seen[i].new_value, value_at_hit(i ? 41 : 7, 41 + i));
			assert_int_equal(rig.seen[i].old_known, 1);
		}
		assert_int_equal(rig.seen[0].old_value, 7);
		assert_int_equal(rig.seen[1].old_value, value_at_hit(7, 41));
	}
	rig_close(&rig);
}

static void watch_reports_who_when_and_where(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	prctl(PR_SET_NAME, "scribe");

	uint64_t before = now_ns();

	store(&word, 1);

	uint64_t after = now_ns();

	expect_hits(&rig, 1);

	const struct trapline_hit *hit = &rig.seen[0];

	assert_int_equal(hit->size, sizeof(*hit));
	assert_ptr_equal(hit->event, rig.event);
	assert_int_equal(hit->tid, gettid());
	assert_int_equal(hit->pid, getpid());
	assert_in_range(hit->time_ns, before, after);
	assert_in_range(hit->ip, ADDR(store), ADDR(store) + 64);
	assert_in_range(hit->sp, ADDR(&rig) - 65536, ADDR(&rig) + sizeof(rig));
	assert_int_equal(hit->address, ADDR(&word));
	assert_int_equal(hit->len, 8);
	assert_int_equal(hit->access, TRAPLINE_WRITE);
	assert_int_equal(hit->done, ACCESS_DONE);
	assert_int_equal(hit->async, 0);
	assert_string_equal(hit->thread, rig.mode == BY_CALLBACK ? "" : "scribe");
	rig_close(&rig);
}

static void narrow_values_are_zero_extended(void **state)
{
	static volatile uint64_t wide;
	struct rig rig;

	rig_open(&rig, MODE(state));
	wide = UINT64_MAX;
	rig_watch_range(&rig, &wide, 2, TRAPLINE_WRITE, NULL);
	*(volatile uint16_t *)&wide = 0x1234;
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].len, 2);
	if (rig.mode == BY_RING) {
		assert_int_equal(rig.seen[0].new_value, 0x1234);
	} else {
		assert_int_equal(rig.seen[0].new_value, value_at_hit(0xffff, 0x1234));
		assert_int_equal(rig.seen[0].old_value, 0xffff);
	}
	rig_close(&rig);
}

static void same_value_write_hits(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	word = 5;
	rig_watch(&rig, &word, NULL);
	store(&word, 5);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].new_value, 5);
	if (rig.mode != BY_RING)
		assert_int_equal(rig.seen[0].old_value, 5);
	rig_close(&rig);
}

static void reads_do_not_hit_a_write_watch(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	for (int i = 0; i < 10; i++)
		load(&word);
	expect_hits(&rig, 0);
	rig_close(&rig);
}

static void reads_hit_a_read_write_watch(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	word = 9;
	rig_watch_range(&rig, &word, 8, TRAPLINE_READ_WRITE, NULL);
	assert_int_equal(load(&word), 9);
	store(&word, 10);
	expect_hits(&rig, 2);
	assert_int_equal(rig.seen[0].access, TRAPLINE_READ_WRITE);
	if (rig.mode != BY_RING)
		assert_int_equal(rig.seen[0].new_value, 9);
	rig_close(&rig);
}

static void neighbours_do_not_hit(void **state)
{
	static volatile uint64_t row[3];
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &row[1], NULL);
	store(&row[0], 1);
	store(&row[2], 1);
	expect_hits(&rig, 0);
	store(&row[1], 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void disabled_event_has_no_hits(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &word, &opts);
	store(&word, 1);
	expect_hits(&rig, 0);
	for (unsigned int round = 1; round <= 20; round++) {
		assert_int_equal(trapline_event_enable(rig.event), 0);
		store(&word, round);
		assert_int_equal(trapline_event_disable(rig.event), 0);
		store(&word, 0);
		expect_hits(&rig, round);
	}
	rig_close(&rig);
}

static void enabling_twice_is_enabling_once(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static enum trapline_action note_and_disarm(const struct trapline_hit *hit)
{
	rig_note(hit);
	return TRAPLINE_DISARM;
}

static void returning_disarm_disarms(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = note_and_disarm;
	rig_watch(&rig, &word, &opts);
	store_many(&word, 5);
	expect_hits(&rig, 1);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	store_many(&word, 5);
	expect_hits(&rig, 2);
	rig_close(&rig);
}

static void closed_event_has_no_hits(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	store(&word, 1);
	expect_hits(&rig, 1);
	trapline_event_close(rig.event);
	store(&word, 2);
	assert_int_equal(rig_hits(&rig), 1);
	close_target(rig.target);
}

static void kernel_count_is_readable(void **state)
{
	uint64_t count = 77;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	store_many(&word, 25);
	assert_int_equal(trapline_event_read(rig.event, &count), 0);
	assert_int_equal(count, 25);
	expect_hits(&rig, 25);
	rig_close(&rig);
}

static enum trapline_action keep_registers(const struct trapline_hit *hit)
{
	uint64_t *kept = hit->arg;

	kept[2] = (uint64_t)trapline_hit_register(hit, 99, &kept[3]);
	if (trapline_hit_register(hit, 5, &kept[0]) || trapline_hit_register(hit, 4, &kept[1]))
		kept[0] = 0;
	if (trapline_hit_register(hit, 16, &kept[4]) || kept[4] != hit->ip)
		kept[4] = 0;
	kept[5] = hit->context != NULL;
	return TRAPLINE_GO_ON;
}

static void callback_sees_the_registers(void **state)
{
#if defined(__x86_64__)
	TRAPLINE_OPTS(event, opts);
	uint64_t kept[6] = {0, 0, 0, 123};
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = keep_registers;
	opts.arg = kept;
	rig_watch(&rig, &word, &opts);
	store(&word, 0xabcdef);
	assert_int_equal(kept[0], ADDR(&word));
	assert_int_equal(kept[1], 0xabcdef);
	assert_int_equal((int)kept[2], -EINVAL);
	assert_int_equal(kept[3], 123);
	assert_int_not_equal(kept[4], 0);
	assert_int_equal(kept[5], 1);
	expect_identity(rig.event);
	close_target(rig.target);
#else
	(void)keep_registers;
	skip_because("register numbers of this architecture");
#endif
}

struct frames {
	uint64_t ip;
	uint32_t count;
	uint64_t at[TRAPLINE_STACK_MAX];
};

static enum trapline_action keep_frames(const struct trapline_hit *hit)
{
	struct frames *frames = hit->arg;

	frames->ip = hit->ip;
	frames->count = hit->stack_count;
	for (uint32_t i = 0; i < hit->stack_count && i < TRAPLINE_STACK_MAX; i++)
		frames->at[i] = hit->stack[i];
	return TRAPLINE_GO_ON;
}

static NOINLINE void outer_function(void)
{
	store(&word, 1);
	__asm__ volatile("" ::: "memory");
}

static void take_frames(uint32_t depth, struct frames *frames)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = keep_frames;
	opts.arg = frames;
	opts.stack_depth = depth;
	rig_watch(&rig, &word, &opts);
	outer_function();
	expect_identity(rig.event);
	close_target(rig.target);
}

static void callback_sees_its_callers(void **state)
{
	struct frames frames = {0};

	take_frames(16, &frames);
	assert_in_range(frames.count, 4, 16);
	assert_int_equal(frames.at[0], frames.ip);
	assert_in_range(frames.at[1], ADDR(outer_function), ADDR(outer_function) + 64);
	assert_in_range(frames.at[2], ADDR(take_frames), ADDR(take_frames) + 2048);
}

static void stack_is_no_deeper_than_asked(void **state)
{
	struct frames frames = {0};

	take_frames(2, &frames);
	assert_int_equal(frames.count, 2);
	take_frames(0, &frames);
	assert_int_equal(frames.count, 0);
}

static void wrong_lengths_are_refused(void **state)
{
	static const size_t lengths[] = {0, 33, 64, SIZE_MAX};
	struct trapline_event *event = (void *)&word;
	struct rig rig;

	rig_open(&rig, MODE(state));
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		int err = trapline_watch(rig.target, ADDR(&word), lengths[i], TRAPLINE_WRITE,
					 NULL, &event);

		assert_int_equal(err, -EINVAL);
		assert_ptr_equal(event, &word);
	}
	close_target(rig.target);
}

static void wrong_accesses_are_refused(void **state)
{
	static const unsigned int accesses[] = {0, TRAPLINE_EXECUTE, TRAPLINE_AMOUNT, 7, 64,
#if defined(__x86_64__)
						TRAPLINE_READ
#endif
	};
	struct trapline_event *event = (void *)&word;
	struct rig rig;

	rig_open(&rig, MODE(state));
	for (size_t i = 0; i < ARRAY_LEN(accesses); i++) {
		int err = trapline_watch(rig.target, ADDR(&word), 8,
					 (enum trapline_access)accesses[i], NULL, &event);

		assert_int_equal(err, -EINVAL);
		assert_ptr_equal(event, &word);
	}
	close_target(rig.target);
}

static void unknown_options_are_refused(void **state)
{
	struct {
		struct trapline_event_opts known;
		uint64_t unknown;
	} newer = {{.size = sizeof(newer)}, 1};
	struct trapline_event *event = (void *)&word;
	struct rig rig;

	rig_open(&rig, MODE(state));
	newer.known.callback = rig.mode == BY_CALLBACK ? rig_note : NULL;
	newer.known.arg = &rig;
	assert_int_equal(trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE,
					&newer.known, &event),
			 -E2BIG);
	assert_ptr_equal(event, &word);
	newer.unknown = 0;
	expect_ok(trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &newer.known,
				 &rig.event));
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void older_options_still_work(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.size = offsetof(struct trapline_event_opts, stack_depth);
	opts.stack_depth = UINT32_MAX;
	rig_watch(&rig, &word, &opts);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void unknown_flags_are_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	TRAPLINE_OPTS(open, open_opts);
	struct trapline_event *event = NULL;
	struct trapline *target = NULL;
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = 1u << 30;
	assert_int_equal(
		trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event),
		-EINVAL);
	open_opts.flags = 1u << 30;
	assert_int_equal(trapline_open(0, &open_opts, &target), -EINVAL);
	open_opts.flags = 0;
	open_opts.records_bytes = 12345;
	assert_int_equal(trapline_open(0, &open_opts, &target), -EINVAL);
	assert_null(event);
	assert_null(target);
	close_target(rig.target);
}

static void statistics_need_their_size(void **state)
{
	struct trapline_stats stats = {0};
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &other, NULL);
	assert_int_equal(trapline_event_stats(rig.event, &stats), -EINVAL);
	store(&other, 1);
	stats.size = offsetof(struct trapline_stats, rejected_limit);
	stats.rejected_limit = 4711;
	rig_hits(&rig);
	assert_int_equal(trapline_event_stats(rig.event, &stats), 0);
	assert_int_equal(stats.taken, 1);
	assert_int_equal(stats.delivered, 1);
	assert_int_equal(stats.rejected_limit, 4711);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(watch_reports_new_value),
		TEST_EACH_MODE(watch_reports_who_when_and_where),
		TEST_EACH_MODE(narrow_values_are_zero_extended),
		TEST_EACH_MODE(same_value_write_hits),
		TEST_EACH_MODE(reads_do_not_hit_a_write_watch),
		TEST_EACH_MODE(reads_hit_a_read_write_watch),
		TEST_EACH_MODE(neighbours_do_not_hit),
		TEST_EACH_MODE(disabled_event_has_no_hits),
		TEST_EACH_MODE(enabling_twice_is_enabling_once),
		TEST(returning_disarm_disarms),
		TEST_EACH_MODE(closed_event_has_no_hits),
		TEST_EACH_MODE(kernel_count_is_readable),
		TEST(callback_sees_the_registers),
		TEST(callback_sees_its_callers),
		TEST(stack_is_no_deeper_than_asked),
		TEST_EACH_MODE(wrong_lengths_are_refused),
		TEST_EACH_MODE(wrong_accesses_are_refused),
		TEST_EACH_MODE(unknown_options_are_refused),
		TEST_EACH_MODE(older_options_still_work),
		TEST_EACH_MODE(unknown_flags_are_refused),
		TEST_EACH_MODE(statistics_need_their_size),
	};

	return run_group(tests);
}
