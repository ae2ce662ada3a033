/* SPDX-License-Identifier: MIT */
/* test_patch.c - functions replaced while threads run them: each consistency, refusals, the way back. */
#include "patches.h"

#include <sys/syscall.h>

static const uint32_t kinds[] = { TRAPLINE_PATCH_IMMEDIATE, TRAPLINE_PATCH_NO_THREAD_INSIDE,
				  TRAPLINE_PATCH_PER_THREAD };

static void a_function_is_replaced_and_comes_back_byte_for_byte(void **state)
{
	uint8_t before[CODE_BYTES];
	uint8_t after[CODE_BYTES];

	memcpy(before, (void *)old_answer, sizeof(before));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (int round = 0; round < 3; round++) {
			struct trapline_patch_function function = answer_function();
			struct trapline_patch *patch = NULL;
			TRAPLINE_OPTS(patch, opts);

			opts.consistency = kinds[i];
			assert_int_equal(old_answer(1), 2);
			check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
			assert_int_equal(old_answer(1), 1001);
			memcpy(after, (void *)old_answer, sizeof(after));
			assert_memory_not_equal(before, after, sizeof(before));
			check(trapline_patch_undo(patch, 0), "undo");
			assert_int_equal(old_answer(1), 2);
			memcpy(after, (void *)old_answer, sizeof(after));
			assert_memory_equal(before, after, sizeof(before));
		}
}

/* ---- two functions at one moment ---- */

__attribute__((noipa)) static int old_inner(void)
{
	return 1;
}

__attribute__((noipa)) static int new_inner(void)
{
	return 2;
}

/* Half of each would be 12 or 21. */
__attribute__((noipa)) static int old_outer(void)
{
	int inner = old_inner();

	__asm__ volatile("" ::: "memory");
	return 10 + inner;
}

__attribute__((noipa)) static int new_outer(void)
{
	int inner = old_inner();

	__asm__ volatile("" ::: "memory");
	return 20 + inner;
}

static const struct trapline_patch_function pair[] = {
	{ .name = "old_outer", .old_address = 0 },
	{ .name = "old_inner", .old_address = 0 },
};

static void fill_pair(struct trapline_patch_function *out)
{
	memcpy(out, pair, sizeof(pair));
	out[0].old_address = ADDR(old_outer);
	out[0].new_address = ADDR(new_outer);
	out[1].old_address = ADDR(old_inner);
	out[1].new_address = ADDR(new_inner);
}

static atomic_uint old_calls;
static atomic_uint new_calls;
static atomic_uint wrong_calls;

static void *call_flat_out(void *arg)
{
	while (!must_stop) {
		int result = old_outer();

		if (result == 11)
			old_calls++;
		else if (result == 22)
			new_calls++;
		else
			wrong_calls++;
	}
	return NULL;
}

static void swap_under_load(uint32_t consistency, unsigned int swaps)
{
	enum {
		THREADS = 16
	};
	pthread_t threads[THREADS];
	struct trapline_patch_function functions[2];
	uint8_t before[CODE_BYTES];
	uint64_t longest = 0;
	unsigned int timeouts = 0;

	fill_pair(functions);
	memcpy(before, (void *)old_outer, sizeof(before));
	must_stop = 0;
	old_calls = new_calls = wrong_calls = 0;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call_flat_out, NULL);
	for (unsigned int i = 0; i < swaps; i++) {
		struct trapline_patch_stats stats = { .size = sizeof(stats) };
		struct trapline_patch *patch = NULL;
		TRAPLINE_OPTS(patch, opts);
		int result;

		opts.consistency = consistency;
		opts.timeout_ns = 20000000000u;
		result = trapline_patch(target, functions, 2, &opts, &patch);
		check(result < 0 ? result : 0, "patch");
		while (result > 0)
			result = trapline_patch_wait(patch, 1000000000u);
		check(trapline_patch_stats(patch, &stats), "stats");
		assert_int_equal(stats.phase, TRAPLINE_PATCH_NEW);
		/* Now and then for so long that a call is seen. */
		for (unsigned int seen = new_calls; i % 8 == 0 && new_calls == seen;)
			usleep(100);
		longest = stats.longest_wait_ns > longest ? stats.longest_wait_ns : longest;
		while ((result = trapline_patch_undo(patch, opts.timeout_ns)) > 0)
			timeouts++;
		check(result, "undo");
	}
	must_stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	print_message("# %u swaps: %u old, %u new calls, longest wait %llu us, %u undone later\n",
		      swaps, old_calls, new_calls, (unsigned long long)longest / 1000, timeouts);
	assert_memory_equal(before, (void *)old_outer, sizeof(before));
	assert_true(old_calls > 0);
	assert_true(new_calls > 0);
}

static void each_call_is_old_or_new_with_no_thread_inside(void **state)
{
	swap_under_load(TRAPLINE_PATCH_NO_THREAD_INSIDE, scaled(100));
	assert_int_equal(wrong_calls, 0);
}

static void each_call_is_old_or_new_per_thread(void **state)
{
	swap_under_load(TRAPLINE_PATCH_PER_THREAD, scaled(100));
	assert_int_equal(wrong_calls, 0);
}

static void an_immediate_patch_mixes_calls_and_ends(void **state)
{
	swap_under_load(TRAPLINE_PATCH_IMMEDIATE, scaled(1000));
}

/* ---- threads inside ---- */

static void a_thread_asleep_inside_is_named(void **state)
{
	struct trapline_patch_function function = sleeper_function();
	struct trapline_patch *patch = NULL;
	uint8_t before[CODE_BYTES];
	char text[300];
	TRAPLINE_OPTS(patch, opts);

	memcpy(before, (void *)old_sleeper, sizeof(before));
	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(sleep_inside);
	opts.timeout_ns = 50000000;
	int err = trapline_patch(target, &function, 1, &opts, &patch);
	assert_int_equal(err, -ETIMEDOUT);
	trapline_explain(err, text, sizeof(text));
	print_message("# %s\n", text);
	assert_non_null(strstr(text, "is inside of old_sleeper: it is asleep in system call 0"));
	assert_memory_equal(before, (void *)old_sleeper, sizeof(before));
	end_inside(thread, 5);
	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	assert_int_equal(old_sleeper(), 7);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_memory_equal(before, (void *)old_sleeper, sizeof(before));
}

/* Its own instruction makes the system call: no return address on the stack is in it. */
__attribute__((noipa)) static long old_bare_sleeper(void)
{
	char byte;
	long got;

	is_inside = 1;
	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "a"(SYS_read), "D"(inside_pipe[0]), "S"(&byte), "d"(1)
			 : "rcx", "r11", "memory");
	return got + 4;
}

static void *sleep_bare(void *arg)
{
	return (void *)old_bare_sleeper();
}

static void a_thread_asleep_in_its_own_system_call_is_inside(void **state)
{
	struct trapline_patch_function function = { .name = "old_bare_sleeper",
						    .old_address = ADDR(old_bare_sleeper),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	char text[300];
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(sleep_bare);
	opts.timeout_ns = 50000000;
	int err = trapline_patch(target, &function, 1, &opts, &patch);
	assert_int_equal(err, -ETIMEDOUT);
	trapline_explain(err, text, sizeof(text));
	assert_non_null(strstr(text, "is inside of old_bare_sleeper"));
	end_inside(thread, 5);
	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	assert_int_equal(old_bare_sleeper(), 7);
	check(trapline_patch_undo(patch, 0), "undo");
}

/* The handler runs on a stack of its own: what it interrupted is inside. */
static void handle_inside(int sig)
{
	char byte;

	is_inside = 2;
	assert_int_equal(read(inside_pipe[0], &byte, 1), 1);
}

__attribute__((noipa)) static int old_raiser(void)
{
	is_inside = 1;
	int result = raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
	return result + 5;
}

static void *raise_on_other_stack(void *arg)
{
	static char memory[65536];
	const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
	struct sigaction action = { .sa_handler = handle_inside, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	return (void *)(intptr_t)old_raiser();
}

static void a_thread_on_its_signal_stack_is_inside(void **state)
{
	struct trapline_patch_function function = { .name = "old_raiser",
						    .old_address = ADDR(old_raiser),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(raise_on_other_stack);
	opts.timeout_ns = 50000000;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), -ETIMEDOUT);
	end_inside(thread, 5);
	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	check(trapline_patch_undo(patch, 0), "undo");
}

/* It runs all the time, and enters no gate: the clock finds it. */
__attribute__((noipa)) static int old_spinner(void)
{
	is_inside = 1;
	while (is_inside == 1)
		__asm__ volatile("" ::: "memory");
	return 5;
}

static void *spin_inside(void *arg)
{
	int result = old_spinner();

	is_inside = 3;
	while (is_inside == 3)
		__asm__ volatile("" ::: "memory");
	return (void *)(intptr_t)result;
}

static void a_thread_that_runs_is_found(void **state)
{
	struct trapline_patch_function function = { .name = "old_spinner",
						    .old_address = ADDR(old_spinner),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	char text[300];
	void *result;
	TRAPLINE_OPTS(patch, opts);

	pthread_t thread = start_inside(spin_inside);
	opts.timeout_ns = 200000000;
	int err = trapline_patch(target, &function, 1, &opts, &patch);
	assert_int_equal(err, -ETIMEDOUT);
	trapline_explain(err, text, sizeof(text));
	assert_non_null(strstr(text, "is inside of old_spinner: it is running"));
	is_inside = 2;
	opts.timeout_ns = 20000000000u;
	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	assert_int_equal(old_spinner(), 7);
	check(trapline_patch_undo(patch, opts.timeout_ns), "undo");
	is_inside = 0;
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, 5);
}

static void per_thread_stays_pending_and_goes_back(void **state)
{
	struct trapline_patch_function function = sleeper_function();
	struct trapline_patch_stats stats = { .size = sizeof(stats) };
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(sleep_inside);
	opts.consistency = TRAPLINE_PATCH_PER_THREAD;
	opts.timeout_ns = 50000000;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), 1);
	assert_int_equal(old_sleeper(), 7);
	check(trapline_patch_stats(patch, &stats), "stats");
	assert_int_equal(stats.phase, TRAPLINE_PATCH_TO_NEW);
	assert_int_equal(stats.threads_pending, 1);
	assert_int_equal(stats.pending_syscall, 0);
	assert_int_equal(trapline_patch_wait(patch, 10000000), 1);
	check(trapline_patch_undo(patch, 0), "undo while pending");
	end_inside(thread, 5);

	thread = start_inside(sleep_inside);
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), 1);
	end_inside(thread, 5);
	check(trapline_patch_wait(patch, 0), "wait");
	assert_int_equal(old_sleeper(), 7);
	check(trapline_patch_undo(patch, 0), "undo");
}

/* ---- hooks, refusals ---- */

static int before_result;
static int order;

static int hook_before(void *arg)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(old_answer(1));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 2);
	assert_int_equal(old_answer(1), 2);
	order = order * 10 + 1;
	return before_result;
}

static void hook_after(void *arg)
{
	assert_int_equal(old_answer(1), 1001);
	order = order * 10 + 2;
}

static void hooks_run_before_and_after(void **state)
{
	struct trapline_patch_function function = answer_function();
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	opts.before = hook_before;
	opts.after = hook_after;
	order = 0;
	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	assert_int_equal(order, 12);
	check(trapline_patch_undo(patch, 0), "undo");
	before_result = -ECANCELED;
	order = 0;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), -ECANCELED);
	assert_int_equal(order, 1);
	before_result = 17;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), 17);
	assert_int_equal(old_answer(1), 2);
}

int jumped_into(int x);
__asm__(".text\n.p2align 4\n.globl jumped_into\njumped_into: dec %edi\n"
	"jnz jumped_into\nmov $3, %eax\nret\n");
int linkage_stub(int x);
__asm__(".p2align 4\n.globl linkage_stub\nlinkage_stub: endbr64\njmp *1f(%rip)\n1: .quad 0\n");

static void refuse(struct trapline_patch_function second, int wanted, const char *why)
{
	struct trapline_patch_function functions[2] = { answer_function(), second };
	struct trapline_patch *patch = NULL;
	uint8_t before[CODE_BYTES];
	char text[300];
	size_t failed_at = 9;
	TRAPLINE_OPTS(patch, opts);

	memcpy(before, (void *)old_answer, sizeof(before));
	opts.failed = &failed_at;
	int err = trapline_patch(target, functions, 2, &opts, &patch);
	trapline_explain(err, text, sizeof(text));
	print_message("# %d: %s\n", err, text);
	assert_int_equal(err, wanted);
	assert_non_null(strstr(text, why));
	assert_int_equal(failed_at, 1);
	assert_null(patch);
	assert_memory_equal(before, (void *)old_answer, sizeof(before));
}

static void what_cannot_be_replaced_is_refused_and_nothing_is(void **state)
{
	const uint64_t to = ADDR(new_sleeper);

	refuse(answer_function(), -EBUSY, "patched already");
	refuse((struct trapline_patch_function){ .old_address = ADDR(jumped_into),
						 .old_bytes = 10,
						 .new_address = to },
	       -EOPNOTSUPP, "its own entry");
	refuse((struct trapline_patch_function){ .old_address = ADDR(linkage_stub),
						 .old_bytes = 10,
						 .new_address = to },
	       -EOPNOTSUPP, "PLT");
	refuse((struct trapline_patch_function){ .old_address = ADDR(old_inner),
						 .new_address = ADDR(&order),
						 .new_bytes = 4 },
	       -EINVAL, "executable");
	refuse((struct trapline_patch_function){ .old_address = 4096,
						 .old_bytes = 16,
						 .new_address = to },
	       -EFAULT, "not mapped");
	refuse((struct trapline_patch_function){ .old_address = ADDR(jumped_into),
						 .new_address = to },
	       -EINVAL, "unwind table");
}

__attribute__((noipa)) static int patches_itself(void)
{
	struct trapline_patch_function function = { .name = "patches_itself",
						    .old_address = ADDR(patches_itself),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);
	int err = trapline_patch(target, &function, 1, &opts, &patch);

	__asm__ volatile("" ::: "memory");
	return err;
}

static void a_thread_inside_cannot_patch(void **state)
{
	uint8_t before[CODE_BYTES];

	memcpy(before, (void *)patches_itself, sizeof(before));
	assert_int_equal(patches_itself(), -EDEADLK);
	assert_memory_equal(before, (void *)patches_itself, sizeof(before));
}

/* ---- fork ---- */

static void a_forked_child_keeps_its_patch(void **state)
{
	struct trapline_patch_function function = answer_function();
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);
	int status;

	check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
	pid_t child = fork();
	if (!child) {
		int bad = old_answer(1) != 1001;

		bad |= trapline_patch_undo(patch, 0) != 0;
		bad |= old_answer(1) != 2;
		_exit(bad);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(old_answer(1), 1001);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(old_answer(1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_function_is_replaced_and_comes_back_byte_for_byte,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_call_is_old_or_new_with_no_thread_inside,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_call_is_old_or_new_per_thread, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_immediate_patch_mixes_calls_and_ends, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_thread_asleep_inside_is_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_thread_asleep_in_its_own_system_call_is_inside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_thread_on_its_signal_stack_is_inside, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_thread_that_runs_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(per_thread_stays_pending_and_goes_back, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(hooks_run_before_and_after, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be_replaced_is_refused_and_nothing_is,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_thread_inside_cannot_patch, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_forked_child_keeps_its_patch, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("patch", tests, NULL, NULL);
}
