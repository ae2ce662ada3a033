/* SPDX-License-Identifier: MIT */
/* test_records.c - records of another process: a forked victim that writes on command. */
#include "crew.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MARK 0x5452415045444d4bull

static volatile uint64_t words[4] __attribute__((aligned(64)));

struct victim {
	pid_t pid;
	int go;
	int done;
};

struct order {
	uint64_t from; /* writes from, from + 1, ... */
	uint32_t times;
	uint32_t is_by_thread; /* in a new thread named "scribe" */
};

static NOINLINE void write_marked(uint64_t value)
{
	volatile uint64_t marks[4] = {MARK, MARK, MARK, MARK};

	store(&words[0], value);
	marks[0] = marks[1];
}

static void *obey(void *arg)
{
	const struct order *order = arg;

	if (order->is_by_thread)
		prctl(PR_SET_NAME, "scribe");
	for (uint32_t i = 0; i < order->times; i++)
		write_marked(order->from + i);
	return NULL;
}

static void victim_main(int go, int done)
{
	struct order order;
	pthread_t thread;

	prctl(PR_SET_NAME, "victim");
	alarm(300);
	while (read(go, &order, sizeof(order)) == sizeof(order)) {
		if (!order.is_by_thread)
			obey(&order);
		else if (!pthread_create(&thread, NULL, obey, &order))
			pthread_join(thread, NULL);
		if (write(done, "", 1) != 1)
			break;
	}
	_exit(13);
}

static struct victim start_victim(void)
{
	struct victim victim;
	int go[2];
	int done[2];

	words[0] = 100;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(done), 0);
	victim.pid = fork();
	if (!victim.pid) {
		close(go[1]);
		close(done[0]);
		victim_main(go[0], done[1]);
	}
	close(go[0]);
	close(done[1]);
	victim.go = go[1];
	victim.done = done[0];
	return victim;
}

static void order(struct victim *victim, uint64_t from, uint32_t times, bool is_by_thread)
{
	struct order what = {from, times, is_by_thread};
	char c;

	assert_int_equal(write(victim->go, &what, sizeof(what)), sizeof(what));
	assert_int_equal(read(victim->done, &c, 1), 1);
}

/* It must still be alive, and end by itself when told. */
static void end_victim(struct victim *victim)
{
	int status;

	order(victim, 1, 1, true);
	close(victim->go);
	close(victim->done);
	assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
	expect_exit(status, 13);
}

static void records_chain_old_to_new(void **state)
{
	struct victim victim = start_victim();
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	rig_watch(&rig, &words[0], NULL);
	order(&victim, 500, 20, false);
	order(&victim, 700, 20, true);
	store(&words[0], 1); /* ours, not the victim's */
	expect_hits(&rig, 40);
	for (int i = 0; i < 40; i++) {
		const struct trapline_hit *hit = &rig.seen[i];
		uint64_t value = i < 20 ? 500 + i : 680 + i;

		assert_int_equal(hit->pid, victim.pid);
		assert_int_equal(hit->tid == victim.pid, i < 20);
		assert_in_range(hit->ip, ADDR(store), ADDR(store) + 64);
		/* By the kernel's own ring too, which tells names apart from hits. */
		assert_string_equal(hit->thread, i < 20 ? "victim" : "scribe");
		if (rig.mode == BY_RING)
			continue;
		assert_int_equal(hit->value_when, TRAPLINE_VALUE_AT_HIT);
		assert_int_equal(hit->new_value, value);
		assert_int_equal(hit->old_known, 1);
		assert_int_equal(hit->old_value, i ? rig.seen[i - 1].new_value : 100);
	}
	rig_close(&rig);
	end_victim(&victim);
}

static void records_are_in_order_of_time(void **state)
{
	struct victim victim = start_victim();
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	rig_watch(&rig, &words[0], NULL);
	for (int i = 0; i < 20; i++)
		order(&victim, 0, 2, i % 2);
	expect_hits(&rig, 40);
	for (int i = 1; i < 40; i++)
		assert_true(rig.seen[i].time_ns > rig.seen[i - 1].time_ns);
	rig_close(&rig);
	end_victim(&victim);
}

struct depth {
	unsigned int hits;
	uint64_t ip;
	uint64_t sp;
	uint64_t value;
	unsigned int marks;
	int none;
};

static enum trapline_action look_deep(const struct trapline_hit *hit)
{
	struct depth *depth = hit->arg;
	const char *bytes = hit->stack_bytes;
	uint64_t at;

	depth->hits++;
	trapline_hit_register(hit, 16, &depth->ip);
	trapline_hit_register(hit, 7, &depth->sp);
	depth->none = trapline_hit_register(hit, 4, &depth->value);
	depth->ip = depth->ip == hit->ip;
	depth->sp = depth->sp == hit->sp;
	for (uint32_t i = 0; bytes && i + 8 <= hit->stack_bytes_len && i < 256; i += 8) {
		memcpy(&at, bytes + i, 8);
		depth->marks += at == MARK;
	}
	return TRAPLINE_GO_ON;
}

static void records_hold_registers_and_stack_when_asked(void **state)
{
#if defined(__x86_64__)
	struct victim victim = start_victim();
	TRAPLINE_OPTS(event, opts);
	struct depth depth = {0};
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	opts.flags = TRAPLINE_STACK_BYTES;
	opts.arg = &depth;
	rig_watch(&rig, &words[0], &opts);
	order(&victim, 987654321, 1, false);
	assert_int_equal(trapline_poll(rig.target, 1000, look_deep), 1);
	assert_int_equal(depth.hits, 1);
	assert_int_equal(depth.none, 0);
	assert_int_equal(depth.value, 987654321);
	assert_int_equal(depth.ip, 1);
	assert_int_equal(depth.sp, 1);
	assert_true(depth.marks >= 4);
	expect_identity(rig.event);
	close_target(rig.target);
	end_victim(&victim);
#else
	skip_because("register numbers of this architecture");
#endif
}

static void records_hold_no_stack_unasked(void **state)
{
	struct victim victim = start_victim();
	TRAPLINE_OPTS(event, opts);
	struct depth depth = {0};
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	opts.arg = &depth;
	rig_watch(&rig, &words[0], &opts);
	order(&victim, 1, 1, false);
	assert_int_equal(trapline_poll(rig.target, 1000, look_deep), 1);
	assert_int_equal(depth.marks, 0);
	close_target(rig.target);
	end_victim(&victim);
}

static void limit_is_exact_in_records(void **state)
{
	struct victim victim = start_victim();
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	opts.limit = 10;
	rig_watch(&rig, &words[0], &opts);
	order(&victim, 1, 100, false);
	expect_hits(&rig, 10);
	order(&victim, 1, 100, true);
	expect_hits(&rig, 10);
	assert_int_equal(trapline_event_rearm(rig.event, 5), 0);
	order(&victim, 1, 100, true);
	expect_hits(&rig, 15);
	rig_close(&rig);
	end_victim(&victim);
}

static void full_ring_is_named(void **state)
{
	struct victim victim = start_victim();
	TRAPLINE_OPTS(open, opts);
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	close_target(rig.target);
	opts.records_bytes = 65536;
	opts.flags = rig.mode == BY_RING ? TRAPLINE_NO_BPF : 0;
	expect_ok(trapline_open(victim.pid, &opts, &rig.target));
	keep_target(rig.target);
	rig_watch(&rig, &words[0], NULL);
	order(&victim, 1, 10000, false);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, 10000);
	assert_true(s.lost_ring_full > 0);
	assert_int_equal(s.lost_ring_full, stats_lost(&s));
	assert_int_equal(s.delivered + s.lost_ring_full, 10000);
	order(&victim, 1, 5, false);
	assert_int_equal(rig_hits(&rig), s.delivered + 5);
	rig_close(&rig);
	end_victim(&victim);
}

static enum trapline_action take_no_note(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

#define ANY_USER 65534
enum outcome { SERVED, REFUSED_BY_KERNEL, REFUSED_BY_LIBRARY, NOT_HIT };

/* Of a user that may lock no more than kernel.perf_event_mlock_kb for each CPU. */
static enum outcome watch_with_little_memory(uint32_t records_bytes)
{
	const struct rlimit none = {0, 0};
	TRAPLINE_OPTS(open, opts);
	struct rig rig = {.mode = BY_RING};

	if (setrlimit(RLIMIT_MEMLOCK, &none) || (!geteuid() && setuid(ANY_USER)))
		return REFUSED_BY_KERNEL;
	int fd = bare_open(&words[0], 0, false);
	if (fd < 0)
		return REFUSED_BY_KERNEL;
	close(fd);
	opts.flags = TRAPLINE_NO_BPF;
	opts.records_bytes = records_bytes;
	if (trapline_open(0, &opts, &rig.target) ||
	    trapline_watch(rig.target, ADDR(&words[0]), sizeof(words[0]), TRAPLINE_WRITE, NULL,
			   &rig.event))
		return REFUSED_BY_LIBRARY;
	store(&words[0], 1);
	return trapline_poll(rig.target, 0, take_no_note) == 1 ? SERVED : NOT_HIT;
}

static void rings_fit_what_a_user_may_lock(void **state)
{
	const uint32_t rooms[] = {0, 256u << 20};

	for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
		int status;
		pid_t pid = fork();

		if (!pid)
			_exit((int)watch_with_little_memory(rooms[i]));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == REFUSED_BY_KERNEL)
			skip_because("breakpoint events for a user without privileges");
		assert_int_equal(WEXITSTATUS(status), SERVED);
	}
}

static void unread_records_are_counted(void **state)
{
	struct victim victim = start_victim();
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	rig_watch(&rig, &words[0], NULL);
	order(&victim, 1, 7, false);

	struct trapline_stats s = expect_identity(rig.event);

	assert_int_equal(s.taken, 7);
	assert_int_equal(s.unread, 7);
	expect_hits(&rig, 7);
	rig_close(&rig);
	end_victim(&victim);
}

/* The kernel's own ring is looked at by time as well: a descriptor may be readable for that. */
static void expect_quiet(struct rig *rig, struct pollfd *fd)
{
	uint64_t hits = rig->hits;

	WAIT_UNTIL(poll(fd, 1, 0) == 0 || rig_glance(rig) > hits);
	assert_int_equal(rig->hits, hits);
}

static void descriptor_is_readable_when_records_wait(void **state)
{
	struct victim victim = start_victim();
	struct rig rig;

	rig_open_pid(&rig, MODE(state), victim.pid);
	assert_int_equal(trapline_fd(rig.target), -ENODATA);
	rig_watch(&rig, &words[0], NULL);

	struct pollfd fd = {.fd = trapline_fd(rig.target), .events = POLLIN};

	assert_true(fd.fd >= 0);
	expect_quiet(&rig, &fd);
	order(&victim, 1, 1, false);
	assert_int_equal(poll(&fd, 1, 5000), 1);
	expect_hits(&rig, 1);
	expect_quiet(&rig, &fd);
	assert_int_equal(trapline_poll(rig.target, 20, rig_note), 0);
	rig_close(&rig);
	end_victim(&victim);
}

static void end_of_the_target_is_told_after_its_records(void **state)
{
	struct victim victim = start_victim();
	struct rig rig;
	int given;

	rig_open_pid(&rig, MODE(state), victim.pid);
	rig_watch(&rig, &words[0], NULL);
	order(&victim, 1, 30, true);
	close(victim.go);
	assert_int_equal(waitpid(victim.pid, NULL, 0), victim.pid);
	while ((given = trapline_poll(rig.target, -1, rig_note)) >= 0)
		;
	assert_int_equal(given, -ESRCH);
	assert_int_equal(rig.hits, 30);
	assert_int_equal(trapline_poll(rig.target, -1, rig_note), -ESRCH);
	expect_identity(rig.event);
	close_target(rig.target);
	close(victim.done);
}

static int observe_until_killed(void *arg)
{
	struct trapline_event *event;
	struct trapline *target;
	int *ready = arg;

	if (trapline_open(ready[1], NULL, &target))
		return 1;
	for (int i = 0; i < 4; i++)
		if (trapline_watch(target, ADDR(&words[i]), 8, TRAPLINE_WRITE, NULL, &event))
			return 2;
	if (write(ready[0], "", 1) != 1)
		return 3;
	for (;;)
		pause();
}

static void killed_observer_leaves_registers_free(void **state)
{
	struct victim victim = start_victim();
	int ends[2];
	char c;

	require(MODE(state));
	assert_int_equal(pipe(ends), 0);
	for (int round = 0; round < 5; round++) {
		int ready[2] = {ends[1], victim.pid};
		int fds[4];
		pid_t pid = fork();

		if (!pid) {
			alarm(200);
			_exit(observe_until_killed(ready));
		}
		assert_int_equal(read(ends[0], &c, 1), 1);
		order(&victim, 1, 50, round % 2);
		assert_true(bare_open(&words[0], victim.pid, false) < 0);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		order(&victim, 1, 50, true);
		for (int i = 0; i < 4; i++)
			WAIT_UNTIL((fds[i] = bare_open(&words[i], victim.pid, false)) >= 0);
		for (int i = 0; i < 4; i++)
			close(fds[i]);
	}
	end_victim(&victim);
}

static void other_processes_need_records(void **state)
{
	struct victim victim = start_victim();
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct rig rig;

	rig_open_pid(&rig, BY_CALLBACK, victim.pid);
	opts.callback = rig_note;
	opts.arg = &rig;
	assert_int_equal(
		trapline_watch(rig.target, ADDR(&words[0]), 8, TRAPLINE_WRITE, &opts, &event),
		-EINVAL);
	assert_null(event);
	close_target(rig.target);
	end_victim(&victim);
}

static void *tell_tid(void *arg)
{
	struct trapline *target = NULL;

	return (void *)(intptr_t)trapline_open(gettid(), NULL, &target);
}

static void what_is_no_process_is_refused(void **state)
{
	struct trapline *target = NULL;
	pthread_t thread;
	void *err;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(trapline_open(pid, NULL, &target), -ESRCH);
	pthread_create(&thread, NULL, tell_tid, NULL);
	pthread_join(thread, &err);
	assert_int_equal((int)(intptr_t)err, -EINVAL);
	assert_null(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RECORDS(records_chain_old_to_new),
		TEST_RECORDS(records_are_in_order_of_time),
		TEST_RECORDS(records_hold_registers_and_stack_when_asked),
		TEST_RECORDS(records_hold_no_stack_unasked),
		TEST_RECORDS(limit_is_exact_in_records),
		TEST_RECORDS(full_ring_is_named),
		TEST_RECORDS(unread_records_are_counted),
		TEST_RECORDS(descriptor_is_readable_when_records_wait),
		TEST_RECORDS(end_of_the_target_is_told_after_its_records),
		TEST_RECORDS(killed_observer_leaves_registers_free),
		TEST(other_processes_need_records),
		TEST(rings_fit_what_a_user_may_lock),
		TEST(what_is_no_process_is_refused),
	};

	return run_group(tests);
}
