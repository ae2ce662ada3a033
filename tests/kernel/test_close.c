/* SPDX-License-Identifier: MIT */
/*
 * test_close.c - an event is closed while callbacks and other threads still call its functions, and
 * while its records are read. Each test runs in a child, which must not be killed.
 */
#include "crew.h"

#define ROUNDS 400
#define WRITERS 3
#define CALLS_IN_CALLBACK 14
#define CALLS_MIN 20 /* before an event is closed */

static volatile uint64_t words[2][8] __attribute__((aligned(64)));
static _Atomic uint64_t calls;
static _Atomic uint64_t refused; /* the event was closed meanwhile */
static bool closes_itself;

/* Each may find the event closed. What else can go wrong here is that one is changing it already. */
static int call_one(struct trapline_event *event, uint64_t nth)
{
	struct trapline_stats stats = {.size = sizeof(stats)};
	uint64_t count;

	switch (nth % 7) {
	case 0:
		return trapline_event_move(event, ADDR(&words[nth / 7 % 2]));
	case 1:
		return trapline_event_disable(event);
	case 2:
		return trapline_event_enable(event);
	case 3:
		return trapline_event_rearm(event, 1000000);
	case 4:
		return trapline_event_read(event, &count);
	case 5:
		return trapline_event_stats(event, &stats);
	default:
		return trapline_event_enable(event);
	}
}

static void call_any(struct trapline_event *event)
{
	uint64_t nth = calls++;
	int err = call_one(event, nth);

	if (err == -ESRCH)
		refused++;
	else if (err && err != -EDEADLK && err != -EINVAL) /* it may have no limit */
		abort();
}

static enum trapline_action call_in_callback(const struct trapline_hit *hit)
{
	for (int i = 0; i < CALLS_IN_CALLBACK; i++)
		call_any(hit->event);
	if (closes_itself && calls >= CALLS_MIN)
		trapline_event_close(hit->event);
	return calls % 64 ? TRAPLINE_GO_ON : TRAPLINE_DISARM;
}

static void *write_always(void *arg)
{
	const bool *is_over = arg;

	while (!__atomic_load_n(is_over, __ATOMIC_ACQUIRE)) {
		store(&words[0][0], 1);
		store(&words[1][0], 1);
		sched_yield();
	}
	return NULL;
}

static int close_one(struct trapline *target, uint64_t nth)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;

	opts.callback = call_in_callback;
	opts.limit = nth % 2 ? UINT32_MAX : 0;
	calls = 0;
	int err = trapline_watch(target, ADDR(&words[0]), 8, TRAPLINE_WRITE, &opts, &event);
	if (err) {
		print_message("# watch %lu: %s\n", nth, strerror(-err));
		return 2;
	}
	for (int i = 0; i < 2000 && calls < CALLS_MIN; i++) {
		trapline_event_enable(event); /* a callback may have disabled it for good */
		usleep(20);
	}
	trapline_event_close(event);
	return 0;
}

static int close_under_callbacks(void *arg)
{
	pthread_t threads[WRITERS];
	bool is_over = false;
	struct trapline *target;
	int failed = trapline_open(0, NULL, &target) ? 1 : 0;

	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_always, &is_over);
	for (uint64_t i = 0; !failed && i < scaled(ROUNDS); i++)
		failed = close_one(target, i);
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE); /* write_always() */
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	print_message("# %lu calls found the event closed\n", refused);
	return failed;
}

static void event_is_closed_while_callbacks_call_its_functions(void **state)
{
	require(BY_CALLBACK);
	closes_itself = false;
	expect_exit(status_of_child(close_under_callbacks, NULL), 0);
}

static void callbacks_close_their_event_in_several_threads_at_once(void **state)
{
	require(BY_CALLBACK);
	closes_itself = true;
	expect_exit(status_of_child(close_under_callbacks, NULL), 0);
}

struct caller {
	struct trapline_event *_Atomic event;
	_Atomic bool is_over;
};

static void *call_always(void *arg)
{
	struct caller *caller = arg;

	while (!caller->is_over)
		if (caller->event)
			call_any(caller->event);
	return NULL;
}

static enum trapline_action ignore(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

/* The main thread opens and closes; another one reads, as trapline_poll() permits. */
static void *poll_always(void *arg)
{
	const struct rig *rig = arg;

	while (!rig->hits)
		trapline_poll(rig->target, 1, ignore);
	return NULL;
}

static int close_under_poll(void *arg)
{
	const enum mode *mode = arg;
	TRAPLINE_OPTS(open, opts);
	pthread_t threads[WRITERS];
	pthread_t reader;
	bool is_over = false;
	struct rig rig = {0};

	opts.flags = *mode == BY_RING ? TRAPLINE_NO_BPF : 0;
	if (trapline_open(0, &opts, &rig.target))
		return 1;
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_always, &is_over);
	pthread_create(&reader, NULL, poll_always, &rig);
	for (uint64_t i = 0; i < scaled(ROUNDS); i++) {
		TRAPLINE_OPTS(event, event_opts);
		struct trapline_event *event;

		event_opts.limit = i % 2 ? UINT32_MAX : 0;
		if (trapline_watch(rig.target, ADDR(&words[0]), 8, TRAPLINE_WRITE, &event_opts, &event))
			return 2;
		usleep(500);
		trapline_event_close(event);
	}
	rig.hits = 1;
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE); /* write_always() */
	pthread_join(reader, NULL);
	trapline_close(rig.target);
	return 0;
}

static void event_is_closed_while_its_records_are_read(void **state)
{
	require(MODE(state));
	expect_exit(status_of_child(close_under_poll, *state), 0);
}

static int close_under_calls(void *arg)
{
	struct caller caller = {0};
	pthread_t threads[WRITERS];
	struct trapline *target;
	TRAPLINE_OPTS(event, opts);

	opts.callback = ignore;
	if (trapline_open(0, NULL, &target))
		return 1;
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, call_always, &caller);
	for (uint64_t i = 0; i < scaled(ROUNDS); i++) {
		struct trapline_event *event;

		opts.limit = i % 2 ? UINT32_MAX : 0;
		if (trapline_watch(target, ADDR(&words[0]), 8, TRAPLINE_WRITE, &opts, &event))
			return 2;
		caller.event = event;
		uint64_t before = calls;
		for (int n = 0; n < 2000 && calls < before + CALLS_MIN; n++)
			usleep(20);
		trapline_event_close(event);
	}
	caller.is_over = true;
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static void event_is_closed_while_other_threads_call_its_functions(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(close_under_calls, NULL), 0);
}

static void closed_event_refuses_each_call(void **state)
{
	struct trapline_stats stats = {.size = sizeof(stats)};
	uint64_t count;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &words[0][0], NULL);
	trapline_event_close(rig.event);
	assert_int_equal(trapline_event_enable(rig.event), -ESRCH);
	assert_int_equal(trapline_event_disable(rig.event), -ESRCH);
	assert_int_equal(trapline_event_rearm(rig.event, 1), -ESRCH);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1])), -ESRCH);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[1]), 8), -ESRCH);
	assert_int_equal(trapline_event_read(rig.event, &count), -ESRCH);
	assert_int_equal(trapline_event_stats(rig.event, &stats), -ESRCH);
	trapline_event_close(rig.event);
	close_target(rig.target);
}

static void expect_words(int err, const char *text)
{
	char why[512] = "";

	trapline_explain(err, why, sizeof(why));
	if (!strstr(why, text))
		print_message("# %d: %s\n", err, why);
	assert_non_null(strstr(why, text));
}

/* Not the cause of an older failure with the same number. */
static void failure_of_a_closed_event_is_explained_as_its_own(void **state)
{
	struct trapline *target;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &words[0][0], NULL);
	assert_int_equal(trapline_event_rearm(rig.event, 1), -EINVAL);
	expect_words(-EINVAL, "no limit");
	trapline_event_close(rig.event);
	assert_int_equal(trapline_open(99999999, NULL, &target), -ESRCH);
	assert_int_equal(trapline_event_enable(rig.event), -ESRCH);
	expect_words(-ESRCH, "the event is closed");
	assert_int_equal(trapline_open(-1, NULL, &target), -EINVAL);
	expect_words(-EINVAL, "pid is negative");
	close_target(rig.target);
}

static void event_past_the_limit_of_256_is_explained_as_such(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *target;
	int err = 0;

	require(BY_CALLBACK);
	opts.scope = TRAPLINE_CALLER;
	expect_ok(trapline_open(0, NULL, &target));
	keep_target(target);
	for (int i = 0; !err && i < 300; i++)
		err = trapline_count(target, TRAPLINE_TASK_CLOCK, &opts, &event);
	assert_int_equal(err, -ENFILE);
	expect_words(err, "256 events are open, which is the limit");
	close_target(target);
}

static void options_of_open_may_be_of_another_version(void **state)
{
	struct {
		struct trapline_open_opts known;
		uint64_t newer;
	} opts = {.known = {.size = sizeof(opts)}};
	struct trapline *target;

	expect_ok(trapline_open(0, &opts.known, &target));
	trapline_close(target);
	opts.newer = 1;
	assert_int_equal(trapline_open(0, &opts.known, &target), -E2BIG);
	opts.known.size = sizeof(size_t);
	opts.known.records_bytes = 1; /* not looked at */
	expect_ok(trapline_open(0, &opts.known, &target));
	trapline_close(target);
	opts.known.size = 0;
	assert_int_equal(trapline_open(0, &opts.known, &target), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event_is_closed_while_callbacks_call_its_functions),
		TEST(callbacks_close_their_event_in_several_threads_at_once),
		TEST(event_is_closed_while_other_threads_call_its_functions),
		TEST_RECORDS(event_is_closed_while_its_records_are_read),
		TEST(closed_event_refuses_each_call),
		TEST(failure_of_a_closed_event_is_explained_as_its_own),
		TEST(event_past_the_limit_of_256_is_explained_as_such),
		TEST(options_of_open_may_be_of_another_version),
	};

	return run_group(tests);
}
