/* SPDX-License-Identifier: MIT */
/* locals.c - variables of all kinds in one function, with relations between them that a test checks. */
#include <stdio.h>
#include <unistd.h>

struct point {
	int x;
	int y;
	double w;
	char tag[8];
	struct point *next;
};

static volatile long total;

static long work(int n, const char *name)
{
	long sum = n * 3;
	struct point p = { n, n + 1, n * 0.5, "tag", NULL };
	struct point *pp = &p;
	char text[16];
	int table[4] = { n, n + 1, n + 2, n + 3 };

	snprintf(text, sizeof(text), "t%d", n);
	p.next = pp;
	for (int i = 0; i < 2; i++) {
		long inner = sum + i;
		total += inner + table[i] + pp->x + text[0]; /* in the loop */
		if (i) {
			int sum = -n;
			total += sum; /* in the block */
		}
	}
	return sum + name[0]; /* at the end */
}

int main(int argc, char **argv)
{
	for (int n = 0;; n++) {
		total += work(n % 1000, argc > 1 ? argv[1] : "zebra");
		usleep(20000);
	}
}
