/* SPDX-License-Identifier: MIT */
/* test_safepoint.c - threads stop, wait and continue, are visited and named, by each back end. */
#include "safepoint_crew.h"

static void no_thread_moves_while_stopped(void **state)
{
	start_workers(WORKERS);
	for (int i = 0; i < 20; i++) {
		stop_all();
		expect_standstill(WORKERS);
		resume();
		for (int w = 0; w < WORKERS; w++)
			wait_for_progress(&workers[w]);
	}
	assert_int_equal(stats().stops, 20);
	assert_int_equal(stats().threads, WORKERS);
	end_workers(WORKERS);
	assert_int_equal(stats().threads, 0);
}

static void native_sections_count_as_stopped(void **state)
{
	start_workers(2);
	workers[0].task = TASK_NATIVE;
	WAIT_UNTIL(workers[0].is_native);
	stop_all();
	/* It leaves, and must not come back to its loop. */
	workers[0].task = TASK_NONE;
	WAIT_UNTIL(!workers[0].is_native);
	expect_standstill(2);
	resume();
	wait_for_progress(&workers[0]);
	end_workers(2);
}

struct visits {
	int count;
	int at_site;
	int native;
	int stopping;
	int regs;
};

static void visit(const struct trapline_safepoint_thread *thread, void *arg)
{
	struct visits *v = arg;
	const struct worker *w = thread->user;

	v->count++;
	v->at_site += thread->place == TRAPLINE_SAFEPOINT_AT_SITE;
	v->native += thread->place == TRAPLINE_SAFEPOINT_IN_NATIVE;
	v->stopping += thread->place == TRAPLINE_SAFEPOINT_STOPPING;
	v->regs += (thread->regs_known >> 7 & 1) && thread->sp <= thread->regs[7] &&
		   thread->sp >= thread->stack_start && thread->sp < thread->stack_end;
	if (w && thread->tid != w->tid)
		v->count = -1000;
	if (!thread->context != (kind->opts.backend == TRAPLINE_SAFEPOINT_BY_POLL ||
				 kind->opts.backend == TRAPLINE_SAFEPOINT_BY_POKE) &&
	    thread->place == TRAPLINE_SAFEPOINT_AT_SITE)
		v->count = -1000;
}

static void the_visitor_sees_each_thread_once(void **state)
{
	struct visits v = { 0 };

	start_workers(WORKERS);
	workers[1].task = TASK_NATIVE;
	WAIT_UNTIL(workers[1].is_native);
	expect_success(trapline_safepoint_register(domain, NULL));
	expect_success(trapline_safepoint_stop(domain, TIMEOUT_MS, visit, &v));
	resume();
	expect_success(trapline_safepoint_unregister());
	end_workers(WORKERS);
	assert_int_equal(v.count, WORKERS + 1);
	assert_int_equal(v.at_site, WORKERS - 1);
	assert_int_equal(v.native, 1);
	assert_int_equal(v.stopping, 1);
	assert_int_equal(v.regs, WORKERS + 1);
}

static void a_handshake_runs_once_in_its_thread(void **state)
{
	start_workers(2);
	for (int i = 0; i < 50; i++) {
		uint64_t other = workers[1].count;

		/* One that still leaves the safepoint of before counts as stopped. */
		wait_for_progress(&workers[0]);
		runs = 0;
		expect_success(trapline_safepoint_handshake(domain, workers[0].tid, TIMEOUT_MS,
							    note_thread, NULL));
		assert_int_equal(runs, 1);
		assert_int_equal(ran_in, workers[0].tid);
		WAIT_UNTIL(workers[1].count > other);
	}
	wait_for_progress(&workers[0]);
	assert_int_equal(stats().handshakes, 50);
	end_workers(2);
}

static void a_handshake_with_a_native_or_stopped_thread_runs_in_the_caller(void **state)
{
	start_workers(2);
	workers[0].task = TASK_NATIVE;
	WAIT_UNTIL(workers[0].is_native);
	runs = 0;
	expect_success(trapline_safepoint_handshake(domain, workers[0].tid, TIMEOUT_MS, note_thread,
						    NULL));
	assert_int_equal(ran_in, gettid());
	stop_all();
	expect_success(trapline_safepoint_handshake(domain, workers[1].tid, TIMEOUT_MS, note_thread,
						    NULL));
	assert_int_equal(ran_in, gettid());
	expect_standstill(2);
	resume();
	assert_int_equal(runs, 2);
	assert_int_equal(trapline_safepoint_handshake(domain, 1, TIMEOUT_MS, note_thread, NULL),
			 -ESRCH);
	wait_for_progress(&workers[1]);
	end_workers(2);
}

static void *stop_many_times(void *arg)
{
	_Atomic uint64_t *shared = arg;

	if (trapline_safepoint_register(domain, NULL))
		return arg;
	for (int i = 0; i < 100; i++) {
		if (trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL))
			return arg;
		uint64_t value = *shared;
		sched_yield();
		*shared = value + 1; /* exact, since no other one is stopped by a stop here */
		if (trapline_safepoint_resume(domain))
			return arg;
	}
	return NULL;
}

static void stops_of_two_threads_follow_each_other(void **state)
{
	static _Atomic uint64_t shared;
	pthread_t stoppers[2];

	shared = 0;
	start_workers(2);
	for (int i = 0; i < 2; i++)
		pthread_create(&stoppers[i], NULL, stop_many_times, (void *)&shared);
	for (int i = 0; i < 2; i++) {
		void *failure;

		pthread_join(stoppers[i], &failure);
		assert_null(failure);
	}
	assert_int_equal(shared, 200);
	assert_int_equal(stats().stops, 200);
	end_workers(2);
}

static void what_cannot_be_is_refused(void **state)
{
	start_workers(1);
	assert_int_equal(trapline_safepoint_resume(domain), -EPERM);
	assert_int_equal(trapline_safepoint_unregister(), -EPERM);
	assert_int_equal(trapline_safepoint_enter_native(), -EPERM);
	assert_int_equal(trapline_safepoint_leave_native(), -EPERM);
	expect_success(trapline_safepoint_register(domain, NULL));
	assert_int_equal(trapline_safepoint_register(domain, NULL), -EBUSY);
	assert_int_equal(trapline_safepoint_leave_native(), -EALREADY);
	expect_success(trapline_safepoint_enter_native());
	assert_int_equal(trapline_safepoint_enter_native(), -EALREADY);
	expect_success(trapline_safepoint_leave_native());
	stop_all();
	assert_int_equal(trapline_safepoint_stop(domain, 0, NULL, NULL), -EDEADLK);
	assert_int_equal(trapline_safepoint_unregister(), -EDEADLK);
	assert_int_equal(trapline_safepoint_close(domain), -EBUSY);
	resume();
	expect_success(trapline_safepoint_unregister());
	assert_int_equal(trapline_safepoint_close(domain), -EBUSY);
	end_workers(1);
}

static void a_time_out_names_the_thread_and_resumes_the_others(void **state)
{
	char why[400];
	char number[16];
	int is_signal = kind->opts.backend == TRAPLINE_SAFEPOINT_BY_SIGNAL;

	start_workers(2);
	/* By signal a thread stops anywhere, unless it blocks the signal. */
	workers[0].task = TASK_NO_PASS;
	WAIT_UNTIL(workers[0].is_out);
	assert_int_equal(trapline_safepoint_stop(domain, 50, NULL, NULL), -ETIMEDOUT);
	trapline_explain(-ETIMEDOUT, why, sizeof(why));
	snprintf(number, sizeof(number), " %d ", workers[0].tid);
	assert_non_null(strstr(why, number));
	assert_non_null(strstr(why, is_signal ? "blocks signal" : "without a safepoint"));
	assert_int_equal(stats().late_tid, workers[0].tid);
	assert_int_equal(stats().timeouts, 1);
	assert_int_equal(trapline_safepoint_handshake(domain, workers[0].tid, 10, note_thread,
						      NULL),
			 -ETIMEDOUT);
	wait_for_progress(&workers[1]);
	workers[0].task = TASK_NONE;
	stop_all();
	expect_standstill(2);
	resume();
	end_workers(2);
}

static _Atomic int handled;

static void on_usr1(int number)
{
	handled++;
}

static void handlers_run_while_stopped_and_the_thread_stays(void **state)
{
	struct sigaction action = { .sa_handler = on_usr1 };

	sigaction(SIGUSR1, &action, NULL);
	handled = 0;
	start_workers(2);
	stop_all();
	for (int i = 0; i < 20; i++) {
		pthread_kill(workers[0].thread, SIGUSR1);
		WAIT_UNTIL(handled > i);
	}
	expect_standstill(2);
	resume();
	wait_for_progress(&workers[0]);
	end_workers(2);
	signal(SIGUSR1, SIG_DFL);
}

static _Atomic int refusal;

static void stop_in_handler(int number)
{
	refusal = trapline_safepoint_stop(domain, 100, NULL, NULL);
}

static void a_handler_of_a_stopped_thread_cannot_stop(void **state)
{
	struct sigaction action = { .sa_handler = stop_in_handler };

	sigaction(SIGUSR1, &action, NULL);
	refusal = 1;
	start_workers(1);
	stop_all();
	pthread_kill(workers[0].thread, SIGUSR1);
	WAIT_UNTIL(refusal != 1);
	assert_int_equal(refusal, -EDEADLK);
	resume();
	end_workers(1);
	signal(SIGUSR1, SIG_DFL);
}

static void statistics_tell_the_last_thread(void **state)
{
	struct trapline_safepoint_stats s;
	uint64_t sum = 0;

	start_workers(1);
	for (int i = 0; i < 10; i++) {
		stop_all();
		resume();
		wait_for_progress(&workers[0]);
	}
	s = stats();
	for (int i = 0; i < TRAPLINE_SAFEPOINT_TIMES; i++)
		sum += s.times[i];
	assert_int_equal(sum, 10);
	assert_int_equal(s.last_tid, workers[0].tid);
	assert_string_equal(s.last_name, "test_safepoint");
	assert_true(s.longest_ns > 0 && s.total_ns >= s.longest_ns);
	end_workers(1);
}

int main(void)
{
	static const struct CMUnitTest each[] = {
		CREW_TEST(no_thread_moves_while_stopped),
		CREW_TEST(native_sections_count_as_stopped),
		CREW_TEST(the_visitor_sees_each_thread_once),
		CREW_TEST(a_handshake_runs_once_in_its_thread),
		CREW_TEST(a_handshake_with_a_native_or_stopped_thread_runs_in_the_caller),
		CREW_TEST(stops_of_two_threads_follow_each_other),
		CREW_TEST(what_cannot_be_is_refused),
		CREW_TEST(a_time_out_names_the_thread_and_resumes_the_others),
		CREW_TEST(handlers_run_while_stopped_and_the_thread_stays),
		CREW_TEST(a_handler_of_a_stopped_thread_cannot_stop),
		CREW_TEST(statistics_tell_the_last_thread),
	};

	return run_crew(each, ARRAY_LEN(each));
}
