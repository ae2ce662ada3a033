/* SPDX-License-Identifier: MIT */
/* test_scope.c - which threads and processes an event covers, and which it must not. */
#include "crew.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>

extern char **environ;

static volatile uint64_t word __attribute__((aligned(64)));

static void *write_thrice(void *arg)
{
	store_many(&word, 3);
	return NULL;
}

static void *write_and_beget(void *arg)
{
	pthread_t child;
	uintptr_t generations = (uintptr_t)arg;

	store_many(&word, 3);
	if (!generations || pthread_create(&child, NULL, write_and_beget,
					   (void *)(generations - 1)))
		return NULL;
	pthread_join(child, NULL);
	return NULL;
}

static void run_thread(void *(*act)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, act, arg), 0);
	pthread_join(thread, NULL);
}

static void threads_alive_at_arming_are_covered(void **state)
{
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 8, &word);
	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	assert_int_equal(stats_of(rig.event).threads, 9);
	crew_run(&crew, 10);
	expect_hits(&rig, 80);
	for (int i = 0; i < 8; i++)
		assert_int_equal(seen_from(&rig, crew.tids[i]), 10);
	rig_close(&rig);
	crew_run(&crew, 10);
	crew_dismiss(&crew);
}

static void later_threads_are_covered(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	for (int i = 0; i < 20; i++)
		run_thread(write_thrice, NULL);
	expect_hits(&rig, 60);
	assert_int_equal(seen_from(&rig, gettid()), 0);
	rig_close(&rig);
}

static void threads_of_threads_are_covered(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	run_thread(write_and_beget, (void *)9);
	expect_hits(&rig, 30);
	rig_close(&rig);
}

static void counts_of_dead_threads_stay(void **state)
{
	uint64_t count = 0;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	run_thread(write_and_beget, (void *)4);
	assert_int_equal(trapline_event_read(rig.event, &count), 0);
	assert_int_equal(count, 15);
	rig_hits(&rig);
	rig_close(&rig);
}

static int write_in_child(void *arg)
{
	store_many(&word, 5);
	run_thread(write_thrice, NULL);
	return 42;
}

static void forked_child_is_not_covered(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	for (int i = 0; i < 10; i++)
		expect_exit(status_of_child(write_in_child, NULL), 42);
	expect_hits(&rig, 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static int use_inherited_handle(void *arg)
{
	struct rig *rig = arg;

	if (trapline_event_enable(rig->event) != -ESRCH ||
	    trapline_event_disable(rig->event) != -ESRCH)
		return 1;
	store_many(&word, 3);
	return 0;
}

static void forked_child_cannot_control_the_event(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	expect_exit(status_of_child(use_inherited_handle, &rig), 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static int write_in_grandchild(void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		alarm(200);
		store_many(&word, 2);
		_exit(0);
	}
	store_many(&word, 5);
	return waitpid(pid, &status, 0) == pid && !status ? 42 : 1;
}

static void followed_forks_are_covered(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_FOLLOW_FORKS;
	rig_watch(&rig, &word, &opts);
	expect_exit(status_of_child(write_in_grandchild, NULL), 42);
	store(&word, 1);
	expect_hits(&rig, 8);

	unsigned int ours = 0;

	for (int i = 0; i < 8; i++)
		ours += rig.seen[i].pid == getpid();
	assert_int_equal(ours, 1);
	rig_close(&rig);
}

static void forks_cannot_be_followed_by_callbacks(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.flags = TRAPLINE_FOLLOW_FORKS;
	rig_prepare(&rig, &opts);
	assert_int_equal(
		trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event),
		-EINVAL);
	assert_null(event);
	close_target(rig.target);
}

static void caller_scope_covers_the_caller_only(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);
	rig_open(&rig, MODE(state));
	opts.scope = TRAPLINE_CALLER;
	rig_watch(&rig, &word, &opts);
	assert_int_equal(stats_of(rig.event).threads, 1);
	crew_run(&crew, 5);
	run_thread(write_thrice, NULL);
	expect_hits(&rig, 0);
	store_many(&word, 7);
	expect_hits(&rig, 7);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void listed_threads_are_covered_alone(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	crew_muster(&crew, 4, &word);

	pid_t tids[] = {crew.tids[1], crew.tids[3]};

	rig_open(&rig, MODE(state));
	opts.scope = TRAPLINE_THREADS;
	opts.tids = tids;
	opts.tid_count = 2;
	rig_watch(&rig, &word, &opts);
	tids[0] = tids[1] = 0; /* copied */
	assert_int_equal(stats_of(rig.event).threads, 2);
	crew_run(&crew, 10);
	store_many(&word, 5);
	run_thread(write_thrice, NULL);
	expect_hits(&rig, 20);
	assert_int_equal(seen_from(&rig, crew.tids[1]), 10);
	assert_int_equal(seen_from(&rig, crew.tids[3]), 10);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void foreign_threads_are_refused(void **state)
{
	const pid_t tids[] = {gettid(), getppid()};
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_prepare(&rig, &opts);
	opts.scope = TRAPLINE_THREADS;
	opts.tids = tids;
	opts.tid_count = 2;
	assert_int_equal(
		trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event),
		-ESRCH);
	opts.tid_count = 0;
	assert_int_equal(
		trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event),
		-EINVAL);
	assert_null(event);
	store(&word, 1);
	close_target(rig.target);
}

/* It shares our memory, but not our events. */
static void vforked_child_is_not_covered(void **state)
{
	int status;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	word = 0;

	uint64_t hits = rig_hits(&rig);
	pid_t pid = vfork();

	if (!pid) {
		store(&word, 1234);
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	expect_exit(status, 3);
	assert_int_equal(word, 1234);
	expect_hits(&rig, hits);
	rig_close(&rig);
}

static void spawned_program_runs_unharmed(void **state)
{
	char *argv[] = {"sh", "-c", "exit 7", NULL};
	int status;
	pid_t pid;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		expect_exit(status, 7);
	}
	expect_hits(&rig, 0);
	rig_close(&rig);
}

static int run_true(void *arg)
{
	execl("/bin/sh", "sh", "-c", "exit 9", NULL);
	return 1;
}

static void forked_child_may_exec(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	expect_exit(status_of_child(run_true, NULL), 9);
	expect_hits(&rig, 0);
	rig_close(&rig);
}

/* The process that holds the event execs: nothing of it is left, above all no signal. */
static int watch_then_exec(void *arg)
{
	TRAPLINE_OPTS(event, opts);
	TRAPLINE_OPTS(open, open_opts);
	struct trapline_event *event;
	struct trapline *target;
	enum mode mode = *(enum mode *)arg;
	uint64_t stack_word = 0;

	open_opts.flags = mode == BY_RING ? TRAPLINE_NO_BPF : 0;
	if (trapline_open(0, &open_opts, &target))
		return 1;

	struct rig *rig = calloc(1, sizeof(*rig));

	opts.callback = mode == BY_CALLBACK ? rig_note : NULL;
	opts.arg = rig;
	if (trapline_watch(target, ADDR(&stack_word), 8, TRAPLINE_READ_WRITE, &opts, &event) ||
	    trapline_watch(target, ADDR(&word), 8, TRAPLINE_READ_WRITE, &opts, &event))
		return 2;
	store(&stack_word, 1);
	return run_true(NULL);
}

static void events_are_gone_after_exec(void **state)
{
	enum mode mode = MODE(state);

	require(mode);
	for (int i = 0; i < 10; i++)
		expect_exit(status_of_child(watch_then_exec, &mode), 9);
}

struct orphan {
	struct trapline_event *event;
	_Atomic uint64_t hits;
	bool is_armed;
};

static enum trapline_action count_orphan(const struct trapline_hit *hit)
{
	struct orphan *orphan = hit->arg;

	orphan->hits++;
	return TRAPLINE_GO_ON;
}

static void *outlive_the_main_thread(void *arg)
{
	struct orphan *orphan = arg;

	usleep(20000);
	store_many(&word, 5);
	run_thread(write_thrice, NULL);
	if (trapline_event_disable(orphan->event))
		_exit(1);
	store_many(&word, 5);
	_exit(orphan->hits == 8 ? 0 : 2);
}

static int leave_the_main_thread(void *arg)
{
	static struct orphan orphan;
	TRAPLINE_OPTS(event, opts);
	struct trapline *target;
	pthread_t thread;

	opts.callback = count_orphan;
	opts.arg = &orphan;
	if (trapline_open(0, NULL, &target) ||
	    trapline_watch(target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &orphan.event) ||
	    pthread_create(&thread, NULL, outlive_the_main_thread, &orphan))
		return 3;
	pthread_exit(NULL);
}

static void events_outlive_the_main_thread(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(leave_the_main_thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(threads_alive_at_arming_are_covered),
		TEST_EACH_MODE(later_threads_are_covered),
		TEST_EACH_MODE(threads_of_threads_are_covered),
		TEST_EACH_MODE(counts_of_dead_threads_stay),
		TEST_EACH_MODE(forked_child_is_not_covered),
		TEST_EACH_MODE(forked_child_cannot_control_the_event),
		TEST_RECORDS(followed_forks_are_covered),
		TEST(forks_cannot_be_followed_by_callbacks),
		TEST_EACH_MODE(caller_scope_covers_the_caller_only),
		TEST_EACH_MODE(listed_threads_are_covered_alone),
		TEST_EACH_MODE(foreign_threads_are_refused),
		TEST_EACH_MODE(vforked_child_is_not_covered),
		TEST_EACH_MODE(spawned_program_runs_unharmed),
		TEST_EACH_MODE(forked_child_may_exec),
		TEST_EACH_MODE(events_are_gone_after_exec),
		TEST(events_outlive_the_main_thread),
	};

	return run_group(tests);
}
