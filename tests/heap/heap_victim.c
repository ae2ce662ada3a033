// SPDX-License-Identifier: MIT
/*
 * heap_victim.c - one case, or all, each bad or good; then it says that it went on.
 *
 *	heap_victim list		a line for each case: what its report must say
 *	heap_victim bad|good NAME...	these cases
 *	heap_victim bad|good		all
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap_cases.h"

static const struct heap_case *const heap_tables[] = { heap_case_errors, heap_case_frees,
						       heap_case_calls, heap_case_cxx,
						       heap_case_right };

void heap_require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "heap_victim: it does not hold: %s\n", what);
	_exit(9);
}

static void list_case(const struct heap_case *c)
{
	if (c->kind)
		printf("%s %s %s %s %ld %ld %ld %c\n", c->name, c->kind,
		       c->access ? c->access : "-", c->grades, c->size, c->offset, c->block,
		       c->needs ? c->needs : '-');
}

static int is_named(const char *name, char **names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return 1;
	return 0;
}

/* glibc sees it, of a block that is not sampled. */
static void die_of_libc(const char *way)
{
	char *large = malloc(2000000);
	char *p = NULL;

	put(large, 'x');
	/* Where glibc has the size of a block. */
	put_long(large + 56, 0);
	if (!strcmp(way, "invalid"))
		free(hide(large + 64));
	for (int i = 0; i < 100000 && !strcmp(way, "double"); i++) {
		free(p);
		p = malloc(40);
		put(p, 'x');
	}
	free(hide(p));
	free(hide(p));
}

/* The bytes beside a block have changed, and no free() sees it. */
static void die(const char *way)
{
	if (!strcmp(way, "invalid") || !strcmp(way, "double"))
		die_of_libc(way);
	char *p = malloc(21);

	put(p + 24, 'x');
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "assert"))
		__assert_fail(way, __FILE__, __LINE__, __func__);
	if (!strcmp(way, "illegal"))
		__builtin_trap();
	if (!strcmp(way, "fault"))
		put((void *)(uintptr_t)8, 'x');
	_exit(3);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "die") && argc == 3)
		die(argv[2]);
	int list = !strcmp(argv[1], "list");
	int bad = !strcmp(argv[1], "bad");

	for (size_t t = 0; t < sizeof(heap_tables) / sizeof(*heap_tables); t++)
		for (const struct heap_case *c = heap_tables[t]; c->name; c++) {
			if (list)
				list_case(c);
			else if (argc == 2 || is_named(c->name, argv + 2))
				c->run(bad);
		}
	if (!list)
		puts("went on");
	return 0;
}
