/* SPDX-License-Identifier: MIT */
/*
 * heap_chance.c - errors in some of many blocks, whose number is known. Prints it.
 *
 *	hot BLOCKS EVERY	one context; one in EVERY of its blocks is used after its free
 *	deep CONTEXTS NTH FILL	contexts of 16 blocks each; the NTH one of each is. Before each block FILL others are
 *	start EXPRESSIONS	many contexts at the start, then a rest, then an error in the first request
 *	forks CHILDREN EVERY	children that live for a moment; one in EVERY makes an error
 */
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPRESSIONS_MOST 64
#define BLOCKS_OF_CHILD 50
#define REST_US 500000
#define WARM_NS 500000000u
#define BLOCK_NS 250000u

static volatile char sink;

__attribute__((noinline)) static char *make(size_t bytes)
{
	char *p = malloc(bytes);

	p[0] = 1;
	return p;
}

__attribute__((noinline)) static void stale(const volatile char *p)
{
	sink = p[1];
}

static long hot(long blocks, long every)
{
	long errors = 0;

	for (long i = 1; i <= blocks; i++) {
		char *p = make(40);

		free(p);
		if (i % every)
			continue;
		stale(p);
		errors++;
	}
	return errors;
}

static void fill(long blocks)
{
	for (long i = 0; i < blocks; i++)
		free(make(24));
}

__attribute__((noinline)) static void block(long depth, int is_error)
{
	if (depth) {
		block(depth - 1, is_error);
	} else {
		char *p = malloc(40);

		p[0] = 1;
		free(p);
		if (is_error)
			stale(p);
	}
	sink = 0; /* it is no loop */
}

/* CPU time without allocations, from which the budget follows. */
static void work(uint64_t ns)
{
	struct timespec now;
	uint64_t end = 0;

	do {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
		uint64_t at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		end = end ? end : at + ns;
		ns = at < end;
	} while (ns);
}

static long deep(long contexts, long nth, long filler)
{
	work(WARM_NS);
	for (long n = 1; n <= 16; n++)
		for (long i = 0; i < contexts; i++) {
			work(BLOCK_NS);
			fill(filler);
			block(i, n == nth);
		}
	return contexts;
}

__attribute__((noinline)) static void drop(char *header)
{
	free(header);
}

__attribute__((noinline)) static void request(const char *name)
{
	char *header = strdup(name);

	drop(header);
	stale(header);
}

static long start(int count)
{
	static regex_t directives[EXPRESSIONS_MOST];
	char text[200];

	for (int i = 0; i < count && i < EXPRESSIONS_MOST; i++) {
		snprintf(text, sizeof(text),
			 "^[[:space:]]*(directive%d)[[:space:]]+((\"[^\"]+\")|([0-9]+)|((on|off|yes|no)))$", i);
		if (regcomp(&directives[i], text, REG_EXTENDED | REG_ICASE))
			exit(2);
	}
	usleep(REST_US);
	request("connection");
	return 1;
}

static long forks(long children, long every)
{
	long errors = 0;

	for (long i = 1; i <= children; i++) {
		pid_t child = fork();

		if (!child) {
			fill(BLOCKS_OF_CHILD);
			if (i % every == 0)
				hot(1, 1);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		errors += i % every == 0;
	}
	return errors;
}

int main(int argc, char **argv)
{
	long numbers[3] = { 0, 0, 0 };
	long errors = 0;

	for (int i = 2; i < argc && i < 5; i++)
		numbers[i - 2] = atol(argv[i]);
	if (argc > 3 && !strcmp(argv[1], "hot"))
		errors = hot(numbers[0], numbers[1]);
	else if (argc > 4 && !strcmp(argv[1], "deep"))
		errors = deep(numbers[0], numbers[1], numbers[2]);
	else if (argc > 2 && !strcmp(argv[1], "start"))
		errors = start((int)numbers[0]);
	else if (argc > 3 && !strcmp(argv[1], "forks"))
		errors = forks(numbers[0], numbers[1]);
	printf("%ld\n", errors);
	return 0;
}
