/* SPDX-License-Identifier: MIT */
/* test_probe_records.c - probes without a callback: their hits are records, which a reader takes. */
#include "probes.h"

#include <poll.h>
#include <pthread.h>

#define THREADS 4
#define CALLS 1500
#define SLOTS 128 /* of the least memory for records */

static struct trapline *small;
static char mark; /* of the events here */

static int open_small(void **state)
{
	TRAPLINE_OPTS(open, opts);

	opts.records_bytes = 64u << 10;
	return trapline_open(0, &opts, &small);
}

static int close_small(void **state)
{
	trapline_close(small);
	return 0;
}

static struct trapline_event *record_if(struct trapline *t, const char *condition, uint64_t limit)
{
	struct trapline_event *event = NULL;
	struct trapline_condition *parsed = NULL;
	TRAPLINE_OPTS(event, opts);

	if (condition)
		check(trapline_condition_parse(condition, NULL, &parsed), condition);
	opts.condition = parsed;
	opts.limit = limit;
	opts.arg = &mark;
	check(trapline_probe(t, ADDR(five), &opts, &event), "probe");
	trapline_condition_free(parsed);
	return event;
}

static void is_balanced(const struct trapline_stats *s)
{
	assert_int_equal(s->taken, s->delivered + s->unread + s->lost_ring_full + s->lost_nested +
					   s->lost_late + s->rejected_limit +
					   s->rejected_condition + s->rejected_skip);
}

static struct {
	uint64_t records;
	uint64_t next[THREADS]; /* of the calls of a thread: arg1 is its number */
	pid_t tids[THREADS];
	uint64_t wrong;
} seen;

static enum trapline_action look(const struct trapline_hit *hit)
{
	uint64_t number = hit->regs[5]; /* by DWARF: arg0, and below arg1 */
	uint64_t thread = hit->regs[4] % THREADS;

	seen.records++;
	seen.wrong += hit->arg != &mark || hit->ip != ADDR(five) || !hit->caller ||
		      hit->pid != getpid() || hit->context || strcmp(hit->thread, "caller") != 0 ||
		      hit->syscall != -1 || !hit->time_ns;
	seen.wrong += number != seen.next[thread] ||
		      (seen.tids[thread] && seen.tids[thread] != hit->tid);
	seen.tids[thread] = hit->tid;
	seen.next[thread] = number + 1;
	return TRAPLINE_GO_ON;
}

static void *call(void *arg)
{
	pthread_setname_np(pthread_self(), "caller");
	for (uint64_t i = 0; i < CALLS; i++)
		five(i, (uint64_t)(uintptr_t)arg);
	return NULL;
}

static void each_hit_of_each_thread_is_a_record(void **state)
{
	pthread_t threads[THREADS];

	memset(&seen, 0, sizeof(seen));
	struct trapline_event *event = record_if(target, NULL, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call, (void *)i);
	/* While they write, and after. */
	while (trapline_poll(target, 300, look) > 0)
		;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	while (trapline_poll(target, 0, look) > 0)
		;
	struct trapline_stats stats = stats_of(event);
	is_balanced(&stats);
	assert_int_equal(stats.taken, THREADS * CALLS);
	assert_int_equal(stats.delivered, THREADS * CALLS);
	assert_int_equal(seen.records, THREADS * CALLS);
	assert_int_equal(seen.wrong, 0);
	trapline_event_close(event);
}

static uint64_t given;
static uint64_t last_arg;
static enum trapline_action answer;

static enum trapline_action take(const struct trapline_hit *hit)
{
	given++;
	last_arg = hit->regs[5];
	return answer;
}

static void take_all(struct trapline *t)
{
	given = 0;
	answer = TRAPLINE_GO_ON;
	while (trapline_poll(t, 0, take) > 0)
		;
}

static void what_finds_no_room_is_counted(void **state)
{
	struct trapline_event *event = record_if(small, NULL, 0);

	for (uint64_t i = 0; i < 1000; i++)
		five(i, 0);
	struct trapline_stats stats = stats_of(event);
	assert_int_equal(stats.unread, SLOTS);
	assert_int_equal(stats.lost_ring_full, 1000 - SLOTS);
	is_balanced(&stats);
	take_all(small);
	assert_int_equal(given, SLOTS);
	assert_int_equal(last_arg, SLOTS - 1);
	five(7, 0);
	take_all(small);
	assert_int_equal(given, 1);
	stats = stats_of(event);
	assert_int_equal(stats.unread, 0);
	is_balanced(&stats);
	trapline_event_close(event);
}

static void a_limit_counts_records_and_not_losses(void **state)
{
	struct trapline_event *event = record_if(small, "arg1 == 1", SLOTS + 50);

	for (uint64_t i = 0; i < 1000; i++)
		five(i, i & 1);
	take_all(small);
	assert_int_equal(given, SLOTS);
	for (uint64_t i = 0; i < 1000; i++)
		five(i, i & 1);
	take_all(small);
	assert_int_equal(given, 50);
	struct trapline_stats stats = stats_of(event);
	assert_int_equal(stats.delivered, SLOTS + 50);
	is_balanced(&stats);
	trapline_event_close(event);
}

static void the_reader_may_disarm(void **state)
{
	struct trapline_event *event = record_if(target, "hits % 2 == 0", 0);

	five(1, 0);
	five(2, 0);
	given = 0;
	answer = TRAPLINE_DISARM;
	assert_int_equal(trapline_poll(target, 1000, take), 1);
	assert_int_equal(last_arg, 2);
	for (uint64_t i = 0; i < 10; i++)
		five(i, 0);
	take_all(target);
	assert_int_equal(given, 0);
	trapline_event_enable(event);
	five(3, 0);
	five(4, 0);
	take_all(target);
	assert_int_equal(given, 1);
	trapline_event_close(event);
}

static void records_of_a_closed_event_are_not_given(void **state)
{
	struct trapline_event *event = record_if(target, NULL, 0);
	struct trapline_event *other;

	five(1, 0);
	five(2, 0);
	trapline_event_close(event);
	other = record_if(target, NULL, 0);
	five(3, 0);
	take_all(target);
	assert_int_equal(given, 1);
	assert_int_equal(last_arg, 3);
	trapline_event_close(other);
	five(4, 0);
	take_all(target);
	assert_int_equal(given, 0);
}

static void a_descriptor_tells_of_records(void **state)
{
	struct pollfd fd = { .events = POLLIN };

	assert_int_equal(trapline_fd(target), -ENODATA);
	struct trapline_event *event = record_if(target, NULL, 0);
	fd.fd = trapline_fd(target);
	assert_true(fd.fd >= 0);
	five(1, 0);
	assert_int_equal(poll(&fd, 1, 5000), 1);
	take_all(target);
	assert_int_equal(given, 1);
	trapline_event_close(event);
}

static void what_needs_a_callback_is_refused(void **state)
{
	struct trapline_event *event = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.stack_depth = 4;
	assert_int_equal(trapline_probe(target, ADDR(five), &opts, &event), -EINVAL);
	opts.stack_depth = 0;
	opts.flags = TRAPLINE_STACK_BYTES;
	assert_int_equal(trapline_probe(target, ADDR(five), &opts, &event), -EINVAL);
	assert_null(event);
}

/* The flags of the argument, as they are behind the site. */
uint64_t through_flags(uint64_t flags);
extern const char through_site[];
__asm__(".text\n.p2align 4\n.globl through_flags\nthrough_flags:\n"
	"push %rdi\n"
	"popfq\n"
	".globl through_site\nthrough_site: lea 0x11223344(%rdi), %rax\n"
	"pushfq\n"
	"pop %rax\n"
	"cld\n"
	"ret\n");

#define STATUS_FLAGS 0x8d5u
#define DIRECTION 0x400u

static void pass_all_flags(void)
{
	static const uint64_t flags[] = { 0x1, 0x4, 0x10, 0x40, 0x80, DIRECTION, 0x800 };

	for (uint32_t set = 0; set < 1u << 7; set++) {
		uint64_t wanted = 0x202;

		for (uint32_t i = 0; i < 7; i++)
			wanted |= set >> i & 1 ? flags[i] : 0;
		assert_int_equal(through_flags(wanted) & (STATUS_FLAGS | DIRECTION),
				 wanted & (STATUS_FLAGS | DIRECTION));
	}
}

/* Machine code, the interpreter, a callback and a record: each leaves the flags in a way of its own. */
static void all_flags_come_through(void **state)
{
	static const char *const conditions[] = { "(arg0 & 3) * 5 == 99", "hits == 0", NULL, NULL };

	for (int i = 0; i < 4; i++) {
		struct trapline_condition *parsed = NULL;
		struct trapline_event *event = NULL;
		TRAPLINE_OPTS(event, opts);

		if (conditions[i])
			check(trapline_condition_parse(conditions[i], NULL, &parsed), "condition");
		opts.condition = parsed;
		opts.callback = i == 3 ? NULL : count;
		check(trapline_probe(target, ADDR(through_site), &opts, &event), "probe");
		trapline_condition_free(parsed);
		callbacks = 0;
		pass_all_flags();
		take_all(target);
		assert_int_equal(callbacks + given, i < 2 ? 0 : 128);
		trapline_event_close(event);
	}
}

/* The child's hits are nothing, and the parent's ring is its own. */
static void a_forked_child_writes_no_record(void **state)
{
	struct trapline_event *event = record_if(target, NULL, 0);
	pid_t child = fork();
	int status = 1;

	if (child == 0)
		_exit(five(1, 2) != 5);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	five(9, 0);
	take_all(target);
	assert_int_equal(given, 1);
	assert_int_equal(last_arg, 9);
	trapline_event_close(event);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define S(f) cmocka_unit_test_setup_teardown(f, open_small, close_small)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_hit_of_each_thread_is_a_record),	    S(what_finds_no_room_is_counted),
		S(a_limit_counts_records_and_not_losses),   T(the_reader_may_disarm),
		T(records_of_a_closed_event_are_not_given), T(a_descriptor_tells_of_records),
		T(what_needs_a_callback_is_refused),	    T(all_flags_come_through),
		T(a_forked_child_writes_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
