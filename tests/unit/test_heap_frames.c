/* SPDX-License-Identifier: MIT */
/* test_heap_frames.c - stacks by rules of .eh_frame, against libgcc's unwinder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <alloca.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <unwind.h>

#include "heap/heap_cfi.h"
#include "heap/heap_frames.h"
#include "random.h"

#define STEPS 20000u

struct expected {
	const uint64_t *frame;
	uint64_t frames[HEAP_WALK_FRAMES];
	uint32_t count;
};

static volatile uint32_t differences;
static volatile uint32_t compared;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *arg)
{
	struct expected *e = arg;
	uint64_t at = _Unwind_GetCFA(context) - sizeof(uint64_t);

	if (!e->count && at != (uintptr_t)&e->frame[1])
		return _URC_NO_REASON;
	if (e->count == HEAP_WALK_FRAMES || !_Unwind_GetIP(context))
		return _URC_END_OF_STACK;
	e->frames[e->count++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static __attribute__((noinline)) void compare(void)
{
	struct expected e = { .frame = __builtin_frame_address(0) };
	struct heap_walk walk;

	_Unwind_Backtrace(note, &e);
	heap_walk(&walk, e.frame);
	compared = compared + 1;
	differences =
		differences + (walk.count != e.count ||
			       memcmp(walk.frames, e.frames, e.count * sizeof(e.frames[0])) != 0);
}

/* ---- functions with frames of each kind ---- */

static uint64_t steps[HEAP_WALK_FRAMES];
static void go_on(uint32_t depth);

static __attribute__((noinline)) void plain(uint32_t depth)
{
	go_on(depth);
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void of_any_size(uint32_t depth)
{
	volatile char *p = alloca(1 + steps[depth] % 3000);

	p[0] = 1;
	go_on(depth);
	p[0] = 2;
}

static __attribute__((noinline)) void aligned(uint32_t depth)
{
	volatile char bytes[64] __attribute__((aligned(64)));

	bytes[0] = 1;
	go_on(depth);
	bytes[1] = bytes[0];
}

static __attribute__((noinline)) void aligned_of_any_size(uint32_t depth)
{
	volatile char bytes[64] __attribute__((aligned(64)));
	volatile char *p = alloca(1 + steps[depth] % 3000);

	bytes[0] = p[0] = 1;
	go_on(depth);
	bytes[1] = p[0] = bytes[0];
}

static __attribute__((noinline)) void large(uint32_t depth)
{
	volatile char bytes[20000];

	bytes[0] = 1;
	go_on(depth);
	bytes[1] = bytes[0];
}

static __attribute__((noinline)) void larger_than_rules(uint32_t depth)
{
	volatile char bytes[70000];

	bytes[0] = 1;
	go_on(depth);
	bytes[1] = bytes[0];
}

static __attribute__((noinline)) void with_registers(uint32_t depth)
{
	__asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
	go_on(depth);
	__asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
}

static int by_order(const void *a, const void *b, void *depth)
{
	(void)a;
	(void)b;
	go_on(*(const uint32_t *)depth);
	return 0;
}

static __attribute__((noinline)) void by_library(uint32_t depth)
{
	char two[2] = "ba";

	qsort_r(two, 2, 1, by_order, &depth);
	__asm__ volatile("" ::: "memory");
}

static void (*const kinds[])(uint32_t depth) = { plain,	     of_any_size,
						 aligned,    with_registers,
						 large,	     aligned_of_any_size,
						 by_library, larger_than_rules };

static void go_on(uint32_t depth)
{
	if (!depth)
		compare();
	else
		kinds[steps[depth - 1] % (sizeof(kinds) / sizeof(kinds[0]))](depth - 1);
	__asm__ volatile("" ::: "memory");
}

static void go_at_random(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t depth = (uint32_t)random_below(HEAP_WALK_FRAMES);

		for (uint32_t k = 0; k < depth; k++)
			steps[k] = random_next();
		go_on(depth);
	}
}

static void stacks_of_any_functions_are_those_of_libgcc(void **state)
{
	(void)state;
	compared = differences = 0;
	go_at_random(STEPS);
	assert_int_equal(compared, STEPS);
	assert_int_equal(differences, 0);
}

static void *in_thread(void *arg)
{
	go_at_random(STEPS / 10);
	return arg;
}

static void stacks_of_a_thread_end_where_it_began(void **state)
{
	pthread_t thread;

	(void)state;
	compared = differences = 0;
	assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(compared, STEPS / 10);
	assert_int_equal(differences, 0);
}

static void on_signal(int signal)
{
	(void)signal;
	go_at_random(10);
}

static void stacks_through_a_signal_are_left_to_libgcc(void **state)
{
	stack_t own = { .ss_size = 1 << 20, .ss_sp = malloc(1 << 20) };
	struct sigaction action = { .sa_handler = on_signal };

	(void)state;
	compared = differences = 0;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	action.sa_flags = SA_ONSTACK;
	sigaltstack(&own, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	assert_int_equal(compared, 20);
	assert_int_equal(differences, 0);
	own.ss_flags = SS_DISABLE;
	sigaltstack(&own, NULL);
	free(own.ss_sp);
}

static void what_was_forgotten_is_read_again(void **state)
{
	(void)state;
	compared = differences = 0;
	heap_walk_forget();
	go_at_random(100);
	heap_walk_forget();
	go_at_random(100);
	assert_int_equal(compared, 200);
	assert_int_equal(differences, 0);
}

static void address_of_no_code_has_no_rule(void **state)
{
	static uint64_t data;

	(void)state;
	assert_int_equal(heap_cfi_rule(1), HEAP_CFI_UNKNOWN);
	assert_int_equal(heap_cfi_rule((uintptr_t)&data), HEAP_CFI_UNKNOWN);
	assert_int_equal(heap_cfi_rule(UINT64_MAX), HEAP_CFI_UNKNOWN);
	assert_int_not_equal(heap_cfi_rule((uintptr_t)__builtin_return_address(0)),
			     HEAP_CFI_UNKNOWN);
}

int main(void)
{
	random_seed();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_of_any_functions_are_those_of_libgcc),
		cmocka_unit_test(stacks_of_a_thread_end_where_it_began),
		cmocka_unit_test(stacks_through_a_signal_are_left_to_libgcc),
		cmocka_unit_test(what_was_forgotten_is_read_again),
		cmocka_unit_test(address_of_no_code_has_no_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
