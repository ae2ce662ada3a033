/* SPDX-License-Identifier: MIT */
/*
 * test_patch_arm64.c - functions are replaced on arm64 while threads run them: at once, and when no
 * thread is inside. A thread may be inside though its stack does not show it: x30 does.
 */
#include "code_test.h"

#include <sys/auxv.h>

#include <trapline/tools.h>

static struct trapline *target;

static int set_up(void **state)
{
	return trapline_open(0, NULL, &target);
}

static int tear_down(void **state)
{
	trapline_close(target);
	return 0;
}

#define PAIR(which, old_does, new_does)                         \
	__attribute__((noipa)) static long old_##which(long x)  \
	{                                                      \
		return old_does;                               \
	}                                                      \
	__attribute__((noipa)) static long new_##which(long x)  \
	{                                                      \
		return new_does;                               \
	}
PAIR(leaf, x + 1, x + 1000)
PAIR(branching, x > 5 ? x * 3 : x - 1, x > 5 ? 7 : 8)
PAIR(calling, old_leaf(x) * 2, new_leaf(x) * 4)

#define FUNCTION(which)                                                            \
	{                                                                         \
		.name = "old_" #which, .old_address = ADDR(old_##which),            \
		.new_address = ADDR(new_##which)                                   \
	}

static struct trapline_patch *patch_as(const struct trapline_patch_function *functions, size_t n,
				       uint32_t consistency)
{
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	opts.consistency = consistency;
	opts.timeout_ns = 60000000000u;
	int err = trapline_patch(target, functions, n, &opts, &patch);
	while (err > 0)
		err = trapline_patch_wait(patch, opts.timeout_ns);
	if (err)
		fail_with(err, "patch");
	assert_int_equal(err, 0);
	return patch;
}

static struct trapline_patch *patch_now(const struct trapline_patch_function *functions, size_t n)
{
	return patch_as(functions, n, TRAPLINE_PATCH_IMMEDIATE);
}

static void each_call_runs_the_new_function_until_it_is_undone(void **state)
{
	const struct trapline_patch_function functions[] = { FUNCTION(leaf), FUNCTION(branching),
							     FUNCTION(calling) };
	uint32_t before = *(const uint32_t *)(uintptr_t)old_branching;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(old_leaf(1), 2);
		assert_int_equal(old_branching(9), 27);
		assert_int_equal(old_calling(1), 4);
		struct trapline_patch *patch = patch_now(functions, 3);
		assert_int_equal(old_leaf(1), 1001);
		assert_int_equal(old_branching(9), 7);
		assert_int_equal(old_branching(2), 8);
		assert_int_equal(old_calling(1), 4004);
		assert_int_equal(trapline_patch_undo(patch, 0), 0);
	}
	assert_int_equal(old_calling(1), 4);
	assert_int_equal(*(const uint32_t *)(uintptr_t)old_branching, before);
}

static bool stop __attribute__((used));

static void *call_until_stopped(void *arg)
{
	uint64_t *calls = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long answer = old_branching(9);

		if (answer != 27 && answer != 7)
			_exit(3);
		__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void threads_run_one_or_the_other(void **state)
{
	const struct trapline_patch_function function = FUNCTION(branching);
	static uint64_t calls[2];
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, call_until_stopped, &calls[i]);
	for (unsigned int i = 0; i < scaled(1000); i++) {
		struct trapline_patch *patch = patch_now(&function, 1);

		assert_int_equal(old_branching(9), 7);
		assert_int_equal(trapline_patch_undo(patch, 0), 0);
		assert_int_equal(old_branching(9), 27);
		usleep(1000);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_true(calls[i] > 0);
	}
}

/* ---- with checks of threads ---- */

static const uint32_t checked[] = { TRAPLINE_PATCH_NO_THREAD_INSIDE, TRAPLINE_PATCH_PER_THREAD };

/* Where a probe is a trap: no gate fits. */
static void need_gates(void)
{
	if (getauxval(AT_HWCAP2) & 1ul << 23) {
		print_message("# the processor has SME\n");
		skip();
	}
}

/* Half of each would be 12 or 21. */
__attribute__((noipa)) static long old_inner(long x)
{
	return x;
}
__attribute__((noipa)) static long new_inner(long x)
{
	return x + 1;
}
__attribute__((noipa)) static long old_outer(long x)
{
	return 10 + old_inner(x);
}
__attribute__((noipa)) static long new_outer(long x)
{
	return 20 + old_inner(x);
}

static uint64_t answers[3]; /* old, new, a mixture */

static void *call_outer(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		const long answer = old_outer(1);

		__atomic_fetch_add(&answers[answer == 11 ? 0 : answer == 22 ? 1 : 2], 1,
				   __ATOMIC_RELAXED);
	}
	return NULL;
}

static void each_call_is_old_or_new(void **state)
{
	const struct trapline_patch_function both[] = { FUNCTION(outer), FUNCTION(inner) };
	pthread_t threads[3];

	need_gates();
	memset(answers, 0, sizeof(answers));
	stop = false;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, call_outer, NULL);
	for (unsigned int i = 0; i < 2 * scaled(250); i++) {
		struct trapline_patch *patch = patch_as(both, 2, checked[i % 2]);
		uint64_t before = __atomic_load_n(&answers[1], __ATOMIC_RELAXED);

		while (__atomic_load_n(&answers[1], __ATOMIC_RELAXED) == before)
			usleep(100);
		while (trapline_patch_undo(patch, 60000000000u) > 0)
			;
		assert_int_equal(old_outer(1), 11);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print_message("# %lu old, %lu new\n", answers[0], answers[1]);
	assert_true(answers[0] > 0 && answers[1] > 0);
	assert_int_equal(answers[2], 0);
}

/*
 * Functions that read a byte: by a function of the library, by syscall(), which leaves the return
 * address in x30, and by a system call of their own.
 */
static int inside_pipe[2];
static char byte __attribute__((used));

__attribute__((noipa)) static long old_reads(long x)
{
	return read((int)x, &byte, 1) + 4;
}
long old_calls(long x);
long old_bare(long x);
__asm__(".text\n.balign 16\n"
	".globl old_calls\n.type old_calls, %function\nold_calls:\n"
	".cfi_startproc\n"
	"stp x29, x30, [sp, #-16]!\n"
	".cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\n"
	"mov x1, x0\n"
	"mov x0, #63\n"
	"adrp x2, byte\n"
	"add x2, x2, :lo12:byte\n"
	"mov x3, #1\n"
	"bl syscall\n"
	"add x0, x0, #4\n"
	"ldp x29, x30, [sp], #16\n"
	".cfi_restore 30\n.cfi_restore 29\n.cfi_def_cfa_offset 0\n"
	"ret\n"
	".cfi_endproc\n.size old_calls, . - old_calls\n"
	".balign 16\n"
	".globl old_bare\n.type old_bare, %function\nold_bare:\n"
	".cfi_startproc\n"
	"adrp x1, byte\n"
	"add x1, x1, :lo12:byte\n"
	"mov x2, #1\n"
	"mov x8, #63\n"
	"svc #0\n"
	"add x0, x0, #4\n"
	"ret\n"
	".cfi_endproc\n.size old_bare, . - old_bare\n");
__attribute__((noipa)) static long new_reads(long x)
{
	return 7;
}

/* On a stack of its own: what the signal interrupted is inside. */
static void handle_inside(int sig)
{
	if (read(inside_pipe[0], &byte, 1) != 1)
		_exit(4);
}

__attribute__((noipa)) static long old_raises(long x)
{
	const size_t bytes = 65536; /* a mapping of its own: all of it is taken for the stack */
	void *stack = mmap(NULL, 3 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t alternate = { .ss_sp = (char *)stack + bytes, .ss_size = bytes };
	const struct sigaction action = { .sa_handler = handle_inside, .sa_flags = SA_ONSTACK };

	mprotect(alternate.ss_sp, bytes, PROT_READ | PROT_WRITE);
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	return raise(SIGUSR1) + 5;
}

struct sleeper {
	const char *name;
	long (*function)(long);
};

static pid_t sleeper_tid;

static void *sleep_inside(void *arg)
{
	const struct sleeper *sleeper = arg;

	__atomic_store_n(&sleeper_tid, gettid(), __ATOMIC_RELEASE);
	return (void *)sleeper->function(inside_pipe[0]);
}

/* Until it is in the system call to read. */
static pthread_t start_inside(const struct sleeper *sleeper)
{
	char path[64];
	char text[64] = "";
	pthread_t thread;

	sleeper_tid = 0;
	pthread_create(&thread, NULL, sleep_inside, (void *)(uintptr_t)sleeper);
	while (strncmp(text, "63 ", 3)) {
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall",
			 __atomic_load_n(&sleeper_tid, __ATOMIC_ACQUIRE));
		const int fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(fd);
	}
	return thread;
}

static void end_inside(pthread_t thread, long wanted)
{
	void *result;

	assert_int_equal(write(inside_pipe[1], "x", 1), 1);
	pthread_join(thread, &result);
	assert_int_equal((long)result, wanted);
}

static void expect_late(const struct trapline_patch_function *function, const char *what)
{
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);
	char why[400] = "";

	opts.timeout_ns = 300000000;
	const uint32_t before = *(const uint32_t *)(uintptr_t)function->old_address;
	int err = trapline_patch(target, function, 1, &opts, &patch);
	trapline_explain(err, why, sizeof(why));
	print_message("# %s\n", why);
	assert_int_equal(err, -ETIMEDOUT);
	assert_non_null(strstr(why, what));
	assert_int_equal(*(const uint32_t *)(uintptr_t)function->old_address, before);
}

static void a_sleeper_inside_is_waited_for(void **state)
{
	static const struct {
		struct sleeper sleeper;
		const char *what;
	} cases[] = {
		{ { "old_reads", old_reads }, "is inside of old_reads: it is asleep" },
		{ { "old_bare", old_bare }, "is inside of old_bare: it is asleep" },
		{ { "old_raises", old_raises }, "is inside of old_raises: it is asleep" },
		{ { "old_calls", old_calls }, "is not known to be outside of the functions" },
	};

	need_gates();
	assert_int_equal(pipe(inside_pipe), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct trapline_patch_function function = {
			.name = cases[i].sleeper.name,
			.old_address = ADDR(cases[i].sleeper.function),
			.new_address = ADDR(new_reads),
		};
		const pthread_t thread = start_inside(&cases[i].sleeper);

		expect_late(&function, cases[i].what);
		end_inside(thread, 5);
		struct trapline_patch *patch =
			patch_as(&function, 1, TRAPLINE_PATCH_NO_THREAD_INSIDE);
		assert_int_equal(cases[i].sleeper.function(inside_pipe[0]), 7);
		assert_int_equal(trapline_patch_undo(patch, 0), 0);
	}
}

static void a_sleeper_outside_delays_no_patch(void **state)
{
	static const struct sleeper sleeper = { "old_reads", old_reads };
	const struct trapline_patch_function function = FUNCTION(leaf);

	need_gates();
	const pthread_t thread = start_inside(&sleeper);
	for (size_t i = 0; i < 2; i++) {
		struct trapline_patch *patch = patch_as(&function, 1, checked[i]);

		assert_int_equal(old_leaf(1), 1001);
		assert_int_equal(trapline_patch_undo(patch, 0), 0);
	}
	end_inside(thread, 5);
}

/* A function that runs for long, and calls no other: only x30 has its return address. */
static uint64_t turns __attribute__((used));

__attribute__((noipa)) static long old_turns(long x)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
	return x;
}

/* The same without an unwind table. */
long blind_turns(long x);
__asm__(".text\n.balign 16\n.globl blind_turns\n.type blind_turns, %function\n"
	"blind_turns:\n"
	"adrp x1, stop\n"
	"add x1, x1, :lo12:stop\n"
	"adrp x2, turns\n"
	"add x2, x2, :lo12:turns\n"
	"1: ldr x3, [x2]\n"
	"add x3, x3, #1\n"
	"str x3, [x2]\n"
	"ldrb w3, [x1]\n"
	"cbz w3, 1b\n"
	"ret\n"
	".size blind_turns, . - blind_turns\n");

__attribute__((noipa)) static long old_waits(long x)
{
	return (x ? blind_turns(x) : old_turns(x)) + 1;
}
__attribute__((noipa)) static long new_waits(long x)
{
	return 7;
}

static void *turn(void *arg)
{
	return (void *)old_waits((intptr_t)arg);
}

static void a_runner_inside_is_found_by_its_register(void **state)
{
	const struct trapline_patch_function function = FUNCTION(waits);
	pthread_t thread;
	void *result;

	need_gates();
	for (intptr_t is_blind = 0; is_blind < 2; is_blind++) {
		stop = false;
		turns = 0;
		pthread_create(&thread, NULL, turn, (void *)is_blind);
		while (!__atomic_load_n(&turns, __ATOMIC_RELAXED))
			usleep(1000);
		expect_late(&function, "is inside of old_waits: it is running");
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		pthread_join(thread, &result);
		assert_int_equal((long)result, is_blind + 1);
	}
}

static void what_cannot_be_patched_is_refused(void **state)
{
	struct trapline_patch_function function = FUNCTION(leaf);
	struct trapline_patch *second = NULL;
	TRAPLINE_OPTS(patch, opts);

	struct trapline_patch *patch = patch_now(&function, 1);
	opts.consistency = TRAPLINE_PATCH_IMMEDIATE;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &second), -EBUSY);
	assert_int_equal(trapline_patch_undo(patch, 0), 0);
	function.old_address = ADDR(&function);
	function.old_bytes = 64;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &second), -EINVAL);
	assert_null(second);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_call_runs_the_new_function_until_it_is_undone),
		TEST(threads_run_one_or_the_other),
		TEST(each_call_is_old_or_new),
		TEST(a_sleeper_inside_is_waited_for),
		TEST(a_sleeper_outside_delays_no_patch),
		TEST(a_runner_inside_is_found_by_its_register),
		TEST(what_cannot_be_patched_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
