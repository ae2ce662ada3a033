/* SPDX-License-Identifier: MIT */
/*
 * test_throttle_queue.c - threads that share a budget get all of it, and each the same part.
 *
 * The library's own account and queue, in a time that is only a number: processors that others
 * want too, threads that wait for one, wake late, and sleep by themselves. So no load of the
 * machine that runs it changes what comes out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "throttle/throttle_queue.h"

#define STEP_NS 50000u
#define SLICE_NS 3000000u
#define CHECK_NS 2000000u /* of CPU time, between two looks at the account */
#define BURST_NS 20000000u
#define RUN_NS 20000000000u
#define THREADS_MAX 200
#define PROCESSORS 2
#define QUEUE_MAX 4096
#define JUMP_ONE_IN 100000 /* steps of a sleep */
#define BEGIN_NS 1000000000u

enum state { READY, RUNNING, PAYING, IDLE };

struct thread {
	enum state state;
	uint64_t wake_ns;
	uint64_t ticket;
	uint64_t held;
	int is_queued;
	uint64_t entered_ns;
	uint64_t used_ns;
	uint64_t unchecked_ns; /* since its last look */
	uint64_t idle_at_ns;   /* it sleeps by itself when it has used so much; 0: never */
};

struct machine {
	struct thread threads[THREADS_MAX];
	unsigned int thread_count;
	unsigned int others; /* that always want a processor; their numbers follow the threads' */
	unsigned int percent;
	struct throttle_queue queue;
	uint64_t origin;
	uint64_t drawn;
	uint64_t turns;
	unsigned int line[QUEUE_MAX]; /* for a processor */
	unsigned int line_head;
	unsigned int line_tail;
	unsigned int jumps;
	int on[PROCESSORS];
	uint64_t slice_left[PROCESSORS];
};

static struct machine m;

static uint64_t price(uint64_t ns)
{
	return ns * 100 / m.percent;
}

static uint64_t due(uint64_t now)
{
	return throttle_due(&m.origin, price(m.drawn), BURST_NS, now);
}

static void make_ready(unsigned int who)
{
	m.line[m.line_tail++ % QUEUE_MAX] = who;
	if (who < m.thread_count)
		m.threads[who].state = READY;
}

static void wake_longest_sleeper(void)
{
	struct thread *first = NULL;

	for (unsigned int i = 0; i < m.thread_count; i++) {
		struct thread *t = &m.threads[i];

		if (t->state == PAYING && (!first || t->entered_ns < first->entered_ns))
			first = t;
	}
	if (first)
		first->wake_ns = 0;
}

/* throttle_pay(), between two sleeps. Whether the thread goes on. */
static int look(struct thread *t, uint64_t now)
{
	uint64_t even_at = due(now);

	if ((int64_t)(even_at - now) > 0) {
		if (!t->is_queued) {
			t->ticket = throttle_queue_enter(&m.queue, &t->held);
			t->entered_ns = now;
			t->is_queued = 1;
		}
		t->wake_ns = throttle_queue_look_at(&m.queue, t->ticket, even_at, price(CHECK_NS));
		t->state = PAYING;
		return 0;
	}
	if (t->is_queued) {
		throttle_queue_leave(&m.queue, &t->held, t->ticket);
		if (throttle_queue_is_behind(&m.queue, even_at, price(CHECK_NS), now))
			wake_longest_sleeper();
		m.turns++;
	}
	t->is_queued = 0;
	return 1;
}

/* One step on a processor. Whether the thread stays there. */
static int run_step(struct thread *t, uint64_t now)
{
	if (t->is_queued && !look(t, now))
		return 0;
	t->used_ns += STEP_NS;
	t->unchecked_ns += STEP_NS;
	m.drawn += STEP_NS;
	if (t->idle_at_ns && t->used_ns >= t->idle_at_ns) {
		t->state = IDLE;
		t->wake_ns = now + 1000000u * (1 + random_below(20));
		t->idle_at_ns = t->used_ns + 100000u * (1 + random_below(30));
		return 0;
	}
	if (t->unchecked_ns < CHECK_NS)
		return 1;
	t->unchecked_ns = 0;
	return look(t, now);
}

static void step_processor(unsigned int p, uint64_t now)
{
	int stays = 1;

	if (m.on[p] < 0) {
		if (m.line_head == m.line_tail)
			return;
		m.on[p] = (int)m.line[m.line_head++ % QUEUE_MAX];
		m.slice_left[p] = SLICE_NS;
	}
	unsigned int who = (unsigned int)m.on[p];
	if (who < m.thread_count) {
		m.threads[who].state = RUNNING;
		stays = run_step(&m.threads[who], now);
	}
	m.slice_left[p] -= STEP_NS;
	if (stays && m.slice_left[p])
		return;
	m.on[p] = -1;
	if (stays)
		make_ready(who);
}

/* Out of the sleep by a jump, and on as if nothing was. */
static void jump_out(struct thread *t, unsigned int who)
{
	t->is_queued = 0;
	make_ready(who);
	m.jumps++;
}

enum habit { COMPUTE, IDLE_TOO, JUMP_TOO };

static void wake_sleepers(uint64_t now, enum habit habit)
{
	for (unsigned int i = 0; i < m.thread_count; i++) {
		struct thread *t = &m.threads[i];

		if ((t->state == PAYING || t->state == IDLE) && t->wake_ns <= now)
			make_ready(i);
		else if (t->state == PAYING && habit == JUMP_TOO && !random_below(JUMP_ONE_IN))
			jump_out(t, i);
	}
}

static void run(unsigned int threads, unsigned int others, unsigned int percent, enum habit habit)
{
	memset(&m, 0, sizeof(m));
	m.thread_count = threads;
	m.others = others;
	m.percent = percent;
	m.origin = BEGIN_NS;
	for (unsigned int i = 0; i < threads + others; i++)
		make_ready(i);
	for (unsigned int i = 0; i < threads && habit == IDLE_TOO; i++)
		m.threads[i].idle_at_ns = 1 + random_below(2000000);
	for (unsigned int p = 0; p < PROCESSORS; p++)
		m.on[p] = -1;
	for (uint64_t now = BEGIN_NS; now < BEGIN_NS + RUN_NS; now += STEP_NS) {
		wake_sleepers(now, habit);
		for (unsigned int p = 0; p < PROCESSORS; p++)
			step_processor(p, now);
	}
}

static double share(uint64_t used_ns)
{
	return 100.0 * (double)used_ns / (double)RUN_NS;
}

/* Of the thread that got least and the one that got most. */
static void extremes(uint64_t *least, uint64_t *most)
{
	*least = UINT64_MAX;
	*most = 0;
	for (unsigned int i = 0; i < m.thread_count; i++) {
		uint64_t used = m.threads[i].used_ns;

		*least = used < *least ? used : *least;
		*most = used > *most ? used : *most;
	}
}

static void expect_share(double loose)
{
	uint64_t least;
	uint64_t most;

	extremes(&least, &most);
	print_message("# %u threads, %u others, %u %%: got %.2f %%; of each thread %.1f to %.1f ms\n",
		      m.thread_count, m.others, m.percent, share(m.drawn), (double)least / 1e6,
		      (double)most / 1e6);
	assert_true(share(m.drawn) >= m.percent - loose);
	/* One turn each may have been drawn too early. */
	assert_true(price(m.drawn) <= RUN_NS + BURST_NS + m.thread_count * price(CHECK_NS));
}

static const unsigned int percents[] = {10, 30, 50};

static void the_whole_budget_is_used_and_each_thread_has_its_turn(void **state)
{
	static const unsigned int thread_counts[] = {1, 8, 50, 200};

	for (unsigned int t = 0; t < 4; t++)
		for (unsigned int p = 0; p < 3; p++) {
			uint64_t least;
			uint64_t most;

			run(thread_counts[t], 0, percents[p], COMPUTE);
			expect_share(0.2);
			extremes(&least, &most);
			assert_true(most - least <= 3 * CHECK_NS);
		}
}

static void threads_that_wait_for_a_processor_lose_nothing(void **state)
{
	static const unsigned int others[] = {2, 4, 10, 30};

	for (unsigned int o = 0; o < 4; o++)
		for (unsigned int p = 0; p < 3; p++) {
			uint64_t least;
			uint64_t most;

			run(200, others[o], percents[p], COMPUTE);
			expect_share(1);
			extremes(&least, &most);
			assert_true(least * 200 * 2 >= m.drawn && most * 200 <= 2 * m.drawn);
		}
}

static void threads_that_draw_a_part_of_their_turn_leave_the_rest_to_others(void **state)
{
	for (unsigned int p = 0; p < 3; p++) {
		run(50, 0, percents[p], IDLE_TOO);
		expect_share(1);
	}
}

static void threads_that_jump_out_of_their_sleep_hold_up_nobody(void **state)
{
	for (unsigned int p = 0; p < 3; p++) {
		run(50, 0, percents[p], JUMP_TOO);
		print_message("# %u jumps\n", m.jumps);
		assert_true(m.jumps > 50);
		assert_true(share(m.drawn) >= percents[p] - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_whole_budget_is_used_and_each_thread_has_its_turn),
		cmocka_unit_test(threads_that_wait_for_a_processor_lose_nothing),
		cmocka_unit_test(threads_that_draw_a_part_of_their_turn_leave_the_rest_to_others),
		cmocka_unit_test(threads_that_jump_out_of_their_sleep_hold_up_nobody),
	};

	random_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
