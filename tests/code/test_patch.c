/* SPDX-License-Identifier: MIT */
/* test_patch.c - functions replaced while threads run them: each consistency, refusals, the way back. */
#include "probes.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <trapline/tools.h>

#include "../stress.h"

#define CODE_BYTES 64

__attribute__((noipa)) static int old_answer(int x)
{
	return x + 1;
}

__attribute__((noipa)) static int new_answer(int x)
{
	return x + 1000;
}

static struct trapline_patch_function answer_function(void)
{
	return (struct trapline_patch_function){ .name = "old_answer",
						 .old_address = ADDR(old_answer),
						 .new_address = ADDR(new_answer) };
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_function_is_replaced_and_comes_back_byte_for_byte,
						set_up, tear_down),
	};

	return cmocka_run_group_tests_name("patch", tests, NULL, NULL);
}
