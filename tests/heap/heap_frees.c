// SPDX-License-Identifier: MIT
/* heap_frees.c - blocks that are freed twice, and what is freed and is not the start of a block. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "heap_cases.h"

static void twice(int bad)
{
	char *p = malloc(40);

	free(p);
	if (bad)
		free(hide(p));
}

/* With others in between, so that glibc's own check does not see it. */
static void twice_later(int bad)
{
	char *p = malloc(40);
	char *q = malloc(40);

	free(p);
	free(q);
	if (bad)
		free(hide(p));
}

static void twice_realloc(int bad)
{
	char *p = malloc(40);
	char *q = hide(p);

	free(p);
	if (bad)
		free(realloc(q, 60));
}

/* realloc() has freed it. */
static void twice_moved(int bad)
{
	char *p = malloc(40);
	char *q = hide(p);

	free(realloc(p, 30000));
	if (bad)
		free(q);
}

static void *twice_by(void *p)
{
	free(p);
	return NULL;
}

static void twice_thread(int bad)
{
	pthread_t thread;
	char *p = malloc(40);

	pthread_create(&thread, NULL, twice_by, hide(p));
	pthread_join(thread, NULL);
	if (bad)
		free(hide(p));
}

static void free_stack(int bad)
{
	long local[8] = { 0 };
	void *p = bad ? (void *)local : malloc(64);

	free(hide(p));
}

static long heap_data[8] = { 1 };
static long heap_bss[4096];

static void free_data(int bad)
{
	free(hide(bad ? (void *)heap_data : malloc(64)));
}

static void free_bss(int bad)
{
	free(hide(bad ? (void *)(heap_bss + 64) : malloc(64)));
}

static void free_literal(int bad)
{
	free(hide(bad ? (const void *)"a literal of the program" : malloc(64)));
}

static void free_code(int bad)
{
	free(hide(bad ? (const void *)free_code : malloc(64)));
}

static void free_middle(int bad)
{
	char *p = malloc(64);

	free((char *)hide(p) + 16 * bad);
	if (bad)
		free(p);
}

static void free_middle_odd(int bad)
{
	char *p = malloc(64);

	free((char *)hide(p) + 5 * bad);
	if (bad)
		free(p);
}

static void free_before(int bad)
{
	char *p = malloc(64);

	free((char *)hide(p) - 16 * bad);
	if (bad)
		free(p);
}

static void free_middle_realloc(int bad)
{
	char *p = malloc(64);
	char *q = realloc((char *)hide(p) + 16 * bad, 100);

	free(q);
	if (bad)
		free(p);
}

static void free_alloca(int bad)
{
	char *p = bad ? __builtin_alloca(64) : malloc(64);

	free(hide(p));
}

static void *free_stack_thread_in(void *arg)
{
	long local[8] = { 0 };

	free(hide(arg ? (void *)local : malloc(64)));
	return NULL;
}

static void free_stack_thread(int bad)
{
	pthread_t thread;

	pthread_create(&thread, NULL, free_stack_thread_in, bad ? "" : NULL);
	pthread_join(thread, NULL);
}

#define TWICE(n)                                                 \
	{                                                        \
#n, n, "double-free", NULL, "A", ANY, ANY, 40, 0 \
	}
#define INVALID(n, o, b)                                         \
	{                                                        \
#n, n, "invalid-free", NULL, "A", ANY, o, b, 'k' \
	}

const struct heap_case heap_case_frees[] = {
	TWICE(twice),
	TWICE(twice_later),
	TWICE(twice_realloc),
	TWICE(twice_moved),
	TWICE(twice_thread),
	INVALID(free_stack, ANY, ANY),
	INVALID(free_data, ANY, ANY),
	INVALID(free_bss, ANY, ANY),
	INVALID(free_literal, ANY, ANY),
	INVALID(free_code, ANY, ANY),
	INVALID(free_middle, 16, 64),
	INVALID(free_middle_odd, 5, 64),
	INVALID(free_before, ANY, ANY),
	INVALID(free_middle_realloc, 16, 64),
	INVALID(free_alloca, ANY, ANY),
	INVALID(free_stack_thread, ANY, ANY),
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 },
};
