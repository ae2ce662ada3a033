/* SPDX-License-Identifier: MIT */
/* test_patch_ways.c - ways into a patched function and out of it: gates, recursion, longjmp; records. */
#include "patches.h"

/* ---- ways in and out ---- */

static sigjmp_buf out_of_it;

__attribute__((noipa)) static int old_depth(int n)
{
	int deeper = n ? old_depth(n - 1) : 0;

	__asm__ volatile("" ::: "memory");
	return deeper + 1;
}

/* The new one leaves by a jump over the caller's frame. */
__attribute__((noipa)) static int new_depth(int n)
{
	siglongjmp(out_of_it, n + 1);
}

static void the_new_function_may_leave_by_longjmp(void **state)
{
	struct trapline_patch_function function = { .name = "old_depth",
						    .old_address = ADDR(old_depth),
						    .new_address = ADDR(new_depth) };
	struct trapline_patch *patch = NULL;

	assert_int_equal(old_depth(9), 10);
	check(trapline_patch(target, &function, 1, NULL, &patch), "patch");
	int left = sigsetjmp(out_of_it, 1);
	if (!left)
		old_depth(9);
	assert_int_equal(left, 10);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(old_depth(9), 10);
}

/* Recursion while a patch is pending: who is inside enters the old function again. */
__attribute__((noipa)) static int old_waiter(int n)
{
	char byte;

	is_inside = 1;
	if (n)
		assert_int_equal(read(inside_pipe[0], &byte, 1), 1);
	int rest = n ? old_waiter(n - 1) : 0;
	__asm__ volatile("" ::: "memory");
	return rest + 1;
}

__attribute__((noipa)) static int new_waiter(int n)
{
	return 100;
}

static void *wait_inside(void *arg)
{
	return (void *)(intptr_t)(old_waiter(1) * 1000 + old_waiter(0));
}

static void recursion_stays_old_and_the_next_call_is_new(void **state)
{
	struct trapline_patch_function function = { .name = "old_waiter",
						    .old_address = ADDR(old_waiter),
						    .new_address = ADDR(new_waiter) };
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(wait_inside);
	opts.consistency = TRAPLINE_PATCH_PER_THREAD;
	opts.timeout_ns = 20000000;
	assert_int_equal(trapline_patch(target, &function, 1, &opts, &patch), 1);
	end_inside(thread, 2100);
	check(trapline_patch_wait(patch, 0), "wait");
	check(trapline_patch_undo(patch, 0), "undo");
}

/* What a gate saves: all arguments, in registers of both kinds and on the stack, and the result. */
__attribute__((noipa)) static double old_many(int a, int b, int c, int d, int e, int f, int g,
					      double x, double y, double z)
{
	return a + b + c + d + e + f + g + x + y + z;
}

__attribute__((noipa)) static double new_many(int a, int b, int c, int d, int e, int f, int g,
					      double x, double y, double z)
{
	return -(a + b + c + d + e + f + g + x + y + z);
}

static atomic_uint wrong_sums;

static void *call_many(void *arg)
{
	while (!must_stop) {
		double sum = old_many(1, 2, 3, 4, 5, 6, 7, 0.5, 0.25, 0.125);

		wrong_sums += sum != 28.875 && sum != -28.875;
	}
	return NULL;
}

static void a_gate_keeps_all_arguments(void **state)
{
	struct trapline_patch_function functions[2] = {
		{ .old_address = ADDR(old_many), .new_address = ADDR(new_many) },
		{ .name = "old_sleeper",
		  .old_address = ADDR(old_sleeper),
		  .new_address = ADDR(new_sleeper) },
	};
	struct trapline_patch_stats stats = { .size = sizeof(stats) };
	struct trapline_patch *patch = NULL;
	pthread_t caller;
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	must_stop = 0;
	wrong_sums = 0;
	pthread_t thread = start_inside(sleep_inside);
	pthread_create(&caller, NULL, call_many, NULL);
	/* One thread is inside, so that the gates stand; both kinds of gate. */
	opts.timeout_ns = 100000000;
	assert_int_equal(trapline_patch(target, functions, 2, &opts, &patch), -ETIMEDOUT);
	opts.consistency = TRAPLINE_PATCH_PER_THREAD;
	assert_true(trapline_patch(target, functions, 2, &opts, &patch) > 0);
	check(trapline_patch_stats(patch, &stats), "stats");
	assert_true(stats.decided > 0);
	end_inside(thread, 5);
	must_stop = 1;
	pthread_join(caller, NULL);
	assert_int_equal(wrong_sums, 0);
	check(trapline_patch_undo(patch, 0), "undo");
}

/* ---- records ---- */

static int *old_counter;
TRAPLINE_PATCH("answer", new_answer);
TRAPLINE_PATCH_OLD(old_counter, "file.c:counter");
TRAPLINE_PATCH_FOR("program", "0123abcd");
extern const struct trapline_patch_record __start_trapline_patches[];
extern const struct trapline_patch_record __stop_trapline_patches[];

static void macros_make_records(void **state)
{
	const struct trapline_patch_record *record = __start_trapline_patches;
	uint32_t seen = 0;

	for (; record < __stop_trapline_patches; record++) {
		assert_int_equal(record->version, TRAPLINE_PATCH_RECORD_VERSION);
		assert_int_equal(record->bytes, sizeof(*record));
		seen |= 1u << record->kind;
		if (record->kind == TRAPLINE_PATCH_RECORD_FUNCTION)
			assert_ptr_equal(record->address, (void *)new_answer);
		if (record->kind == TRAPLINE_PATCH_RECORD_OLD)
			assert_ptr_equal(record->address, &old_counter);
		if (record->kind == TRAPLINE_PATCH_RECORD_FOR)
			assert_string_equal(record->text, "0123abcd");
	}
	assert_int_equal(seen, 1u << TRAPLINE_PATCH_RECORD_FUNCTION |
				       1u << TRAPLINE_PATCH_RECORD_OLD |
				       1u << TRAPLINE_PATCH_RECORD_FOR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_new_function_may_leave_by_longjmp, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(recursion_stays_old_and_the_next_call_is_new,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_gate_keeps_all_arguments, set_up, tear_down),
		cmocka_unit_test_setup_teardown(macros_make_records, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("patch_ways", tests, NULL, NULL);
}
