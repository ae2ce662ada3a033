/* SPDX-License-Identifier: MIT */
/* probes.h - what the tests of probes share: the target, functions to probe, callbacks that count. */
#ifndef TESTS_CODE_PROBES_H
#define TESTS_CODE_PROBES_H

#include "sites.h"

#include <ucontext.h>

#include <trapline/condition.h>

static struct trapline *target;
static volatile uint64_t callbacks;
__attribute__((unused)) static uint64_t last_ip;

__attribute__((unused)) static enum trapline_action count(const struct trapline_hit *hit)
{
	__atomic_fetch_add(&callbacks, 1, __ATOMIC_RELAXED);
	last_ip = hit->ip;
	return TRAPLINE_GO_ON;
}

__attribute__((unused)) static int set_up(void **state)
{
	callbacks = 0;
	return trapline_open(0, NULL, &target);
}

__attribute__((unused)) static int tear_down(void **state)
{
	trapline_close(target);
	return 0;
}

static void check(int err, const char *what)
{
	char text[300];

	if (!err)
		return;
	trapline_explain(err, text, sizeof(text));
	print_message("# %s: %d: %s\n", what, err, text);
	assert_int_equal(err, 0);
}

__attribute__((unused)) static struct trapline_event *probe_if(const void *function, const char *condition,
				       trapline_callback callback)
{
	struct trapline_event *event = NULL;
	struct trapline_condition *parsed = NULL;
	TRAPLINE_OPTS(event, opts);

	if (condition)
		check(trapline_condition_parse(condition, NULL, &parsed), condition);
	opts.callback = callback;
	opts.condition = parsed;
	check(trapline_probe(target, ADDR(function), &opts, &event), "probe");
	trapline_condition_free(parsed);
	return event;
}

__attribute__((unused)) static struct trapline_stats stats_of(struct trapline_event *event)
{
	struct trapline_stats stats = {.size = sizeof(stats)};

	check(trapline_event_stats(event, &stats), "stats");
	return stats;
}

__attribute__((noipa, unused)) static uint64_t five(uint64_t a, uint64_t b)
{
	return a * 3 + b;
}

/* A short first instruction: the jump ends in those behind it, where a debugger may put an int3. */
uint64_t pushes(uint64_t a);
__asm__(".text\n.p2align 4\n.globl pushes\npushes:\n"
	"push %rbp\n"
	"pushes_2: mov %rsp, %rbp\n"
	"pushes_3: push %rbx\n"
	"lea 3(%rdi), %rax\n"
	"pop %rbx\n"
	"pop %rbp\n"
	"ret\n");

#endif
