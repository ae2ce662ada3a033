/* SPDX-License-Identifier: MIT */
/* code_test.h - what tests of changed code use on each processor. */
#ifndef TESTS_CODE_CODE_TEST_H
#define TESTS_CODE_CODE_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <trapline/code.h>

#include "../stress.h"

#define ADDR(p) ((uint64_t)(uintptr_t)(p))

static inline struct trapline_code_stats read_stats(void)
{
	struct trapline_code_stats stats = { .size = sizeof(stats) };

	trapline_code_stats(&stats);
	return stats;
}

static inline void fail_with(int err, const char *what)
{
	char why[400];

	trapline_explain(err, why, sizeof(why));
	print_error("%s: %d: %s\n", what, err, why);
}

/* Skips by itself where poking is not possible at all. */
static inline void *code_or_skip(size_t bytes)
{
	void *code;
	int err = trapline_code_alloc(0, bytes, &code);

	if (err == -EOPNOTSUPP) {
		fail_with(err, "# SKIP");
		skip();
	}
	assert_int_equal(err, 0);
	return code;
}

static inline uint64_t seed_from_environment(void)
{
	const char *text = getenv("TRAPLINE_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)getpid() * 2654435761u;

	print_message("# TRAPLINE_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
