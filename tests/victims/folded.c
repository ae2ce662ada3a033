/* SPDX-License-Identifier: MIT */
/* folded.c - two rules that are equal today, so that compilers and linkers keep one, and two names of one function. */
#include <stdio.h>
#include <unistd.h>

#define APART __attribute__((noinline))

APART int may_read(int uid, int level)
{
	return uid == 0 || level > 10 + uid % 3;
}

APART int may_write(int uid, int level)
{
	return uid == 0 || level > 10 + uid % 3;
}

APART int round_up(int n)
{
	return (n + 7) / 8 * 8 + getppid() * 0;
}

/* By intention. */
int round_up64(int n) __attribute__((alias("round_up")));
int align(int n) __attribute__((alias("round_up")));

int main(void)
{
	for (int i = 1;; i++) {
		int reads = may_read(i, 20);
		int writes = i % 4 == 0 ? may_write(i, 20) : -1;

		printf("%d %d %d\n", reads, writes, align(1) + round_up64(1) + round_up(i % 8 + 1));
		fflush(stdout);
		usleep(10000);
	}
}
