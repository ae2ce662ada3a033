/* SPDX-License-Identifier: MIT */
/*
 * conditions_target.c - the program whose hits bench/conditions measures.
 *
 *   bench_conditions_target watch|break N TRUE_ON plain|floor|kernel|handler|probe
 *
 * Makes N hits once it is told to, and ends when its input does; round.h says what it says.
 * plain: somebody else watches. floor: it arms the bare hardware trap, which only counts.
 * kernel, handler: it watches itself with the library and the condition is evaluated there.
 * probe: by a jump in its code, and the condition is machine code.
 *
 * The clock runs over the first N - 1 hits, in batches. With TRUE_ON = N these are the rejected
 * ones.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trapline/code.h>
#include <trapline/condition.h>
#include <trapline/trapline.h>

#define ADDR(p) ((uint64_t)(uintptr_t)(p))
#define BATCHES 200 /* of some 0.3 ms each: a time slice is ten times longer */
#define FIRST_ARGUMENT 5 /* rdi, as DWARF numbers it */

void condition_site(uint64_t i);

static volatile uint64_t word __attribute__((aligned(64)));
static uint64_t hits;
static uint64_t true_on;
static int is_watch;
static volatile uint64_t true_count;
static volatile uint64_t true_value;

static int floor_fd = -1;
static struct trapline_event *event;

/* Begins as most functions do: a push is what a uprobe emulates. No compiler is sure to make one. */
__asm__(".text\n"
	".globl condition_site\n"
	".type condition_site, @function\n"
	"condition_site:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size condition_site, . - condition_site\n");

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void make_hits(uint64_t from, uint64_t to)
{
	if (is_watch)
		for (uint64_t i = from; i < to; i++)
			word = i;
	else
		for (uint64_t i = from; i < to; i++)
			condition_site(i);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The first hits - 1, by batches so short that other programs disturb a few of them only. */
static void time_hits(double *median_ns, double *mean_ns)
{
	uint64_t timed = hits - 1;
	uint64_t count = timed < BATCHES ? timed : BATCHES;
	double ns[BATCHES];
	double start = now_ns();
	double at = start;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t from = 1 + timed * i / count;
		uint64_t to = 1 + timed * (i + 1) / count;

		make_hits(from, to);
		double end = now_ns();

		ns[i] = (end - at) / (double)(to - from);
		at = end;
	}
	*mean_ns = (at - start) / (double)timed;
	qsort(ns, count, sizeof(ns[0]), compare);
	*median_ns = ns[count / 2];
}

static _Noreturn void skip(const char *what, int err)
{
	char why[512];

	trapline_explain(err, why, sizeof(why));
	why[strcspn(why, "\n")] = '\0';
	printf("skip %s: %s\n", what, why);
	exit(0);
}

/* Exactly what every hardware contender pays: no sample, no program, no signal. */
static void arm_floor(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = is_watch ? HW_BREAKPOINT_W : HW_BREAKPOINT_X,
		.bp_addr = is_watch ? ADDR(&word) : ADDR(condition_site),
		.bp_len = sizeof(long),
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	floor_fd =
		(int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (floor_fd < 0)
		skip("perf_event_open", -errno);
}

/* Called for the hits that the condition let through. */
static enum trapline_action on_true(const struct trapline_hit *hit)
{
	uint64_t value = hit->new_value;

	if (!is_watch && trapline_hit_register(hit, FIRST_ARGUMENT, &value) < 0)
		return TRAPLINE_GO_ON;
	true_value = value;
	true_count++;
	return TRAPLINE_GO_ON;
}

/* A figure of one mechanism must not stand for another. */
static void check_evaluated_in(enum trapline_evaluated wanted)
{
	struct trapline_stats stats = { .size = sizeof(stats) };

	if (trapline_event_stats(event, &stats) == 0 && stats.evaluated_in == wanted)
		return;
	printf("skip conditions are not decided in the %s here: see trapline check\n",
	       wanted == TRAPLINE_EVALUATED_IN_KERNEL  ? "kernel" :
	       wanted == TRAPLINE_EVALUATED_IN_HANDLER ? "handler" :
							 "code");
	exit(0);
}

static void watch_self(enum trapline_evaluated where)
{
	struct trapline_condition *condition;
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline *self;
	char text[64];

	snprintf(text, sizeof(text), "%s == %lu", is_watch ? "new" : "arg0",
		 (unsigned long)true_on);

	int err = trapline_condition_parse(text, NULL, &condition);

	if (err < 0)
		skip(text, err);
	open_opts.flags = where == TRAPLINE_EVALUATED_IN_KERNEL ? 0 : TRAPLINE_NO_BPF;
	opts.condition = condition;
	opts.callback = on_true;
	err = trapline_open(0, &open_opts, &self);
	if (err < 0)
		skip("trapline_open", err);
	if (is_watch)
		err = trapline_watch(self, ADDR(&word), sizeof(word), TRAPLINE_WRITE,
				     &opts, &event);
	else if (where == TRAPLINE_EVALUATED_IN_CODE)
		err = trapline_probe(self, ADDR(condition_site), &opts, &event);
	else
		err = trapline_break(self, ADDR(condition_site), &opts, &event);
	if (err < 0)
		skip("arming", err);
	trapline_condition_free(condition);
	check_evaluated_in(where);
}

static void arm(const char *mode)
{
	if (strcmp(mode, "floor") == 0)
		arm_floor();
	else if (strcmp(mode, "plain") != 0)
		watch_self(strcmp(mode, "kernel") == 0 ? TRAPLINE_EVALUATED_IN_KERNEL :
			   strcmp(mode, "probe") == 0  ? TRAPLINE_EVALUATED_IN_CODE :
							 TRAPLINE_EVALUATED_IN_HANDLER);
}

static void tell(void)
{
	struct trapline_stats stats = { .size = sizeof(stats) };
	uint64_t taken;

	for (uint64_t i = 0; i < true_count; i++)
		printf("true %lu\n", (unsigned long)true_value);
	if (floor_fd >= 0 && read(floor_fd, &taken, sizeof(taken)) == sizeof(taken))
		printf("taken %lu\n", (unsigned long)taken);
	/* Machine code does not count what it rejects. */
	if (event != NULL && trapline_event_stats(event, &stats) == 0 &&
	    stats.evaluated_in != TRAPLINE_EVALUATED_IN_CODE)
		printf("taken %lu\n",
		       (unsigned long)(stats.rejected_condition + stats.delivered));
}

/* 1 when a line came, 0 at the end of the input. */
static int wait_for_line(void)
{
	char text[16];
	ssize_t n;

	do
		n = read(STDIN_FILENO, text, sizeof(text));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr,
			"usage: %s watch|break N TRUE_ON plain|floor|kernel|handler|probe\n",
			argv[0]);
		return 2;
	}
	setlinebuf(stdout);
	prctl(PR_SET_PTRACER,
	      PR_SET_PTRACER_ANY); /* the supervisors are not its parent */
	is_watch = strcmp(argv[1], "watch") == 0;
	hits = strtoull(argv[2], NULL, 10);
	true_on = strtoull(argv[3], NULL, 10);
	arm(argv[4]);
	printf("ready %d %#lx %#lx\n", getpid(), (unsigned long)ADDR(&word),
	       (unsigned long)ADDR(condition_site));
	if (!wait_for_line())
		return 0;

	double median_ns;
	double mean_ns;

	time_hits(&median_ns, &mean_ns);
	make_hits(hits, hits + 1);
	tell();
	printf("ns %.2f %.2f\n", median_ns, mean_ns);
	wait_for_line();
	return 0;
}
