/* SPDX-License-Identifier: MIT */
/* patches.h - what the tests of patches share: an answer, and a function that threads sleep inside of. */
#ifndef TESTS_CODE_PATCHES_H
#define TESTS_CODE_PATCHES_H

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

__attribute__((noipa, unused)) static int old_answer(int x)
{
	return x + 1;
}

__attribute__((noipa, unused)) static int new_answer(int x)
{
	return x + 1000;
}

__attribute__((unused)) static struct trapline_patch_function answer_function(void)
{
	return (struct trapline_patch_function){ .name = "old_answer",
						 .old_address = ADDR(old_answer),
						 .new_address = ADDR(new_answer) };
}

static atomic_int must_stop;
static int inside_pipe[2];
static atomic_int is_inside;

__attribute__((noipa, unused)) static int old_sleeper(void)
{
	char byte;

	is_inside = 1;
	int got = (int)read(inside_pipe[0], &byte, 1);
	__asm__ volatile("" ::: "memory");
	return got + 4;
}

__attribute__((noipa, unused)) static int new_sleeper(void)
{
	return 7;
}

__attribute__((unused)) static void *sleep_inside(void *arg)
{
	return (void *)(intptr_t)old_sleeper();
}

__attribute__((unused)) static struct trapline_patch_function sleeper_function(void)
{
	return (struct trapline_patch_function){ .name = "old_sleeper",
						 .old_address = ADDR(old_sleeper),
						 .new_address = ADDR(new_sleeper) };
}

__attribute__((unused)) static pthread_t start_inside(void *(*run)(void *))
{
	pthread_t thread;

	is_inside = 0;
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	while (!is_inside)
		usleep(100);
	usleep(20000);
	return thread;
}

__attribute__((unused)) static void end_inside(pthread_t thread, int wanted)
{
	void *result;

	assert_int_equal(write(inside_pipe[1], "x", 1), 1);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, wanted);
}

#endif
