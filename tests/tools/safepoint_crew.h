/* SPDX-License-Identifier: MIT */
/*
 * safepoint_crew.h - threads that pass safepoints, and cases that run once for each back end.
 *
 * The name of a case ends in that of its back end.
 */
#ifndef TESTS_TOOLS_SAFEPOINT_CREW_H
#define TESTS_TOOLS_SAFEPOINT_CREW_H

#include "../kernel/common.h"

#include <trapline/safepoint.h>

#define WORKERS 4
#define TIMEOUT_MS 60000
#define STOP_SIGNAL (SIGRTMIN + 5)

struct kind {
	const char *name;
	struct trapline_safepoint_opts opts;
};

/* Each loop of the watch back end reads it. */
static volatile uint64_t watched_word;

static struct kind kinds[] = {
	{ "poll", { .backend = TRAPLINE_SAFEPOINT_BY_POLL } },
	{ "poke", { .backend = TRAPLINE_SAFEPOINT_BY_POKE } },
	{ "poke_with_int3",
	  { .backend = TRAPLINE_SAFEPOINT_BY_POKE, .flags = TRAPLINE_SAFEPOINT_INT3 } },
	{ "watch", { .backend = TRAPLINE_SAFEPOINT_BY_WATCH, .length = 8 } },
	{ "signal", { .backend = TRAPLINE_SAFEPOINT_BY_SIGNAL } },
};

struct worker {
	pthread_t thread;
	_Atomic uint64_t count;
	_Atomic pid_t tid;
	_Atomic int quit;
	_Atomic int is_native;
	_Atomic int task; /* what it does beside the loop */
	_Atomic int answered;
	_Atomic int is_out; /* of the loop with safepoints */
};

static const struct kind *kind;
static struct trapline_safepoint *domain;
static struct worker workers[WORKERS];
static int started;

/* ---- the program under test ---- */

static void pass_poll(struct worker *w)
{
	for (int i = 0; i < 64; i++) {
		w->count++;
		TRAPLINE_SAFEPOINT_POLL();
	}
}

static void pass_poke(struct worker *w)
{
	for (int i = 0; i < 64; i++) {
		w->count++;
		TRAPLINE_SAFEPOINT_POKE();
	}
}

static void pass_watch(struct worker *w)
{
	for (int i = 0; i < 64; i++) {
		w->count++;
		(void)watched_word;
	}
}

static void pass_none(struct worker *w)
{
	for (int i = 0; i < 64; i++)
		w->count++;
}

static void pass(struct worker *w)
{
	switch (kind->opts.backend) {
	case TRAPLINE_SAFEPOINT_BY_POLL:
		pass_poll(w);
		break;
	case TRAPLINE_SAFEPOINT_BY_POKE:
		pass_poke(w);
		break;
	case TRAPLINE_SAFEPOINT_BY_WATCH:
		pass_watch(w);
		break;
	default:
		pass_none(w);
	}
}

enum task {
	TASK_NONE,
	TASK_NATIVE,  /* goes into a native section until the task changes */
	TASK_NO_PASS, /* runs without a safepoint */
	TASK_LONGJMP, /* leaves its loop by longjmp again and again */
};

static void be_native(struct worker *w)
{
	assert_int_equal(trapline_safepoint_enter_native(), 0);
	w->is_native = 1;
	while (w->task == TASK_NATIVE)
		usleep(1000);
	w->is_native = 0;
	assert_int_equal(trapline_safepoint_leave_native(), 0);
}

static void jump(struct worker *w)
{
	jmp_buf back;

	if (!setjmp(back)) {
		pass(w);
		longjmp(back, 1);
	}
}

/* No safepoint is in this loop, and no signal comes. */
static void stay_away(struct worker *w)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, STOP_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	w->is_out = 1;
	while (w->task == TASK_NO_PASS)
		;
	w->is_out = 0;
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	if (trapline_safepoint_register(domain, w))
		return w;
	w->tid = gettid();
	while (!w->quit) {
		if (w->task == TASK_NATIVE)
			be_native(w);
		else if (w->task == TASK_LONGJMP)
			jump(w);
		else if (w->task == TASK_NO_PASS)
			stay_away(w);
		else
			pass(w);
	}
	return NULL;
}

static void expect_success(int err)
{
	char why[400];

	if (!err)
		return;
	trapline_explain(err, why, sizeof(why));
	print_message("# %d: %s\n", err, why);
	assert_int_equal(err, 0);
}

static void stop_all(void)
{
	expect_success(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL));
}

static void resume(void)
{
	expect_success(trapline_safepoint_resume(domain));
}

static void wait_for_progress(struct worker *w)
{
	uint64_t before = w->count;

	WAIT_UNTIL(w->count > before + 100);
}

static void start_workers(int n)
{
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < n; i++) {
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		started = i + 1;
	}
	for (int i = 0; i < n; i++)
		wait_for_progress(&workers[i]);
}

static void end_workers(int n)
{
	for (int i = 0; i < n; i++) {
		workers[i].task = TASK_NONE;
		workers[i].quit = 1;
	}
	for (int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	started = 0;
}

static int open_kind(const struct kind *which)
{
	struct trapline_safepoint_opts opts = which->opts;

	opts.size = sizeof(opts);
	if (opts.backend == TRAPLINE_SAFEPOINT_BY_WATCH)
		opts.address = ADDR(&watched_word);
	if (opts.backend == TRAPLINE_SAFEPOINT_BY_SIGNAL)
		opts.signal = STOP_SIGNAL;
	return trapline_safepoint_open(&opts, &domain);
}

struct crew_case {
	const struct kind *kind;
	void (*test)(void **state);
};

/* Not in the setup, whose failures are not TAP. */
static void run_case(void **state)
{
	expect_success(open_kind(kind));
	((const struct crew_case *)*state)->test(state);
}

static int begin(void **state)
{
	test_begin(state);
	kind = ((const struct crew_case *)*state)->kind;
	return 0;
}

static int end(void **state)
{
	/* What a failed test left. */
	if (domain && !trapline_safepoint_resume(domain))
		print_message("# a stop lasted\n");
	trapline_safepoint_unregister();
	end_workers(started);
	expect_success(trapline_safepoint_close(domain));
	domain = NULL;
	return test_end(state);
}

static struct trapline_safepoint_stats stats(void)
{
	struct trapline_safepoint_stats s = { .size = sizeof(s) };

	expect_success(trapline_safepoint_stats(domain, &s));
	return s;
}

static void expect_standstill(int n)
{
	uint64_t before[WORKERS];

	for (int i = 0; i < n; i++)
		before[i] = workers[i].count;
	usleep(2000);
	for (int i = 0; i < n; i++)
		assert_int_equal(workers[i].count, before[i]);
}

static _Atomic pid_t ran_in;
static _Atomic int runs;

static void note_thread(void *arg)
{
	ran_in = gettid();
	runs++;
}

#define CREW_TEST(f)                    \
	{                               \
#f, f, begin, end, NULL \
	}

/* Each case by each back end. */
static inline int run_crew(const struct CMUnitTest *each, size_t count)
{
	static char names[ARRAY_LEN(kinds) * 16][120];
	static struct CMUnitTest tests[ARRAY_LEN(kinds) * 16];
	static struct crew_case cases[ARRAY_LEN(kinds) * 16];
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < count; i++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s_by_%s", each[i].name,
				 kinds[k].name);
			cases[n] = (struct crew_case){ &kinds[k], each[i].test_func };
			tests[n] = (struct CMUnitTest){ names[n], run_case, begin, end, &cases[n] };
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return _cmocka_run_group_tests("safepoint", tests, n, NULL, NULL);
}

#endif
