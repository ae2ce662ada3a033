/* SPDX-License-Identifier: MIT */
/*
 * test_patch_arm64.c - functions are replaced at once on arm64, while threads run them; what needs
 * the stacks of threads is refused with the reason.
 */
#include "code_test.h"

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

static struct trapline_patch *patch_now(const struct trapline_patch_function *functions, size_t n)
{
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	opts.consistency = TRAPLINE_PATCH_IMMEDIATE;
	int err = trapline_patch(target, functions, n, &opts, &patch);
	if (err)
		fail_with(err, "patch");
	assert_int_equal(err, 0);
	return patch;
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

static bool stop;

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

static void what_cannot_be_patched_is_refused(void **state)
{
	struct trapline_patch_function function = FUNCTION(leaf);
	struct trapline_patch *second = NULL;
	char why[400] = "";
	TRAPLINE_OPTS(patch, opts);

	int err = trapline_patch(target, &function, 1, NULL, &second);
	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, -EOPNOTSUPP);
	assert_non_null(strstr(why, "TRAPLINE_PATCH_IMMEDIATE"));
	opts.consistency = TRAPLINE_PATCH_PER_THREAD;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &second), -EOPNOTSUPP);
	assert_int_equal(old_leaf(1), 2);
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
		TEST(what_cannot_be_patched_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
