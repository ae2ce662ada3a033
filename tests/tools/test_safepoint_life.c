/* SPDX-License-Identifier: MIT */
/* test_safepoint_life.c - threads that begin, end, jump and fork while others stop them. */
#include "safepoint_crew.h"

static void longjmp_out_of_loops_is_harmless(void **state)
{
	start_workers(2);
	workers[0].task = TASK_LONGJMP;
	for (int i = 0; i < 100; i++) {
		stop_all();
		if (i % 10 == 0)
			expect_standstill(2);
		resume();
	}
	end_workers(2);
}

static void *work_until_cancelled(void *arg)
{
	struct worker *w = arg;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	if (trapline_safepoint_register(domain, w))
		return w;
	w->tid = gettid();
	for (;;)
		pass(w);
	return NULL;
}

static void a_cancelled_thread_is_removed_after_the_stop(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct worker *w = &workers[0];

		memset(workers, 0, sizeof(workers));
		pthread_create(&w->thread, NULL, work_until_cancelled, w);
		wait_for_progress(w);
		stop_all();
		pthread_cancel(w->thread);
		usleep(1000);
		assert_int_equal(stats().threads, 1);
		resume();
		pthread_join(w->thread, NULL);
		assert_int_equal(stats().threads, 0);
	}
}

static void *register_and_pass_once(void *arg)
{
	struct worker *w = arg;

	trapline_safepoint_register(domain, w);
	w->tid = gettid();
	pass(w);
	pass(w);
	syscall(SYS_exit, 0);
	return NULL;
}

static void a_thread_that_ended_by_system_call_hangs_no_stop(void **state)
{
	memset(workers, 0, sizeof(workers));
	pthread_create(&workers[0].thread, NULL, register_and_pass_once, &workers[0]);
	WAIT_UNTIL(workers[0].tid);
	WAIT_UNTIL(syscall(SYS_tgkill, getpid(), workers[0].tid, 0));
	stop_all();
	resume();
	assert_int_equal(stats().threads, 0);
}

/* Threads that are born, work, go native and end, in any order. */
static void *live_shortly(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	struct worker w = { .count = 0 };

	if (trapline_safepoint_register(domain, NULL))
		return arg;
	for (unsigned int i = rand_r(&seed) % 200; i; i--) {
		pass(&w);
		if (rand_r(&seed) % 16)
			continue;
		trapline_safepoint_enter_native();
		if (rand_r(&seed) % 2)
			sched_yield();
		trapline_safepoint_leave_native();
	}
	if (seed & 1)
		trapline_safepoint_unregister();
	return NULL;
}

static void threads_are_born_and_end_during_stops(void **state)
{
	unsigned int seed = test_seed();
	pthread_t threads[8];
	int stopped = 0;

	start_workers(1);
	for (int round = 0; round < (int)scaled(60); round++) {
		for (size_t i = 0; i < ARRAY_LEN(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL, live_shortly,
							(void *)(uintptr_t)(rand_r(&seed) | 2)),
					 0);
		for (int i = 0; i < 5; i++) {
			stop_all();
			stopped++;
			if (rand_r(&seed) % 4 == 0)
				expect_standstill(1);
			resume();
			if (rand_r(&seed) % 2)
				trapline_safepoint_handshake(domain, workers[0].tid, TIMEOUT_MS,
							     note_thread, NULL);
		}
		for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
			void *failure;

			pthread_join(threads[i], &failure);
			assert_null(failure);
		}
	}
	assert_int_equal(stats().stops, stopped);
	assert_int_equal(stats().threads, 1);
	end_workers(1);
}

/* 0: the child can do what its parent could. */
static int use_in_child(void)
{
	struct worker w = { .count = 0 };

	alarm(60);
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < 3; i++)
		pass(&w);
	if (trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL) ||
	    trapline_safepoint_resume(domain))
		return 2;
	if (stats().threads != 1)
		return 3;
	if (trapline_safepoint_unregister())
		return 4;
	if (pthread_create(&workers[0].thread, NULL, work, &workers[0]))
		return 5;
	while (workers[0].count < 100)
		usleep(100);
	if (trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL))
		return 6;
	uint64_t before = workers[0].count;
	usleep(1000);
	if (workers[0].count != before)
		return 7;
	return trapline_safepoint_resume(domain) ? 8 : 0;
}

static void expect_child_ok(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(use_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_forked_child_has_a_sane_domain(void **state)
{
	start_workers(2);
	expect_success(trapline_safepoint_register(domain, NULL));
	expect_child_ok();
	stop_all();
	expect_child_ok();
	expect_standstill(2);
	resume();
	wait_for_progress(&workers[0]);
	expect_success(trapline_safepoint_unregister());
	end_workers(2);
}

int main(void)
{
	static const struct CMUnitTest each[] = {
		CREW_TEST(longjmp_out_of_loops_is_harmless),
		CREW_TEST(a_cancelled_thread_is_removed_after_the_stop),
		CREW_TEST(a_thread_that_ended_by_system_call_hangs_no_stop),
		CREW_TEST(threads_are_born_and_end_during_stops),
		CREW_TEST(a_forked_child_has_a_sane_domain),
	};

	return run_crew(each, ARRAY_LEN(each));
}
