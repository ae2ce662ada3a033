/* SPDX-License-Identifier: MIT */
/* busy.c - calls a function and writes a variable without a pause, until it is killed; argv[1]: rounds. */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noipa))

volatile unsigned long total;

int pay(int cents);

NOINLINE int pay(int cents)
{
	__asm__ volatile("" ::: "memory");
	return cents + 1;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	for (unsigned long i = 0; !rounds || i < rounds; i++) {
		pay((int)(i % 1000));
		total++;
	}
	printf("%lu\n", total);
	return 0;
}
