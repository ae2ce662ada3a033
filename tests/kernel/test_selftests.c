/* SPDX-License-Identifier: MIT */
/*
 * test_selftests.c - the scenarios of the kernel's own selftests, through this library:
 * tools/testing/selftests/perf_events/{sigtrap_threads,remove_on_exec}.c.
 */
#include "crew.h"

#include <fcntl.h>

#define THREADS 5

static volatile uint64_t word __attribute__((aligned(64)));
static volatile uint64_t elsewhere __attribute__((aligned(64)));

static void sigtrap_threads_remain_disabled(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &word, &opts);
	crew_muster(&crew, THREADS, &word);
	crew_run(&crew, 1);
	expect_hits(&rig, 0);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void sigtrap_threads_enable_event(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &word, &opts);
	crew_muster(&crew, THREADS, &word);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	crew_run(&crew, 1);
	expect_hits(&rig, THREADS);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(seen_from(&rig, crew.tids[i]), 1);
		assert_int_equal(rig.seen[i].address, ADDR(&word));
	}
	assert_int_equal(trapline_event_disable(rig.event), 0);
	crew_run(&crew, 1);
	expect_hits(&rig, THREADS);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void sigtrap_threads_modify_and_enable_event(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &elsewhere, &opts);
	crew_muster(&crew, THREADS, &word);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&word)), 0);
	crew_run(&crew, 1);
	expect_hits(&rig, 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	crew_run(&crew, 1);
	expect_hits(&rig, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(seen_from(&rig, crew.tids[i]), 1);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void sigtrap_threads_signal_stress(void **state)
{
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	crew_muster(&crew, THREADS, &word);
	unsigned int rounds = scaled(10);

	for (unsigned int i = 0; i < rounds; i++) {
		crew_run(&crew, 300);
		rig_hits(&rig);
	}
	expect_hits(&rig, rounds * 300 * THREADS);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void sigtrap_threads_signal_stress_with_disable(void **state)
{
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	crew_muster(&crew, THREADS, &word);
	crew_begin(&crew, 0);
	for (unsigned int i = 0; i < scaled(200); i++) {
		uint64_t before = rig_glance(&rig);

		assert_int_equal(trapline_event_enable(rig.event), 0);
		WAIT_UNTIL(rig_glance(&rig) > before);
		assert_int_equal(trapline_event_disable(rig.event), 0);
	}
	crew_finish(&crew);

	uint64_t hits = rig_hits(&rig);
	struct trapline_stats s = rig_stats(&rig);

	/* Who writes faster than we read fills the kernel's own ring: named. */
	assert_int_equal(stats_lost(&s), MODE(state) == BY_CALLBACK ? 0 : s.lost_ring_full);
	crew_run(&crew, 10);
	assert_int_equal(rig_stats(&rig).taken, s.taken);
	assert_int_equal(rig_hits(&rig), hits);
	rig_close(&rig);
	crew_dismiss(&crew);
}

struct helper {
	pid_t pid;
	int go;   /* we write: act */
	int done; /* it writes: acted */
};

/* A child that writes, or execs into a shell that waits, when told. */
static struct helper start_helper(bool is_exec)
{
	struct helper helper;
	int go[2];
	int done[2];

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	helper.pid = fork();
	if (!helper.pid) {
		alarm(200);
		close(go[1]);
		dup2(go[0], 0);
		dup2(done[1], 1);
		if (is_exec)
			execl("/bin/sh", "sh", "-c", "echo r; read x; echo w; read y; exit 6",
			      NULL);
		while (write(1, "r", 1) == 1 && read(0, &go[0], 1) == 1)
			store_many(&word, 5);
		_exit(6);
	}
	close(go[0]);
	close(done[1]);
	helper.go = go[1];
	helper.done = done[0];
	return helper;
}

static void await_helper(const struct helper *helper)
{
	char c;

	assert_int_equal(read(helper->done, &c, 1), 1);
	while (c == '\n')
		assert_int_equal(read(helper->done, &c, 1), 1);
}

static void tell_helper(const struct helper *helper)
{
	assert_int_equal(write(helper->go, "\n", 1), 1);
	await_helper(helper);
}

static void end_helper(struct helper *helper)
{
	int status;

	(void)!write(helper->go, "\n", 1);
	close(helper->go);
	assert_int_equal(waitpid(helper->pid, &status, 0), helper->pid);
	close(helper->done);
	expect_exit(status, 6);
}

static void remove_on_exec_fork_only(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);

	struct helper helper = start_helper(false);

	await_helper(&helper);
	tell_helper(&helper);
	end_helper(&helper);
	expect_hits(&rig, 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void remove_on_exec_fork_exec_then_enable(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &word, &opts);

	struct helper plain = start_helper(false);
	struct helper exec = start_helper(true);

	await_helper(&plain);
	await_helper(&exec);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	tell_helper(&plain);
	tell_helper(&exec);
	end_helper(&plain);
	end_helper(&exec);
	expect_hits(&rig, 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void remove_on_exec_enable_then_fork_exec(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);

	struct helper exec = start_helper(true);

	await_helper(&exec);
	tell_helper(&exec);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	end_helper(&exec);
	expect_hits(&rig, 0);
	store(&word, 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void remove_on_exec_exec_stress(void **state)
{
	struct helper helpers[30];
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	crew_muster(&crew, 2, &word);
	crew_begin(&crew, 0);
	for (int i = 0; i < 30; i++)
		helpers[i] = start_helper(true);
	for (int i = 0; i < 30; i++) {
		await_helper(&helpers[i]);
		end_helper(&helpers[i]);
		rig_glance(&rig);
	}
	crew_finish(&crew);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, crew.written);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void *act_in_thread(void *arg)
{
	struct helper helper = start_helper(false);

	await_helper(&helper);
	tell_helper(&helper);
	store_many(&word, 4);
	end_helper(&helper);
	return NULL;
}

static void inherit_to_threads_only(void **state)
{
	pthread_t thread;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	assert_int_equal(pthread_create(&thread, NULL, act_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect_hits(&rig, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(rig.seen[i].pid, getpid());
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(sigtrap_threads_remain_disabled),
		TEST_EACH_MODE(sigtrap_threads_enable_event),
		TEST_EACH_MODE(sigtrap_threads_modify_and_enable_event),
		TEST_EACH_MODE(sigtrap_threads_signal_stress),
		TEST_EACH_MODE(sigtrap_threads_signal_stress_with_disable),
		TEST_EACH_MODE(remove_on_exec_fork_only),
		TEST_EACH_MODE(remove_on_exec_fork_exec_then_enable),
		TEST_EACH_MODE(remove_on_exec_enable_then_fork_exec),
		TEST_EACH_MODE(remove_on_exec_exec_stress),
		TEST_EACH_MODE(inherit_to_threads_only),
	};

	return run_group(tests);
}
