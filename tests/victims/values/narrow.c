/* SPDX-License-Identifier: MIT */
/* narrow.c - pointers of a 32-bit program, next to other members and in an array. */
#include <stdio.h>
#include <unistd.h>

struct node {
	struct node *next;
	int hits;
} a, b;
char *words[4];

int main(void)
{
	for (int i = 1; i < 3000; i++) {
		a.next = i & 1 ? &b : &a;
		a.hits = i;
		words[2] = i & 1 ? "odd" : "even";
		puts("round");
		fflush(stdout);
		usleep(20000);
	}
}
