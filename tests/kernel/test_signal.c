/* SPDX-License-Identifier: MIT */
/* test_signal.c - SIGTRAP: foreign ones, blocked ones, nested ones, and odd stacks. */
#include "crew.h"

#include <limits.h>

#if defined(__x86_64__)
#define BREAKPOINT_INSTRUCTION "int3"
#else
#define BREAKPOINT_INSTRUCTION "brk #0"
#endif

static volatile uint64_t word __attribute__((aligned(64)));
static _Atomic int foreign_signals;
static _Atomic int foreign_code;

static void on_foreign(int sig, siginfo_t *info, void *context)
{
	foreign_signals += context && sig == SIGTRAP;
	foreign_code = info->si_code;
}

static void on_plain(int sig)
{
	foreign_signals += sig == SIGTRAP;
}

/*
 * The library asks once who had SIGTRAP before it: each of these runs in a child that has not
 * opened any event yet.
 */
static struct rig *open_in_child(void)
{
	TRAPLINE_OPTS(event, opts);
	struct rig *rig = calloc(1, sizeof(*rig));

	opts.callback = rig_note;
	opts.arg = rig;
	if (trapline_open(0, NULL, &rig->target) ||
	    trapline_watch(rig->target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &rig->event))
		_exit(99);
	return rig;
}

static int foreign_to_siginfo(void *arg)
{
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);

	struct rig *rig = open_in_child();

	raise(SIGTRAP);
	if (foreign_signals != 1 || foreign_code != SI_TKILL || rig->hits)
		return 1;
	__asm__ volatile(BREAKPOINT_INSTRUCTION);
	if (foreign_signals != 2 || foreign_code <= 0 || rig->hits)
		return 2;
	store_many(&word, 10);
	if (foreign_signals != 2 || rig->hits != 10)
		return 3;
	trapline_close(rig->target);
	raise(SIGTRAP);
	store_many(&word, 10);
	return foreign_signals == 3 && rig->hits == 10 ? 0 : 4;
}

static int foreign_to_plain(void *arg)
{
	signal(SIGTRAP, on_plain);

	struct rig *rig = open_in_child();

	for (int i = 0; i < 5; i++) {
		raise(SIGTRAP);
		store(&word, 1);
	}
	return foreign_signals == 5 && rig->hits == 5 ? 0 : 1;
}

static int foreign_to_ignore(void *arg)
{
	signal(SIGTRAP, SIG_IGN);

	struct rig *rig = open_in_child();

	raise(SIGTRAP);
	store_many(&word, 4);
	return rig->hits == 4 ? 0 : 1;
}

static int foreign_to_default(void *arg)
{
	signal(SIGTRAP, SIG_DFL);

	struct rig *rig = open_in_child();

	store_many(&word, 4);
	if (rig->hits != 4)
		return 1;
	if (arg)
		__asm__ volatile(BREAKPOINT_INSTRUCTION);
	else
		raise(SIGTRAP);
	return 2;
}

static void foreign_signals_go_to_the_handler_before(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(foreign_to_siginfo, NULL), 0);
	expect_exit(status_of_child(foreign_to_plain, NULL), 0);
	expect_exit(status_of_child(foreign_to_ignore, NULL), 0);
}

static sigjmp_buf jumped;
static struct sigaction between;

static void on_jump(int sig)
{
	foreign_signals++;
	siglongjmp(jumped, 1);
}

/* As a second library does it: what is not its own goes to the handler before. */
static void on_between(int sig, siginfo_t *info, void *context)
{
	foreign_signals++;
	between.sa_sigaction(sig, info, context);
}

static void trap_once(int by_instruction)
{
	if (by_instruction)
		__asm__ volatile(BREAKPOINT_INSTRUCTION);
	else
		raise(SIGTRAP);
}

/* Installed after the first event, so that the one before ours is the default. */
static int foreign_to_jump(void *arg)
{
	struct sigaction action = {.sa_handler = on_jump};
	volatile int i;

	struct rig *first = open_in_child();
	sigaction(SIGTRAP, &action, NULL);
	struct rig *rig = open_in_child();
	for (i = 0; i < 20; i++)
		if (!sigsetjmp(jumped, 1))
			trap_once(i % 2);
	store_many(&word, 3);
	/* Both watch the word, and some processors report one of two. */
	return foreign_signals != 20 ? 1 : first->hits + rig->hits >= 3 ? 0 : 2;
}

static int foreign_to_the_one_before(void *arg)
{
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO};
	struct sigaction forward = {.sa_sigaction = on_between, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	open_in_child();
	sigaction(SIGTRAP, &forward, &between);
	open_in_child();
	for (int i = 0; i < 20; i++)
		raise(SIGTRAP);
	return foreign_signals == 40 ? 0 : foreign_signals;
}

static void handlers_that_jump_or_forward_get_each_signal(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(foreign_to_jump, NULL), 0);
	expect_exit(status_of_child(foreign_to_the_one_before, NULL), 0);
}

static void foreign_signals_kill_by_default(void **state)
{
	require(BY_CALLBACK);
	for (int i = 0; i < 2; i++) {
		int status = status_of_child(foreign_to_default, i ? (void *)state : NULL);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGTRAP);
	}
}

static void set_blocked(int how)
{
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(how, &trap, NULL);
}

static void hits_behind_a_blocked_signal_are_named(void **state)
{
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &word, NULL);
	set_blocked(SIG_BLOCK);
	store_many(&word, 5);
	assert_int_equal(rig.hits, 0);
	set_blocked(SIG_UNBLOCK);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, 5);
	assert_int_equal(s.delivered, 1);
	assert_int_equal(s.lost_merged, 4);
	assert_int_equal(s.async, 1);
	assert_int_equal(rig.seen[0].async, 1);
	store(&word, 1);
	assert_int_equal(rig.hits, 2);
	assert_int_equal(rig.seen[1].async, 0);
	rig_close(&rig);
}

static void blocked_signal_costs_no_record(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &word, NULL);
	set_blocked(SIG_BLOCK);
	store_many(&word, 5);
	set_blocked(SIG_UNBLOCK);
	expect_hits(&rig, 5);
	rig_close(&rig);
}

static enum trapline_action touch_twice(const struct trapline_hit *hit)
{
	rig_note(hit);
	store(&word, 1);
	store(&word, 2);
	return TRAPLINE_GO_ON;
}

static void hits_inside_the_callback_are_nested(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = touch_twice;
	rig_watch(&rig, &word, &opts);
	store_many(&word, 10);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, 30);
	assert_int_equal(s.delivered, 10);
	assert_int_equal(s.lost_nested, 20);
	rig_close(&rig);
}

static enum trapline_action look_at_sigaltstack(const struct trapline_hit *hit)
{
	stack_t now;

	if (sigaltstack(NULL, &now))
		abort();
	return rig_note(hit);
}

static void on_usr1(int sig)
{
	store_many(&word, 3);
}

static void *run_with_altstack(void *arg)
{
	stack_t stack = {.ss_size = 65536, .ss_sp = malloc(65536)};
	struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
	stack_t after;

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	store_many(&word, 2);
	pthread_kill(pthread_self(), SIGUSR1);
	store_many(&word, 2);
	sigaltstack(NULL, &after);

	bool is_same = after.ss_sp == stack.ss_sp && !(after.ss_flags & SS_ONSTACK);

	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	free(stack.ss_sp);
	return is_same ? NULL : arg;
}

static void alternate_stacks_are_left_alone(void **state)
{
	TRAPLINE_OPTS(event, opts);
	pthread_t thread;
	void *failed;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = look_at_sigaltstack;
	opts.stack_depth = 16;
	rig_watch(&rig, &word, &opts);
	assert_int_equal(pthread_create(&thread, NULL, run_with_altstack, &rig), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	expect_hits(&rig, 7);
	rig_close(&rig);
}

static void *write_ten(void *arg)
{
	store_many(&word, 10);
	return NULL;
}

static void *signal_itself(void *arg)
{
	raise(SIGUSR2);
	return NULL;
}

static int run_with_stack(size_t bytes, void *(*act)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, bytes);

	int err = pthread_create(&thread, &attr, act, NULL);

	pthread_attr_destroy(&attr);
	return err ? err : pthread_join(thread, NULL);
}

static int try_bare_signal(void *arg)
{
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO};

	sigaction(SIGUSR2, &action, NULL);
	return run_with_stack(*(size_t *)arg, signal_itself);
}

/* With wide registers PTHREAD_STACK_MIN takes no signal at all; ours needs a page more. */
static void tiny_stacks_are_enough(void **state)
{
	size_t bytes = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	struct rig rig;

	require(BY_CALLBACK);
	while (status_of_child(try_bare_signal, &bytes))
		bytes += 512;
	print_message("# a bare handler needs a stack of %zu bytes\n", bytes);
	for (uint32_t depth = 0; depth <= 64; depth += 32) {
		TRAPLINE_OPTS(event, opts);

		rig_open(&rig, BY_CALLBACK);
		opts.stack_depth = depth;
		rig_watch(&rig, &word, &opts);
		assert_int_equal(run_with_stack(bytes + 4096, write_ten), 0);
		expect_hits(&rig, 10);
		rig_close(&rig);
	}
}

static enum trapline_action leave_by_exit(const struct trapline_hit *hit)
{
	rig_note(hit);
	pthread_exit(NULL);
}

static void thread_may_exit_inside_the_callback(void **state)
{
	TRAPLINE_OPTS(event, opts);
	pthread_t thread;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = leave_by_exit;
	rig_watch(&rig, &word, &opts);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, write_ten, NULL), 0);
		pthread_join(thread, NULL);
	}
	expect_hits(&rig, 20);
	rig_close(&rig);
}

static sigjmp_buf way_out;

static enum trapline_action leave_by_jump(const struct trapline_hit *hit)
{
	rig_note(hit);
	trapline_hit_leave(hit);
	siglongjmp(way_out, 1);
}

static NOINLINE void jump_once(unsigned int extra_bytes)
{
	volatile char *room = __builtin_alloca(extra_bytes + 1);

	room[0] = 0;
	if (!sigsetjmp(way_out, 1))
		store(&word, 1);
}

static void callback_may_leave_by_siglongjmp(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = leave_by_jump;
	rig_watch(&rig, &word, &opts);
	/* Deeper each time: a stale note of the frame before must not count as nested. */
	for (unsigned int i = 0; i < 50; i++)
		jump_once(i * 512);
	expect_hits(&rig, 50);
	rig_close(&rig);
}

static enum trapline_action close_within(const struct trapline_hit *hit)
{
	rig_note(hit);
	trapline_event_close(hit->event);
	return TRAPLINE_GO_ON;
}

static void callback_may_close_its_event(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	for (int i = 0; i < 50; i++) {
		opts.callback = close_within;
		rig.hits = 0;
		rig_watch(&rig, &word, &opts);
		store_many(&word, 5);
		assert_int_equal(rig.hits, 1);
	}
	close_target(rig.target);
}

static void errno_is_untouched_by_hits(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.stack_depth = 16;
	opts.limit = 5;
	rig_watch(&rig, &word, &opts);
	for (int i = 0; i < 10; i++) {
		errno = 4711 + i;
		store(&word, 1);
		assert_int_equal(errno, 4711 + i);
	}
	expect_hits(&rig, 5);
	rig_close(&rig);
}

static void errno_may_be_watched(void **state)
{
	volatile int *where = &errno;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	rig_watch_range(&rig, where, sizeof(*where), TRAPLINE_READ_WRITE, NULL);
	for (int i = 0; i < 5; i++)
		*where = i;
	assert_int_equal(trapline_event_disable(rig.event), 0);
	assert_true(rig.hits >= 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(rig.seen[i].new_value, i);
	rig_close(&rig);
}

static void signal_stack_may_be_watched(void **state)
{
	for (uint64_t below = 256; below < 8192; below += 256) {
		struct rig rig;

		rig_open(&rig, BY_CALLBACK);
		rig_watch_range(&rig, (void *)((ADDR(&rig) & ~7ul) - below), 8,
				TRAPLINE_READ_WRITE, NULL);
		raise(SIGWINCH);
		assert_int_equal(trapline_event_disable(rig.event), 0);
		rig_close(&rig);
	}
}

static void library_memory_may_be_watched(void **state)
{
	struct rig outer;
	struct rig rig;

	rig_open(&outer, BY_CALLBACK);
	rig_watch(&outer, &word, NULL);
	rig_open(&rig, BY_CALLBACK);
	rig_watch_range(&rig, (void *)(ADDR(outer.event) & ~7ul), 24, TRAPLINE_READ_WRITE, NULL);
	store_many(&word, 10);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	assert_int_equal(rig_hits(&outer), 10);
	rig_close(&rig);
	rig_close(&outer);
}

static void two_events_on_one_word_name_their_loss(void **state)
{
	struct rig rigs[2];
	uint64_t delivered = 0;
	uint64_t merged = 0;

	require(MODE(state));
	require_each_watch_reported();
	for (int i = 0; i < 2; i++) {
		rig_open(&rigs[i], MODE(state));
		rig_watch(&rigs[i], &word, NULL);
	}
	store_many(&word, 10);
	for (int i = 0; i < 2; i++) {
		struct trapline_stats s = rig_stats(&rigs[i]);

		assert_int_equal(s.taken, 10);
		delivered += s.delivered;
		merged += s.lost_merged;
	}
	assert_int_equal(delivered + merged, 20);
	assert_true(delivered >= 10);
	if (rigs[0].mode != BY_CALLBACK)
		assert_int_equal(delivered, 20);
	rig_close(&rigs[0]);
	rig_close(&rigs[1]);
}

#if defined(__x86_64__)

#define TRAP_BRKPT_CODE 1 /* TRAP_BRKPT of <asm-generic/siginfo.h> */

/* As the kernel does it for a debug exception without a cause: si_addr is the pc; or off by that much. */
static NOINLINE void send_lost_cause(long off)
{
	siginfo_t info = {.si_signo = SIGTRAP, .si_code = TRAP_BRKPT_CODE };
	long number = SYS_rt_tgsigqueueinfo;
	long pid = getpid();
	long tid = gettid();
	register siginfo_t *fourth __asm__("r10") = &info;

	__asm__ volatile("leaq 1f(%%rip), %%r11\n\t"
			 "addq %[off], %%r11\n\t"
			 "movq %%r11, %[address]\n\t"
			 "syscall\n"
			 "1:"
			 : "+a"(number), [address] "=m"(info.si_addr)
			 : [off] "r"(off), "D"(pid), "S"(tid),
			   "d"((long)SIGTRAP), "r"(fourth)
			 : "rcx", "r11", "memory");
}

static int lost_causes_do_not_kill(void *arg)
{
	signal(SIGTRAP, SIG_DFL);

	struct rig *rig = open_in_child();

	for (int i = 0; i < 3; i++)
		send_lost_cause(0);
	store_many(&word, 4);
	if (rig->hits != 4 || stats_of(rig->event).lost_causes != 3)
		return 1;
	trapline_close(rig->target);
	send_lost_cause(0); /* a thread can stand between the trap and its signal for long */
	return 0;
}

/* Nobody asked for a signal there. */
static int lost_causes_do_not_kill_readers(void *arg)
{
	TRAPLINE_OPTS(open, opts);
	struct trapline_event *event;
	struct trapline *target;

	signal(SIGTRAP, SIG_DFL);
	opts.flags = *(enum mode *)arg == BY_RING ? TRAPLINE_NO_BPF : 0;
	if (trapline_open(0, &opts, &target) ||
	    trapline_watch(target, ADDR(&word), 8, TRAPLINE_WRITE, NULL, &event))
		return 99;
	send_lost_cause(0);
	if (stats_of(event).lost_causes != 1)
		return 1;
	trapline_close(target);
	return 0;
}

static struct rig *open_with_foreign_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	return open_in_child();
}

static int what_the_program_sends_is_foreign(void *arg)
{
	struct rig *rig = open_with_foreign_handler();

	send_lost_cause(1);
	if (foreign_signals != 1 || foreign_code != TRAP_BRKPT_CODE)
		return 1;
	return stats_of(rig->event).lost_causes != 0;
}

static void a_trap_that_has_lost_its_cause_does_no_harm(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(lost_causes_do_not_kill, NULL), 0);
	expect_exit(status_of_child(what_the_program_sends_is_foreign, NULL), 0);
}

static int execute_int1(void *arg)
{
	signal(SIGTRAP, SIG_DFL);
	if (arg)
		open_in_child();
	__asm__ volatile(".byte 0xf1");
	return 1;
}

static int int1_is_foreign(void *arg)
{
	struct rig *rig = open_with_foreign_handler();

	__asm__ volatile(".byte 0xf1");
	if (foreign_signals != 1 || foreign_code != TRAP_BRKPT_CODE)
		return 1;
	return stats_of(rig->event).lost_causes != 0;
}

/* Its cause is before the pc. An emulated processor can have another exception for it, or none. */
static void int1_is_the_programs_own(void **state)
{
	int status = status_of_child(execute_int1, NULL);

	require(BY_CALLBACK);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP)
		skip_because("a processor that traps at INT1");
	expect_exit(status_of_child(int1_is_foreign, NULL), 0);
	status = status_of_child(execute_int1, state);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
}

static void nor_where_records_are_read(void **state)
{
	enum mode mode = MODE(state);

	require(mode);
	expect_exit(status_of_child(lost_causes_do_not_kill_readers, &mode), 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(foreign_signals_go_to_the_handler_before),
		TEST(handlers_that_jump_or_forward_get_each_signal),
		TEST(foreign_signals_kill_by_default),
#if defined(__x86_64__)
		TEST(a_trap_that_has_lost_its_cause_does_no_harm),
		TEST(int1_is_the_programs_own),
		TEST_RECORDS(nor_where_records_are_read),
#endif
		TEST(hits_behind_a_blocked_signal_are_named),
		TEST_RECORDS(blocked_signal_costs_no_record),
		TEST(hits_inside_the_callback_are_nested),
		TEST(alternate_stacks_are_left_alone),
		TEST(tiny_stacks_are_enough),
		TEST(thread_may_exit_inside_the_callback),
		TEST(callback_may_leave_by_siglongjmp),
		TEST(callback_may_close_its_event),
		TEST(errno_is_untouched_by_hits),
		TEST(errno_may_be_watched),
		TEST(signal_stack_may_be_watched),
		TEST(library_memory_may_be_watched),
		TEST_EACH_MODE(two_events_on_one_word_name_their_loss),
	};

	return run_group(tests);
}
