/* SPDX-License-Identifier: MIT */
/* cost.c - see cost.h. */
#include "cli/observe/cost.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <trapline/code.h>
#include <trapline/condition.h>
#include <trapline/trapline.h>
#include <unistd.h>

#define ROUNDS 200
#define CALLS 200
#define DEADLINE_MS 1000

static int ns_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The kernel emulates the first instruction of the one at a uprobe, and not that of the other. */
void cost_emulated(void);
void cost_stepped(void);
#if defined(__x86_64__)
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "test %eax, %eax"
#else
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "cmp x0, x0"
#endif
#define FUNCTION(name, first)                                                                    \
	__asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name \
		":\n\t" first "\n\tret\n.size " #name ", . - " #name "\n")
FUNCTION(cost_emulated, FIRST_EMULATED);
FUNCTION(cost_stepped, FIRST_STEPPED);

static volatile uint64_t victim;

static void hit(enum cost_kind kind)
{
	if (kind == COST_WATCH)
		victim++;
	else
		(kind == COST_EMULATED ? cost_emulated : cost_stepped)();
}

static enum trapline_action ignore(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

static int arm_probe(struct trapline *t, enum cost_kind kind, struct trapline_event_opts *opts)
{
	char text[60];
	struct trapline_condition *never;
	struct trapline_event *event;

	if (kind == COST_PROBE_RECORD)
		return trapline_probe(t, (uintptr_t)cost_stepped, opts, &event);
	snprintf(text, sizeof(text), "%s",
		 kind == COST_PROBE_CODE ? "arg0 == 1 && arg0 == 2" : "hits == 0");
	if (kind == COST_PROBE_MEMORY)
		snprintf(text, sizeof(text), "*(u64 *)%#" PRIxPTR " == 1", (uintptr_t)&victim);
	int err = trapline_condition_parse(text, NULL, &never);
	if (err)
		return err;
	opts->flags = 0;
	opts->callback = ignore;
	opts->condition = never;
	err = trapline_probe(t, (uintptr_t)cost_stepped, opts, &event);
	trapline_condition_free(never);
	return err;
}

static bool is_probe(enum cost_kind kind)
{
	return kind >= COST_PROBE_CODE && kind <= COST_PROBE_RECORD;
}

/* *out: the target, if there is an event. */
static int arm(const struct observe_settings *set, enum cost_kind kind, struct trapline **out)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *t;
	uint64_t address = (uintptr_t)(kind == COST_EMULATED ? cost_emulated : cost_stepped);

	open_opts.flags = set->no_bpf ? TRAPLINE_NO_BPF : 0;
	opts.flags = set->stack ? TRAPLINE_STACK_BYTES : 0;
	int err = trapline_open(0, &open_opts, &t);
	if (err < 0)
		return err;
	*out = t;
	if (kind == COST_WATCH)
		return trapline_watch(t, (uintptr_t)&victim, sizeof(victim), TRAPLINE_WRITE, &opts,
				      &event);
	if (is_probe(kind))
		return arm_probe(t, kind, &opts);
	if (kind == COST_HARDWARE)
		return trapline_break(t, address, &opts, &event);
	opts.flags |= set->ret ? TRAPLINE_RETURNS : 0;
	return trapline_break_sites(t, &address, 1, &opts, &event);
}

/* Records make room for those of the next round, if there is a target. */
static double ns_of_calls(struct trapline *t)
{
	uint64_t took_ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		while (t && trapline_poll(t, 0, ignore) > 0)
			;
		uint64_t start = clock_now_ns();

		for (int k = 0; k < CALLS; k++)
			cost_stepped();
		took_ns[i] = clock_now_ns() - start;
	}
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), ns_compare);
	return (double)took_ns[ROUNDS / 2] / CALLS;
}

/* Some ns, which no clock shows at a single call: many calls, with and without. */
static double measure_probe(const struct observe_settings *set, enum cost_kind kind)
{
	double bare = ns_of_calls(NULL);
	struct trapline *t;

	if (arm(set, kind, &t) < 0)
		return -1;
	double with = ns_of_calls(kind == COST_PROBE_RECORD ? t : NULL);

	return with > bare ? with - bare : 0;
}

static double measure(const struct observe_settings *set, enum cost_kind kind)
{
	uint64_t took_ns[ROUNDS];
	struct trapline *t;

	if (is_probe(kind))
		return measure_probe(set, kind);
	if (arm(set, kind, &t) < 0)
		return -1;
	/* The median is stable although other programs run. */
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_now_ns();
		hit(kind);
		took_ns[i] = clock_now_ns() - start;
	}
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), ns_compare);
	return (double)took_ns[ROUNDS / 2];
}

double cost_ns(const struct observe_settings *set, enum cost_kind kind)
{
	double cost = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		cost = measure(set, kind);
		ssize_t unused = write(fds[1], &cost, sizeof(cost));
		(void)unused;
		_exit(0);
	}
	close(fds[1]);
	if (child > 0) {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };
		if (poll(&p, 1, DEADLINE_MS) != 1 ||
		    read(fds[0], &cost, sizeof(cost)) != sizeof(cost))
			cost = -1;
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
	return cost;
}
