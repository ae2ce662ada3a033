/* SPDX-License-Identifier: MIT */
/*
 * judge.c - runs a submission in this process with a budget of work, and ends it when
 * the budget is used up.
 *
 * Where the processor can count instructions, the budget is a number of instructions,
 * and the verdict is the same on every run. Elsewhere the budget is CPU time. The
 * callback runs inside SIGTRAP, at the instruction that used up the budget, and
 * leaves by siglongjmp(). The submission finds the Nth prime.
 *
 * Usage: judge N
 * Build: cc -O2 judge.c $(pkg-config --cflags --libs trapline) -o judge
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <trapline/trapline.h>

#define BUDGET_INSTRUCTIONS 500000000
#define BUDGET_NS 200000000

static sigjmp_buf over;

static enum trapline_action end_of_budget(const struct trapline_hit *hit)
{
	trapline_hit_leave(hit);
	siglongjmp(over, 1);
}

static unsigned long nth_prime(unsigned long n)
{
	unsigned long candidate = 1;

	while (n) {
		unsigned long divisor = 2;
		candidate++;
		while (divisor * divisor <= candidate && candidate % divisor)
			divisor++;
		n -= divisor * divisor > candidate;
	}
	return candidate;
}

/* The budget of the calling thread. The limit of 1 means one hit, when it is used up. */
static int arm(struct trapline *self, struct trapline_event **budget,
	       const char *volatile *unit)
{
	TRAPLINE_OPTS(event, opts);

	opts.callback = end_of_budget;
	opts.scope = TRAPLINE_CALLER;
	opts.limit = 1;
	opts.period = BUDGET_INSTRUCTIONS;
	*unit = "instructions";
	int err = trapline_count(self, TRAPLINE_INSTRUCTIONS, &opts, budget);
	if (!err)
		return 0;
	opts.period = BUDGET_NS;
	*unit = "ns of CPU time";
	return trapline_count(self, TRAPLINE_TASK_CLOCK, &opts, budget);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
	struct trapline *self;
	struct trapline_event *budget;
	const char *volatile unit; /* volatile: siglongjmp() keeps its value */
	uint64_t used = 0;
	char text[256];
	int err = trapline_open(0, NULL, &self);

	if (!err)
		err = arm(self, &budget, &unit);
	if (err) {
		trapline_explain(err, text, sizeof(text));
		fprintf(stderr, "judge: %s\n", text);
		return 1;
	}
	if (!sigsetjmp(over, 1))
		printf("accepted: prime %lu is %lu\n", n, nth_prime(n));
	else
		printf("rejected: the budget is used up\n");
	trapline_event_read(budget, &used);
	printf("used: %lu %s\n", used, unit);
	trapline_close(self);
	return 0;
}
