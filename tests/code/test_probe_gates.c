/* SPDX-License-Identifier: MIT */
/* test_probe_gates.c - the owner of a probe that is a gate, which goes while a thread is on its way. TAP. */
#include "core/code_start.h"
#include "sites.h"

#include "base/atomic.h"
#include "code/probe/code_probe.h"
#include "trap/probe_entry.h"
#include "trap/probe_gate.h"

static uint32_t is_asked;
static uint32_t is_closed;
static uint32_t takes;
static uint32_t answers; /* ask() knows where the thread goes on */
static uint32_t number;

__attribute__((noipa)) static long add_one(long n)
{
	return n + 1;
}

static uint64_t ask(struct probe_gate *gate, ucontext_t *context)
{
	(void)gate;
	(void)context;
	atomic_set(&is_asked, 1u);
	while (!atomic_get(&is_closed))
		;
	return answers ? code_probes[number].resume : 0;
}

static uint64_t take(struct probe_gate *gate, ucontext_t *context)
{
	(void)gate;
	(void)context;
	atomic_add(&takes, 1u);
	return code_probes[number].resume;
}

static void *pass(void *arg)
{
	*(long *)arg = add_one(41);
	return NULL;
}

/* A thread is asked, and then the probe goes. */
static void close_on_the_way(void)
{
	static struct probe_gate gate = { ask, take };
	struct code_probe_wish wish = { .address = ADDR(add_one),
					.owner = probe_gate_owner(&gate) };
	struct code_problem problem = { NULL, 0 };
	pthread_t thread;
	long result = 0;

	is_asked = is_closed = takes = 0;
	assert_int_equal(code_start(), 0);
	trap_probe_prepare();
	assert_int_equal(code_probe_open_many(&wish, 1, trap_probe_entry, &problem), 0);
	number = wish.number;
	pthread_create(&thread, NULL, pass, &result);
	while (!atomic_get(&is_asked))
		;
	assert_int_equal(code_probe_close_many(&wish, 1, &problem), 0);
	atomic_set(&is_closed, 1u);
	pthread_join(thread, NULL);
	assert_int_equal(result, 42);
}

static void a_thread_that_was_asked_is_taken_by_the_same_gate(void **state)
{
	answers = 0;
	close_on_the_way();
	assert_int_equal(takes, 1);
}

static void one_that_has_an_answer_is_not_taken(void **state)
{
	answers = 1;
	close_on_the_way();
	assert_int_equal(takes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_was_asked_is_taken_by_the_same_gate),
		cmocka_unit_test(one_that_has_an_answer_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
