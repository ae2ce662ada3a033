/* SPDX-License-Identifier: MIT */
/* test_race_chance.c - Fisher's exact test of two rates of failures. */
#include "report/race/race_chance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static double chance(uint64_t a, uint64_t n, uint64_t b, uint64_t m)
{
	return race_chance((struct race_rate){ a, n }, (struct race_rate){ b, m });
}

#define NEAR(is, want) assert_true((is) > (want) * (1 - 1e-6) && (is) < (want) * (1 + 1e-6))

static void known_tables_have_their_probabilities(void **state)
{
	NEAR(chance(3, 4, 1, 4), 17.0 / 70); /* the lady tasting tea */
	NEAR(chance(4, 4, 0, 4), 1.0 / 70);
	NEAR(chance(5, 10, 0, 5), 252.0 / 3003);
	NEAR(chance(1, 60, 0, 60), 0.5);
	NEAR(chance(2, 10, 10, 10), 1.0);
}

static void many_runs_have_a_probability_too(void **state)
{
	assert_true(chance(1000, 100000, 0, 100000) < 1e-200);
	assert_true(chance(15000, 100000, 15000, 100000) > 0.49);
	assert_true(chance(15000, 100000, 15000, 100000) < 0.51);
	assert_true(chance(0, 100000, 100000, 100000) > 0.999);
}

static void nothing_to_compare_is_no_evidence(void **state)
{
	NEAR(chance(5, 5, 0, 0), 1.0);
	NEAR(chance(0, 0, 5, 5), 1.0);
	NEAR(chance(0, 5, 0, 5), 1.0);
	NEAR(chance(5, 5, 5, 5), 1.0);
	NEAR(chance(6, 5, 0, 5), 1.0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_tables_have_their_probabilities),
		cmocka_unit_test(many_runs_have_a_probability_too),
		cmocka_unit_test(nothing_to_compare_is_no_evidence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
