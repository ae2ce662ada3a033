/* SPDX-License-Identifier: MIT */
/* test_action.c - an action is read as a whole while threads replace it, also in a signal. */
#include "base/action.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../stress.h"

#define WRITERS 4
#define READERS 4
#define ROUNDS 200000u

static struct action shared;
static uint64_t torn;
static uint64_t taken[WRITERS * ROUNDS + 1]; /* how often each action was replaced */
static uint32_t is_over;

static int reset_all(void **state)
{
	static const struct action start = ACTION_DEFAULT;

	shared = start;
	memset(taken, 0, sizeof(taken));
	torn = 0;
	is_over = 0;
	return 0;
}

/* Each part says which one it is. */
static struct sigaction numbered(uint64_t number)
{
	struct sigaction action;
	uint64_t *words = (uint64_t *)(void *)&action.sa_mask;

	memset(&action, 0, sizeof(action));
	for (size_t i = 0; i < sizeof(action.sa_mask) / sizeof(*words); i++)
		words[i] = number;
	action.sa_handler = (void (*)(int))(uintptr_t)number;
	action.sa_flags = (int)number;
	return action;
}

static uint64_t number_of(const struct sigaction *action)
{
	return (uintptr_t)action->sa_handler;
}

static bool is_whole(const struct sigaction *action)
{
	struct sigaction like = numbered(number_of(action));

	return !memcmp(&action->sa_mask, &like.sa_mask, sizeof(like.sa_mask)) &&
	       action->sa_flags == like.sa_flags;
}

static void look(void)
{
	struct sigaction action;

	action_read(&shared, &action);
	if (!is_whole(&action))
		__atomic_fetch_add(&torn, 1, __ATOMIC_SEQ_CST);
}

static void *read_on(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		look();
	return NULL;
}

static void *replace(void *arg)
{
	uint64_t first = (uintptr_t)arg * ROUNDS;
	uint32_t rounds = scaled(ROUNDS);

	for (uint64_t i = 1; i <= rounds; i++) {
		struct sigaction action = numbered(first + i);
		struct sigaction old;

		action_replace(&shared, &action, &old);
		if (!is_whole(&old) || number_of(&old) > (uint64_t)WRITERS * ROUNDS)
			__atomic_fetch_add(&torn, 1, __ATOMIC_SEQ_CST);
		else
			__atomic_fetch_add(&taken[number_of(&old)], 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[WRITERS + READERS];

	for (uintptr_t i = 0; i < WRITERS + READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? replace : read_on,
						(void *)i), 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	for (int i = WRITERS; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
}

static void no_copy_is_torn_and_each_action_is_replaced_once(void **state)
{
	struct sigaction last;
	uint64_t wrong = 0;

	run_threads();
	action_read(&shared, &last);
	taken[number_of(&last)]++;
	for (uint64_t i = 0; i < WRITERS; i++)
		for (uint64_t k = 1; k <= scaled(ROUNDS); k++)
			wrong += taken[i * ROUNDS + k] != 1;
	assert_int_equal(torn, 0);
	assert_int_equal(taken[0], 1);
	assert_int_equal(wrong, 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	alarms = alarms + 1;
	look();
}

static void a_signal_on_top_of_a_replacement_reads_a_whole_one(void **state)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	replace(NULL);
	while (!alarms)
		;
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(torn, 0);
}

static void a_handler_is_reset_once(void **state)
{
	struct sigaction first = numbered(1);
	struct sigaction second = numbered(2);
	struct sigaction now;

	action_replace(&shared, &first, NULL);
	uint64_t version = action_read(&shared, &now);
	assert_int_equal(action_reset(&shared, version), 1);
	assert_int_equal(action_reset(&shared, version), 0);
	action_read(&shared, &now);
	assert_ptr_equal(now.sa_handler, SIG_DFL);
	action_replace(&shared, &second, &now);
	assert_ptr_equal(now.sa_handler, SIG_DFL);
	/* The reset is not one of those after it. */
	for (uint64_t i = 3; i < 3 + 2 * ACTION_SLOTS; i++) {
		struct sigaction next = numbered(i);

		action_read(&shared, &now);
		assert_int_equal(number_of(&now), i - 1);
		action_replace(&shared, &next, NULL);
		action_reset(&shared, version);
	}
}

static void a_forked_child_has_all_slots(void **state)
{
	struct sigaction action = numbered(1);
	int status = 0;

	for (unsigned int i = 0; i < ACTION_SLOTS; i++)
		shared.slots[i].is_claimed = 1; /* by threads of the parent */
	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		action_forked(&shared);
		for (unsigned int i = 0; i < 3 * ACTION_SLOTS; i++)
			action_replace(&shared, &action, NULL);
		action_read(&shared, &action);
		_exit(number_of(&action) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(no_copy_is_torn_and_each_action_is_replaced_once, reset_all),
		cmocka_unit_test_setup(a_signal_on_top_of_a_replacement_reads_a_whole_one, reset_all),
		cmocka_unit_test_setup(a_handler_is_reset_once, reset_all),
		cmocka_unit_test_setup(a_forked_child_has_all_slots, reset_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
