/* SPDX-License-Identifier: MIT */
/* test_signal_stress.c - hits while the process forks, closes, moves and dies. */
#include "crew.h"

static volatile uint64_t word __attribute__((aligned(64)));
static volatile uint64_t elsewhere __attribute__((aligned(64)));

static int leave_at_once(void *arg)
{
	store_many(&word, 2);
	return 5;
}

static void forks_and_hits_do_not_disturb_each_other_stress(void **state)
{
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	crew_begin(&crew, 0);
	for (unsigned int i = 0; i < scaled(50); i++) {
		expect_exit(status_of_child(leave_at_once, NULL), 5);
		rig_glance(&rig);
	}
	crew_finish(&crew);

	uint64_t hits = rig_hits(&rig);
	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, crew.written);
	assert_int_equal(s.lost_nested + s.lost_late + s.lost_merged + s.lost_kernel, 0);
	assert_int_equal(hits + s.lost_ring_full, crew.written);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void close_under_fire_leaves_nothing_stress(void **state)
{
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	for (unsigned int round = 0; round < scaled(200); round++) {
		rig_open(&rig, MODE(state));
		rig_watch(&rig, &word, NULL);
		crew_begin(&crew, 0);
		WAIT_UNTIL(rig_glance(&rig) >= 20);
		trapline_event_close(rig.event);

		uint64_t hits = rig_hits(&rig);

		usleep(200);
		assert_int_equal(rig_hits(&rig), hits);
		crew_finish(&crew);
		assert_int_equal(rig_hits(&rig), hits);
		close_target(rig.target);
	}
	crew_dismiss(&crew);
}

static void target_close_under_fire_leaves_nothing_stress(void **state)
{
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	for (unsigned int round = 0; round < scaled(100); round++) {
		rig_open(&rig, MODE(state));
		rig_watch(&rig, &word, NULL);
		crew_begin(&crew, 0);
		WAIT_UNTIL(rig_glance(&rig) >= 20);
		close_target(rig.target);

		uint64_t hits = rig.hits;

		usleep(200);
		assert_int_equal(rig.hits, hits);
		crew_finish(&crew);
		assert_int_equal(rig.hits, hits);
	}
	crew_dismiss(&crew);
}

static void move_under_fire_adds_up_stress(void **state)
{
	unsigned int seed = test_seed();
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	crew_begin(&crew, 0);
	for (unsigned int round = 0; round < scaled(300); round++) {
		bool is_away = rand_r(&seed) % 2;

		assert_int_equal(trapline_event_move(rig.event,
						     ADDR(is_away ? &elsewhere : &word)),
				 0);
		usleep(rand_r(&seed) % 200);
		rig_glance(&rig);
	}
	assert_int_equal(trapline_event_move(rig.event, ADDR(&elsewhere)), 0);
	crew_finish(&crew);

	struct trapline_stats s = rig_stats(&rig);

	assert_true(s.taken < crew.written);
	assert_int_equal(s.lost_nested + s.lost_merged + s.lost_kernel, 0);

	uint64_t hits = rig_hits(&rig);

	store_many(&word, 10);
	assert_int_equal(rig_hits(&rig), hits);
	store_many(&elsewhere, 10);
	assert_int_equal(rig_hits(&rig), hits + 10);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void *write_and_exit(void *arg)
{
	store_many(&word, 10);
	return NULL;
}

static void births_and_deaths_lose_no_hit_stress(void **state)
{
	pthread_t threads[20];
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	unsigned int rounds = scaled(50);

	for (unsigned int round = 0; round < rounds; round++) {
		for (int i = 0; i < 20; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, write_and_exit, NULL), 0);
		for (int i = 0; i < 20; i++)
			pthread_join(threads[i], NULL);
		rig_hits(&rig);
	}
	expect_hits(&rig, rounds * 20 * 10);
	rig_close(&rig);
}

static int exit_under_fire(void *arg)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	struct rig *rig = calloc(1, sizeof(*rig));
	TRAPLINE_OPTS(event, opts);

	crew_muster(crew, 4, &word);
	opts.callback = rig_note;
	opts.arg = rig;
	if (trapline_open(0, NULL, &rig->target) ||
	    trapline_watch(rig->target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &rig->event))
		return 1;
	crew_begin(crew, 0);
	WAIT_UNTIL(rig->hits >= 20);
	return 11;
}

static void process_may_exit_under_fire_stress(void **state)
{
	require(BY_CALLBACK);
	for (unsigned int round = 0; round < scaled(50); round++)
		expect_exit(status_of_child(exit_under_fire, NULL), 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(forks_and_hits_do_not_disturb_each_other_stress),
		TEST_EACH_MODE(close_under_fire_leaves_nothing_stress),
		TEST_EACH_MODE(target_close_under_fire_leaves_nothing_stress),
		TEST_EACH_MODE(move_under_fire_adds_up_stress),
		TEST_EACH_MODE(births_and_deaths_lose_no_hit_stress),
		TEST(process_may_exit_under_fire_stress),
	};

	return run_group(tests);
}
