/* SPDX-License-Identifier: MIT */
/* test_limit.c - a limit is exact over all threads; re-arming adds exactly what was asked. */
#include "crew.h"

#include <sys/resource.h>

#define RACE_ROUNDS 100
#define RACE_LIMIT 1000

static volatile uint64_t word __attribute__((aligned(64)));

static void rig_limit(struct rig *rig, uint64_t limit, trapline_callback callback)
{
	TRAPLINE_OPTS(event, opts);

	opts.limit = limit;
	opts.callback = callback;
	rig_watch(rig, &word, &opts);
}

/* Leaves the crew time to overshoot, if it can. */
static void race_to(struct rig *rig, uint64_t hits)
{
	WAIT_UNTIL(rig_hits(rig) >= hits);
	for (int i = 0; i < 3; i++) {
		usleep(100);
		assert_int_equal(rig_hits(rig), hits);
	}
}

static void race_once(struct crew *crew, enum mode mode, bool again)
{
	struct rig rig;

	rig_open(&rig, mode);
	rig_limit(&rig, RACE_LIMIT, NULL);
	crew_begin(crew, 0);
	race_to(&rig, RACE_LIMIT);
	if (again) {
		assert_int_equal(trapline_event_rearm(rig.event, RACE_LIMIT), 0);
		race_to(&rig, 2 * RACE_LIMIT);
	}
	crew_finish(crew);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.delivered, again ? 2 * RACE_LIMIT : RACE_LIMIT);
	/* In the kernel's own ring what comes after the limit takes room until it is read. */
	assert_int_equal(stats_lost(&s), mode == BY_RING ? s.lost_ring_full : 0);
	rig_close(&rig);
}

static void limit_is_exact_for_64_racing_threads(void **state)
{
	struct crew crew;

	/* Records of the kernel's own ring are read and rejected one by one: slow. */
	unsigned int rounds = scaled(MODE(state) == BY_RING ? RACE_ROUNDS / 10 : RACE_ROUNDS);

	require(MODE(state));
	alarm(1200);
	crew_muster(&crew, 64, &word);
	setpriority(PRIO_PROCESS, 0, -20); /* this thread alone; quicker, where permitted */
	for (unsigned int round = 0; round < rounds; round++)
		race_once(&crew, MODE(state), round % 10 == 9);
	setpriority(PRIO_PROCESS, 0, 0);
	crew_dismiss(&crew);
}

static void one_shot_cannot_fire_twice(void **state)
{
	struct crew crew;
	struct rig rig;

	require(MODE(state));
	crew_muster(&crew, 8, &word);
	for (unsigned int round = 0; round < scaled(100); round++) {
		rig_open(&rig, MODE(state));
		rig_limit(&rig, 1, NULL);
		crew_run(&crew, 20);
		expect_hits(&rig, 1);
		rig_close(&rig);
	}
	crew_dismiss(&crew);
}

static void limit_stops_one_thread_exactly(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_limit(&rig, 10, NULL);
	store_many(&word, 9);
	expect_hits(&rig, 9);
	store_many(&word, 91);
	expect_hits(&rig, 10);
	rig_close(&rig);
}

static void rearm_after_the_limit_adds_exactly(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_limit(&rig, 3, NULL);
	store_many(&word, 10);
	for (uint64_t total = 3; total < 50; total += 5) {
		expect_hits(&rig, total);
		assert_int_equal(trapline_event_rearm(rig.event, 5), 0);
		store_many(&word, 20);
	}
	expect_hits(&rig, 53);
	rig_close(&rig);
}

static void rearm_before_the_limit_adds_exactly(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_limit(&rig, 5, NULL);
	store_many(&word, 2);
	assert_int_equal(trapline_event_rearm(rig.event, 3), 0);
	store_many(&word, 50);
	expect_hits(&rig, 8);
	rig_close(&rig);
}

static enum trapline_action rearm_within(const struct trapline_hit *hit)
{
	struct rig *rig = hit->arg;

	rig_note(hit);
	if (rig->hits < 10)
		trapline_event_rearm(hit->event, 1);
	return TRAPLINE_GO_ON;
}

static void rearm_inside_the_callback_adds_exactly(void **state)
{
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_limit(&rig, 1, rearm_within);
	store_many(&word, 100);
	expect_hits(&rig, 10);
	rig_close(&rig);
}

static void rearm_inside_racing_callbacks_adds_exactly(void **state)
{
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 8, &word);
	for (unsigned int round = 0; round < scaled(50); round++) {
		rig_open(&rig, BY_CALLBACK);
		rig_limit(&rig, 1, rearm_within);
		crew_begin(&crew, 0);
		race_to(&rig, 10);
		crew_finish(&crew);
		expect_hits(&rig, 10);
		rig_close(&rig);
	}
	crew_dismiss(&crew);
}

static void *rearm_from_thread(void *arg)
{
	struct rig *rig = arg;

	for (int i = 0; i < 100; i++)
		if (trapline_event_rearm(rig->event, 7))
			return arg;
	return NULL;
}

static void rearm_from_other_threads_adds_exactly(void **state)
{
	pthread_t threads[4];
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	rig_open(&rig, MODE(state));
	rig_limit(&rig, 100, NULL);
	crew_begin(&crew, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, rearm_from_thread, &rig), 0);
	for (int i = 0; i < 4; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	race_to(&rig, 100 + 4 * 100 * 7);
	crew_finish(&crew);
	assert_int_equal(rig_hits(&rig), 2900);

	struct trapline_stats s = rig_stats(&rig);

	/* As in race_once(). */
	assert_int_equal(stats_lost(&s), MODE(state) == BY_RING ? s.lost_ring_full : 0);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void enable_does_not_lift_a_used_up_limit(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_limit(&rig, 2, NULL);
	store_many(&word, 10);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	store_many(&word, 10);
	expect_hits(&rig, 2);
	assert_int_equal(trapline_event_rearm(rig.event, 1), 0);
	store_many(&word, 10);
	expect_hits(&rig, 3);
	rig_close(&rig);
}

static void limit_is_kept_over_disable_and_move(void **state)
{
	static volatile uint64_t elsewhere;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_limit(&rig, 10, NULL);
	store_many(&word, 4);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	store_many(&word, 4);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&elsewhere)), 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	store_many(&elsewhere, 20);
	expect_hits(&rig, 10);
	rig_close(&rig);
}

static void rearm_needs_a_limit(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	assert_int_equal(trapline_event_rearm(rig.event, 5), -EINVAL);
	store_many(&word, 6);
	expect_hits(&rig, 6);
	trapline_event_close(rig.event);
	rig.hits = 0;
	rig_limit(&rig, 1, NULL);
	assert_int_equal(trapline_event_rearm(rig.event, 0), -EINVAL);
	store_many(&word, 6);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(limit_is_exact_for_64_racing_threads),
		TEST_EACH_MODE(one_shot_cannot_fire_twice),
		TEST_EACH_MODE(limit_stops_one_thread_exactly),
		TEST_EACH_MODE(rearm_after_the_limit_adds_exactly),
		TEST_EACH_MODE(rearm_before_the_limit_adds_exactly),
		TEST(rearm_inside_the_callback_adds_exactly),
		TEST(rearm_inside_racing_callbacks_adds_exactly),
		TEST_EACH_MODE(rearm_from_other_threads_adds_exactly),
		TEST_EACH_MODE(enable_does_not_lift_a_used_up_limit),
		TEST_EACH_MODE(limit_is_kept_over_disable_and_move),
		TEST_EACH_MODE(rearm_needs_a_limit),
	};

	return run_group(tests);
}
