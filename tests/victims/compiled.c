/* SPDX-License-Identifier: MIT */
/* compiled.c - a use after free in functions that compilers inline, or do not. */
#include <stdlib.h>

struct session {
	int id;
	struct session *next;
};

static volatile int total;

static struct session *new_session(int id)
{
	struct session *s = (struct session *)calloc(1, sizeof(*s));

	s->id = id;
	return s;
}

static void drop_session(struct session *s)
{
	free(s);
}

static int sum_of(const struct session *s)
{
	int sum = 0;

	for (; s; s = s->next)
		sum += s->id;
	return sum;
}

int main(void)
{
	for (int i = 0; i < 100; i++) {
		struct session *s = new_session(i);
		struct session *volatile kept = s;

		drop_session(s);
		if (i % 5 == 2)
			total += sum_of(kept);
	}
	return 0;
}
