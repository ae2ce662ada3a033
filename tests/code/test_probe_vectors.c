/* SPDX-License-Identifier: MIT */
/* test_probe_vectors.c - vector registers in callbacks and conditions of probes. */
#include "probes.h"

#include <errno.h>
#include <string.h>

#define ROUNDS 20000

static uint64_t seen[17][2];
static int errors[17];

static enum trapline_action take(const struct trapline_hit *hit)
{
	for (unsigned int i = 0; i < 17; i++)
		errors[i] = trapline_hit_vector(hit, i, i < 16 ? seen[i] : seen[16]);
	callbacks++;
	return TRAPLINE_GO_ON;
}

double weighed(double a, double b, float c); /* for the assembler */

__attribute__((noinline, noclone)) double weighed(double a, double b, float c)
{
	__asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c));
	return a + b + (double)c;
}

static double number(const uint64_t words[2])
{
	double value;

	memcpy(&value, words, sizeof(value));
	return value;
}

static void a_callback_has_them(void **state)
{
	struct trapline_event *event = probe_if((const void *)weighed, NULL, take);
	float third;

	assert_true(weighed(1.5, -2.25, 3.5f) == 2.75);
	memcpy(&third, seen[2], sizeof(third));
	assert_int_equal(callbacks, 1);
	assert_true(number(seen[0]) == 1.5 && number(seen[1]) == -2.25 && third == 3.5f);
	for (int i = 0; i < 16; i++)
		assert_int_equal(errors[i], 0);
	assert_int_equal(errors[16], -EINVAL);
	trapline_event_close(event);
}

/* The processor leaves out of the area what has its first value. */
static void registers_that_are_not_in_use_are_zero(void **state)
{
	struct trapline_event *event = probe_if((const void *)weighed, NULL, take);
	static const uint64_t zero[17][2];

	if (!__builtin_cpu_supports("avx"))
		skip();
	/* What an area had before. */
	weighed(1.5, 2.5, 3.5f);
	for (int i = 0; i < 100; i++) {
		memset(seen, 0xff, sizeof(seen));
		__asm__ volatile("vzeroall\n"
				 "call weighed\n" ::
					 : "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9",
					   "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
					   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
					   "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
		assert_memory_equal(seen, zero, sizeof(uint64_t) * 2 * 16);
	}
	trapline_event_close(event);
}

/* Conditions of the library have no names for them, and a record of the kernel has none. */
static void a_record_without_them_says_so(void **state)
{
	const struct trapline_hit hit = { .size = sizeof(hit) };
	uint64_t out[2] = { 7, 7 };

	assert_int_equal(trapline_hit_vector(&hit, 0, out), -ENODATA);
	assert_int_equal(trapline_hit_vector(&hit, 16, out), -EINVAL);
	assert_int_equal(out[0], 7);
}

static enum trapline_action spoil(const struct trapline_hit *hit)
{
	volatile double value = (double)hit->tid;

	value = value * 3.25 + 1;
	callbacks++;
	return TRAPLINE_GO_ON;
}

/* Neither a callback that computes nor a condition that is asked changes what the thread has. */
static void the_values_of_the_thread_stay(void **state)
{
	struct trapline_event *event = probe_if((const void *)weighed, "hits % 3 == 0", spoil);

	for (int i = 0; i < ROUNDS; i++)
		assert_true(weighed(i, i * 0.5, 0.25f) == i * 1.5 + 0.25);
	assert_int_equal(callbacks, ROUNDS / 3);
	trapline_event_close(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_callback_has_them, set_up, tear_down),
		cmocka_unit_test_setup_teardown(registers_that_are_not_in_use_are_zero, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_record_without_them_says_so, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_values_of_the_thread_stay, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
