/* SPDX-License-Identifier: MIT */
/* test_road_counts.c - the key that waits most often, against a count of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/patrol/road_counts.h"
#include "random.h"

#define KEYS 300
#define STEPS 200000

/* Keys that have nothing in common with their numbers. */
static uint64_t key_of(size_t i)
{
	return i * UINT64_C(0x9e3779b97f4a7c15);
}

static void the_most_frequent_key_is_known_after_each_step(void **state)
{
	static size_t numbers[KEYS];
	struct road_counts c = { .keys = NULL };
	size_t sum = 0;

	for (size_t step = 0; step < STEPS; step++) {
		/* Few keys are frequent. */
		size_t i = random_below(KEYS) * random_below(KEYS) / KEYS;
		size_t most = 0;

		if (random_below(2) || !numbers[i]) {
			assert_int_equal(road_counts_add(&c, key_of(i)), 0);
			numbers[i]++;
			sum++;
		} else {
			road_counts_remove(&c, key_of(i));
			numbers[i]--;
			sum--;
		}
		for (size_t k = 0; k < KEYS; k++)
			most = numbers[k] > most ? numbers[k] : most;
		assert_int_equal(c.most, most);
		size_t found = 0;
		while (sum && key_of(found) != road_counts_most(&c))
			found++;
		assert_true(!sum || numbers[found] == most);
	}
	road_counts_free(&c);
}

static void of_several_the_first_one_goes(void **state)
{
	struct road_counts c = { .keys = NULL };

	for (uint64_t key = 1; key <= 1000; key++)
		road_counts_add(&c, key);
	for (uint64_t key = 1; key <= 1000; key++) {
		assert_int_equal(road_counts_most(&c), key);
		road_counts_remove(&c, key);
	}
	assert_int_equal(c.most, 0);
	road_counts_remove(&c, 1); /* not there */
	road_counts_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_most_frequent_key_is_known_after_each_step),
		cmocka_unit_test(of_several_the_first_one_goes),
	};

	random_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
