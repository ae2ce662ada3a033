/* SPDX-License-Identifier: MIT */
/* A function called on a stack of ours, out of a handler on an alternate stack: the program cannot tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <cmocka.h>

#include "base/sent.h"
#include "base/sys.h"
#include "guest/stack_call.h"
#include "guest/stacks.h"

#define ALTERNATE_BYTES 65536u
#define PAINT 0x5a

static char *alternate;
static volatile int sent_came;
static volatile int sent_came_inside;
static volatile int is_inside;
static volatile int raised;
static volatile int raised_on_alternate;
static stack_t stack_inside;
static sigset_t mask_inside;
static uint32_t frames;
static uintptr_t handler_at;
static size_t used_below;

static int is_on(const void *at)
{
	return (uintptr_t)at - (uintptr_t)alternate < ALTERNATE_BYTES;
}

/* The program's own, as a profiler's: it overwrites what it stands on. */
static void on_sent(int signal)
{
	volatile char room[2048];

	memset((void *)room, signal, sizeof(room));
	sent_came++;
	sent_came_inside += is_inside;
}

/* Ours. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
	volatile char room[2048];

	(void)context;
	memset((void *)room, signal, sizeof(room));
	if (info->si_code <= 0) {
		if (!sent_waits(info))
			on_sent(signal);
		return;
	}
	raised++;
	raised_on_alternate += is_on((const void *)room);
}

static _Unwind_Reason_Code count(struct _Unwind_Context *context, void *arg)
{
	(void)context;
	(void)arg;
	frames++;
	return _URC_NO_REASON;
}

static void inside(void *arg)
{
	(void)arg;
	is_inside = 1;
	kill(getpid(), SIGALRM);
	kill(getpid(), SIGTRAP);
	kill(getpid(), SIGTRAP);
	__asm__ volatile("int3");
	sigaltstack(NULL, &stack_inside);
	sigprocmask(SIG_SETMASK, NULL, &mask_inside);
	frames = 0;
	_Unwind_Backtrace(count, NULL);
	is_inside = 0;
}

static char *own_stack;
static void *own_top(void)
{
	if (!own_stack)
		own_stack = mmap(NULL, STACKS_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return own_stack + STACKS_BYTES;
}

static void nothing(void *arg)
{
	(void)arg;
}

static size_t lowest_changed(const char *stack, const char *from)
{
	const char *at = stack;

	while (at < from && *at == PAINT)
		at++;
	return (size_t)(from - at);
}

__attribute__((noinline)) static void call_out(void (*call)(void *))
{
	volatile char here = 0;

	handler_at = (uintptr_t)__builtin_frame_address(0);
	stack_call(own_top(), STACKS_BYTES, call, (void *)&here);
	used_below = lowest_changed(alternate, (const char *)handler_at);
}

static void on_usr1(int signal)
{
	volatile char kept[256];

	memset((void *)kept, signal, sizeof(kept));
	call_out(inside);
	for (size_t i = 0; i < sizeof(kept); i++)
		assert_int_equal(kept[i], signal);
}

static void on_usr2(int signal)
{
	(void)signal;
	call_out(nothing);
}

static void act(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(signal, &action, NULL);
}

static void begin(int flags)
{
	const struct sigaction trap = { .sa_sigaction = on_trap,
					.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO };
	stack_t stack = { .ss_size = ALTERNATE_BYTES, .ss_flags = flags };

	if (!alternate)
		alternate = mmap(NULL, ALTERNATE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(alternate, PAINT, ALTERNATE_BYTES);
	stack.ss_sp = alternate;
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	sent_came = sent_came_inside = raised = raised_on_alternate = 0;
	own_top();
	act(SIGALRM, on_sent, SA_ONSTACK);
	act(SIGUSR1, on_usr1, SA_ONSTACK);
	act(SIGUSR2, on_usr2, SA_ONSTACK);
	sigaction(SIGTRAP, &trap, NULL);
}

static void assert_as_before(int flags)
{
	stack_t now;
	sigset_t mask;

	sigaltstack(NULL, &now);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	assert_ptr_equal(now.ss_sp, alternate);
	assert_int_equal(now.ss_size, ALTERNATE_BYTES);
	assert_int_equal(now.ss_flags, flags);
	assert_int_equal(sigismember(&mask, SIGALRM), 0);
	assert_int_equal(sigismember(&mask, SIGTRAP), 0);
}

static void signals_wait_and_come_once(void **state)
{
	(void)state;
	begin(0);
	raise(SIGUSR1);
	assert_int_equal(sent_came_inside, 0);
	/* SIGALRM, and of two SIGTRAP one. */
	assert_int_equal(sent_came, 2);
	assert_as_before(0);
}

static void what_code_raises_goes_on_below(void **state)
{
	(void)state;
	begin(0);
	raise(SIGUSR1);
	assert_int_equal(raised, 1);
	assert_int_equal(raised_on_alternate, 0);
	assert_true(stack_inside.ss_flags & SS_DISABLE);
	assert_int_equal(sigismember(&mask_inside, SIGALRM), 1);
	assert_int_equal(sigismember(&mask_inside, SIGSEGV), 0);
}

static void alternate_stack_that_is_not_in_use_stays(void **state)
{
	(void)state;
	begin(0);
	call_out(inside);
	assert_int_equal(stack_inside.ss_flags, 0);
	assert_ptr_equal(stack_inside.ss_sp, alternate);
	assert_int_equal(raised, 1);
	assert_int_equal(sent_came_inside, 0);
	assert_int_equal(sent_came, 2);
	assert_as_before(0);
}

static void stack_that_disarms_itself_is_armed_again(void **state)
{
	const int autodisarm = (int)(1u << 31);

	(void)state;
	begin(autodisarm);
	raise(SIGUSR1);
	assert_int_equal(sent_came_inside, 0);
	assert_int_equal(sent_came, 2);
	assert_as_before(autodisarm);
}

static void signal_that_is_blocked_stays_blocked(void **state)
{
	sigset_t set;
	sigset_t pending;

	(void)state;
	begin(0);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	assert_int_equal(sent_came, 1);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGALRM), 1);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	assert_int_equal(sent_came, 2);
}

static void no_more_of_the_stack_is_used_than_said(void **state)
{
	(void)state;
	begin(0);
	raise(SIGUSR2);
	print_message("# %zu of %u bytes\n", used_below, STACK_CALL_BYTES);
	assert_in_range(used_below, 1, STACK_CALL_BYTES);
}

static void unwinder_finds_the_way_back(void **state)
{
	(void)state;
	begin(0);
	raise(SIGUSR1);
	/* inside, run, stack_switch, stack_call, call_out, on_usr1, the signal, raise() and main at least. */
	assert_in_range(frames, 9, 64);
}

static void call_again(void *arg)
{
	stack_call(own_top(), STACKS_BYTES, inside, arg);
}

static void call_on_the_same_stack_is_plain(void **state)
{
	(void)state;
	begin(0);
	call_out(call_again);
	assert_int_equal(raised, 1);
	assert_int_equal(sent_came_inside, 0);
	assert_int_equal(sent_came, 2);
}

static uint32_t depth;

static void deeper(void *arg)
{
	depth++;
	if (stacks_call(deeper, arg))
		return;
	*(uint32_t *)arg = depth;
}

static void stacks_are_given_until_none_is_left(void **state)
{
	uint32_t most = 0;

	(void)state;
	assert_false(stacks_call(deeper, &most));
	assert_int_equal(depth, 0);
	assert_int_equal(stacks_start(), 0);
	for (int i = 0; i < 3; i++) {
		depth = most = 0;
		assert_true(stacks_call(deeper, &most));
		assert_int_equal(most, 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_wait_and_come_once),
		cmocka_unit_test(what_code_raises_goes_on_below),
		cmocka_unit_test(alternate_stack_that_is_not_in_use_stays),
		cmocka_unit_test(stack_that_disarms_itself_is_armed_again),
		cmocka_unit_test(signal_that_is_blocked_stays_blocked),
		cmocka_unit_test(no_more_of_the_stack_is_used_than_said),
		cmocka_unit_test(unwinder_finds_the_way_back),
		cmocka_unit_test(call_on_the_same_stack_is_plain),
		cmocka_unit_test(stacks_are_given_until_none_is_left),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
