/* SPDX-License-Identifier: MIT */
/* test_handler.c - the handler meets itself, and code that a signal starts again. */
#include "common.h"

#include <pthread.h>
#include <sys/ioctl.h>

#include <trapline/condition.h>

#include "base/atomic.h"
#include "event/aim.h"
#include "event/event.h"
#include "event/table.h"
#include "trap/dispatch.h"

static volatile uint64_t word __attribute__((aligned(64)));

/* A watch on what the handler itself writes must not enter it again and again. */
static void hits_in_the_handler_end(void **state)
{
	struct rig first;
	struct rig second;

	require(BY_CALLBACK);
	require_each_watch_reported();
	rig_open(&first, BY_CALLBACK);
	rig_open(&second, BY_CALLBACK);
	rig_watch(&first, &word, NULL);
	rig_watch(&second, &first.event->delivered, NULL);
	for (int i = 0; i < 50; i++)
		word = (uint64_t)i;
	assert_int_equal(first.hits, 50);
	assert_int_equal(second.hits, 0);

	struct trapline_stats s = stats_of(second.event);

	/* Atomic stores of arm64 that no thread is taken past end the event, and that is counted. */
	const uint64_t taken = s.rseq_stops ? 1 : 50;

	assert_in_range(s.rseq_stops, 0, !ACCESS_DONE);
	assert_int_equal(s.taken, taken);
	assert_int_equal(s.delivered, 0);
	assert_int_equal(s.lost_merged, taken);
	trapline_event_close(second.event);
	trapline_event_close(first.event);
	close_target(second.target);
	close_target(first.target);
}

/* Writes over what the kernel notes for the handler, as hits of other threads do. */
struct writer {
	pthread_t thread;
	struct event_control *control;
	uint32_t is_ending;
};

static void *write_over(void *arg)
{
	struct writer *w = arg;

	while (!atomic_get(&w->is_ending))
		for (uint32_t i = 0; i < EVENT_NOTES; i++)
			atomic_set(&w->control->notes[i].key, UINT64_C(1));
	return NULL;
}

static uint64_t values_unknown;
static uint64_t values_wrong;

static enum trapline_action check_value(const struct trapline_hit *hit)
{
	values_unknown += !hit->old_known;
	values_wrong += hit->new_value != word || (hit->old_known && hit->old_value + 1 != word);
	return TRAPLINE_GO_ON;
}

static uint64_t count_replaced(int is_disturbed)
{
	struct writer writer = { .is_ending = 0 };
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	values_unknown = values_wrong = 0;
	word = 0;
	rig_open(&rig, BY_CALLBACK);
	opts.callback = check_value;
	TRAPLINE_OPTS(condition, condition_opts);
	struct trapline_condition *condition = NULL;
	expect_ok(trapline_condition_parse("new != 0", &condition_opts, &condition));
	opts.condition = condition;
	expect_ok(trapline_watch(rig.target, ADDR(&word), sizeof(word), TRAPLINE_WRITE, &opts,
				 &rig.event));
	if (!rig.event->control)
		skip_because("BPF programs that decide about signals");
	writer.control = rig.event->control;
	if (is_disturbed)
		assert_int_equal(pthread_create(&writer.thread, NULL, write_over, &writer), 0);
	for (uint64_t i = 1; i <= 2000; i++)
		word = i;
	atomic_set(&writer.is_ending, 1u);
	if (is_disturbed)
		pthread_join(writer.thread, NULL);
	struct trapline_stats s = stats_of(rig.event);
	/* The first one where a hit has the value before: 0. */
	assert_int_equal(s.delivered, 2000 - !ACCESS_DONE);
	assert_int_equal(values_wrong, 0);
	assert_int_equal(values_unknown, s.values_replaced);
	trapline_event_close(rig.event);
	trapline_condition_free(condition);
	close_target(rig.target);
	return s.values_replaced;
}

static void values_that_another_hit_replaced_are_counted(void **state)
{
	require(BY_CALLBACK);
	assert_int_equal(count_replaced(0), 0);
	assert_true(count_replaced(1) > 0);
}

#if defined(__x86_64__)

static volatile uint64_t commits;
static uint64_t aborts;

/* glibc registers the area of each thread; its offset from the thread pointer: */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Writes word inside a restartable sequence. Returns 0 when it never came to its end. */
static int run_sequence(uint64_t max_aborts)
{
	uint64_t left = max_aborts;
	uint64_t done = 0;

	__asm__ volatile(
		".pushsection trap_test_cs, \"aw\"\n"
		".balign 32\n"
		"10: .long 0, 0\n"
		".quad 1f, 2f - 1f, 4f\n"
		".popsection\n"
		"0: lea 10b(%%rip), %%rax\n"
		"mov %%rax, %%fs:8(%[area])\n"
		"1: incq %[word]\n"
		"nop\n"
		"incq %[commits]\n"
		"2: movq $1, %[done]\n"
		"jmp 5f\n"
		".byte 0x0f, 0xb9, 0x3d\n"
		".long 0x53053053\n"
		"4: decq %[left]\n"
		"jnz 0b\n"
		"5:\n"
		: [word] "+m"(word), [commits] "+m"(commits), [left] "+m"(left), [done] "+m"(done)
		: [area] "r"(__rseq_offset)
		: "rax", "memory", "cc");
	aborts = max_aborts - left;
	return done != 0;
}

static void restartable_sequence_is_let_go(void **state)
{
	struct rig rig;

	if (!&__rseq_size || !__rseq_size)
		skip_because("rseq registered by the C library (glibc 2.35)");
	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &word, NULL);
	assert_int_equal(run_sequence(1000), 1);
	assert_in_range(aborts, 60, 70);

	struct trapline_stats s = stats_of(rig.event);

	assert_int_equal(s.rseq_stops, 1);
	assert_int_equal(s.taken, aborts);
	word = 1; /* it is off now */
	assert_int_equal(rig.hits, s.delivered);
	rig_close(&rig);
}

/*
 * Two sequences that abort in turn. The abort handler of the first is at the beginning of a page: its
 * signature lies in the page before.
 */
#define SEQUENCE(descriptor, start, end, handler)             \
	".pushsection trap_test_cs, \"aw\"\n"                 \
	".balign 32\n" descriptor ": .long 0, 0\n"            \
	".quad " start ", " end " - " start ", " handler "\n" \
	".popsection\n"

static __attribute__((noinline, noclone)) int run_two_sequences(uint64_t max_aborts)
{
	uint64_t left = max_aborts;
	uint64_t done = 0;

	__asm__ volatile(SEQUENCE("two_cs", "two_start", "two_end", "two_abort") SEQUENCE(
				 "twin_cs", "twin_start", "twin_end",
				 "twin_abort") "two_begin: lea two_cs(%%rip), %%rax\n"
					       "mov %%rax, %%fs:8(%[area])\n"
					       "two_start: incq %[word]\n"
					       "nop\n"
					       "two_end: movq $1, %[done]\n"
					       "jmp 5f\n"
					       "twin_begin: lea twin_cs(%%rip), %%rax\n"
					       "mov %%rax, %%fs:8(%[area])\n"
					       "twin_start: incq %[word]\n"
					       "nop\n"
					       "twin_end: movq $1, %[done]\n"
					       "jmp 5f\n"
					       ".byte 0x0f, 0xb9, 0x3d\n"
					       ".long 0x53053053\n"
					       "twin_abort: decq %[left]\n"
					       "jnz two_begin\n"
					       "jmp 5f\n"
					       ".pushsection .text.two_pages, \"ax\", @progbits\n"
					       ".balign 4096\n"
					       ".skip 4096 - 7, 0x90\n"
					       ".byte 0x0f, 0xb9, 0x3d\n"
					       ".long 0x53053053\n"
					       "two_abort: decq %[left]\n"
					       "jnz twin_begin\n"
					       "jmp 5f\n"
					       ".popsection\n"
					       "5:\n"
			 : [word] "+m"(word), [left] "+r"(left), [done] "+r"(done)
			 : [area] "r"(__rseq_offset)
			 : "rax", "memory", "cc");
	aborts = max_aborts - left;
	return done != 0;
}

static void two_sequences_that_abort_in_turn_are_let_go(void **state)
{
	struct rig rig;

	if (!&__rseq_size || !__rseq_size)
		skip_because("rseq registered by the C library (glibc 2.35)");
	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &word, NULL);
	assert_int_equal(run_two_sequences(1000), 1);
	assert_in_range(aborts, 60, 70);
	assert_int_equal(stats_of(rig.event).rseq_stops, 1);
	rig_close(&rig);
}

/* Outside a sequence the same store goes on for ever. */
static void plain_loop_is_not_taken_for_a_sequence(void **state)
{
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &word, NULL);
	for (int i = 0; i < 500; i++)
		word = (uint64_t)i;
	assert_int_equal(stats_of(rig.event).rseq_stops, 0);
	expect_hits(&rig, 500);
	rig_close(&rig);
}

#endif

/* The clock of a search: a SIGTRAP that the kernel sends, and that says nothing of an event. */
static struct trapline_event *tick;
static uint32_t ticks_taken;
static uint32_t ends;
static int hold_fd;

static enum trapline_action on_tick(const struct trapline_hit *hit)
{
	ticks_taken++;
	return TRAPLINE_GO_ON;
}

/* Where the handler has just read trap_had_ticks; what the end of a search does to its clock. */
static void end_the_search(int sig, siginfo_t *info, void *context)
{
	ends++;
	ioctl(hold_fd, PERF_EVENT_IOC_DISABLE, 0);
	atomic_set(&trap_tick, (struct trapline_event *)NULL);
	event_pause(tick);
	event_let_go(tick);
}

static void start_ticks(void)
{
	tick = event_take();
	assert_non_null(tick);
	tick->callback = on_tick;
	tick->scope = TRAPLINE_PROCESS;
	tick->pid = tick->owner_pid = getpid();
	tick->flags = TRAPLINE_NO_VALUES;
	tick->access = TRAPLINE_AMOUNT;
	atomic_set(&tick->state, EVENT_LIVE);
	trap_had_ticks = 1;
	atomic_set(&trap_tick, tick);
	ticks_taken = ends = 0;
}

static void stop_ticks(void)
{
	atomic_set(&trap_tick, (struct trapline_event *)NULL);
	trap_had_ticks = 0;
	event_free(tick);
}

static void send_tick(void)
{
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = SI_KERNEL };

	assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGTRAP, &info), 0);
}

/* Traps in whoever reads trap_had_ticks, beside the library: its handler passes it on. */
static void hold_the_handler(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_RW,
		.bp_addr = ADDR(&trap_had_ticks),
		.bp_len = sizeof(trap_had_ticks),
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
	};

	hold_fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	assert_true(hold_fd >= 0);
}

/*
 * A search ended while a thread was between the event of a tick and its generation: it took that of
 * after, passed for a tick of now, and ran on memory that was being unmapped.
 */
static void tick_of_a_search_that_ends_is_dropped(void **state)
{
	const struct sigaction action = { .sa_sigaction = end_the_search, .sa_flags = SA_SIGINFO };
	struct sigaction old;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	rig_watch(&rig, &word, NULL); /* has the handler put in place */
	start_ticks();
	send_tick();
	send_tick();
	assert_int_equal(ticks_taken, 2);

	hold_the_handler();
	send_tick();
	close(hold_fd);
	assert_int_equal(ends, 1);
	assert_int_equal(ticks_taken, 2);
	send_tick();
	assert_int_equal(ticks_taken, 2);

	stop_ticks();
	rig_close(&rig);
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hits_in_the_handler_end),
		TEST(tick_of_a_search_that_ends_is_dropped),
		TEST(values_that_another_hit_replaced_are_counted),
#if defined(__x86_64__)
		TEST(restartable_sequence_is_let_go),
		TEST(two_sequences_that_abort_in_turn_are_let_go),
		TEST(plain_loop_is_not_taken_for_a_sequence),
#endif
	};

	return run_group(tests);
}
