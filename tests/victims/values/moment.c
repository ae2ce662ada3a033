/* SPDX-License-Identifier: MIT */
/* moment.c - memory that says n while point(n) is called, and something else before and after. */
#include <stdio.h>

struct node {
	long seq;
	struct node *next;
	char text[16];
	const char *name;
	unsigned int low : 7;
};

struct holder {
	struct node *list;
};

struct pair {
	const char *name;
	long seq;
};

struct large {
	long seq;
	const char *name;
	long more[4];
};

long counter;
const char *volatile shown; /* the last one that is set: a word of the moment */
static struct node first;
static struct node second;
static struct holder holder = { &first };
static char word[24];
static char other[24];
static volatile long total;

/* The last two are on the stack. */
__attribute__((noinline)) static const char *point(long n, struct node *p, struct holder *h,
						   struct pair pair, const char *text, int a, int b,
						   const char *last, struct large large)
{
	total += n + p->seq + a + b + last[0] + large.seq + pair.seq + text[0]; /* the point */
	return h->list->name;
}

static void say(long n, const char *text)
{
	counter = n;
	first = (struct node){ .seq = n, .next = &second, .name = word, .low = n & 127 };
	second = (struct node){ .seq = n, .next = n < 0 ? NULL : &first, .name = word };
	snprintf(word, sizeof(word), text, n);
	snprintf(other, sizeof(other), text, n);
	snprintf(first.text, sizeof(first.text), text, n);
}

int main(void)
{
	for (long n = 0;; n++) {
		struct pair pair = { word, n };
		struct large large = { .seq = n, .name = other };
		say(n, "n%ld");
		shown = word;
		total += point(n, &first, &holder, pair, word, 1, 2, other, large)[0];
		say(-1, "after");
		shown = NULL;
		for (int i = 0; i < 20000; i++)
			total++;
	}
}
