/* SPDX-License-Identifier: MIT */
/* test_traps_switch.c - traps that rest and come back, in any order, under running threads. */
#include "sites.h"

#include <pthread.h>

#include "code/poke/poke.h"
#include "code/poke/traps_switch.h"

#define SITES 40
#define ROUNDS 600

static uint32_t is_over;
static uint64_t callbacks;

static void count(const struct trapline_trap_hit *hit)
{
	__atomic_fetch_add(&callbacks, 1, __ATOMIC_RELAXED);
}

/* Each step is one site; the sum tells whether one was left out or run twice. */
#define STEP ".pushsection switch_sites, \"aw\"\n .quad 1f\n .popsection\n1:\n add $3, %rax\n"
#define STEPS STEP STEP STEP STEP STEP STEP STEP STEP
extern const uint64_t __start_switch_sites[];
uint64_t many_steps(uint64_t from);
__asm__(".text\n.globl many_steps\nmany_steps:\n mov %rdi, %rax\n" STEPS STEPS STEPS STEPS STEPS
	"ret\n");

static void *run_steps(void *wrong)
{
	for (uint64_t n = 0; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); n++)
		if (many_steps(n) != n + 3 * SITES)
			*(uint64_t *)wrong = 1;
	return NULL;
}

static struct trapline_traps *set_all(void)
{
	struct trapline_traps_opts opts = { .size = sizeof(opts), .callback = count };
	struct trapline_traps *traps = NULL;

	assert_int_equal(trapline_traps_set(__start_switch_sites, SITES, &opts, &traps), 0);
	return traps;
}

static void test_rest_and_return(void **state)
{
	struct trapline_traps *traps = set_all();
	struct code_problem problem = { NULL, 0 };
	const uint32_t rows[] = { 7, 3, 39 };
	uint64_t hits;

	callbacks = 0;
	assert_int_equal(many_steps(1), 1 + 3 * SITES);
	assert_int_equal(callbacks, SITES);
	assert_int_equal(traps_switch(traps, rows, 3, 0, &problem), 0);
	assert_int_equal(traps_switch(traps, rows, 3, 0, &problem), 0); /* already */
	many_steps(1);
	assert_int_equal(callbacks, 2 * SITES - 3);
	assert_int_equal(trapline_traps_hits(traps, 7, NULL, &hits), 0);
	assert_int_equal(hits, 1);
	/* A trap that rests is still a trap: nobody else may have the place. */
	struct trapline_traps *other = NULL;
	assert_int_equal(trapline_traps_set(&__start_switch_sites[7], 1, NULL, &other), -EBUSY);
	assert_int_equal(traps_switch(traps, rows, 2, 1, &problem), 0);
	many_steps(1);
	assert_int_equal(callbacks, 3 * SITES - 4);
	/* Removed with one at rest: the text is what it was. */
	assert_int_equal(trapline_traps_remove(traps), 0);
	many_steps(1);
	assert_int_equal(callbacks, 3 * SITES - 4);
	traps = set_all();
	assert_int_equal(trapline_traps_remove(traps), 0);
}

static void test_under_threads(void **state)
{
	struct trapline_traps *traps = set_all();
	struct code_problem problem = { NULL, 0 };
	uint64_t wrong[2] = { 0, 0 };
	pthread_t threads[2];
	uint32_t rows[SITES];

	is_over = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_steps, &wrong[i]), 0);
	for (uint32_t n = 0; n < ROUNDS; n++) {
		uint32_t count_of = 0;

		for (uint32_t i = 0; i < SITES; i++)
			if ((i * 7 + n * 13) % 5 < 3)
				rows[count_of++] = i;
		assert_int_equal(traps_switch(traps, rows, count_of, n & 1, &problem), 0);
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong[0] + wrong[1], 0);
	assert_int_equal(trapline_traps_remove(traps), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rest_and_return),
		cmocka_unit_test(test_under_threads),
	};

	return cmocka_run_group_tests_name("traps_switch", tests, NULL, NULL);
}
