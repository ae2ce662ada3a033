/* SPDX-License-Identifier: MIT */
/*
 * compactor.c - a background thread that keeps to 20 % of a CPU, beside a thread
 * without a budget. The compactor pays between two blocks, where it does not own a
 * lock.
 *
 * Usage: compactor [SECONDS]
 * Build: cc -O2 compactor.c $(pkg-config --cflags --libs trapline) -o compactor
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <trapline/tools.h>

static atomic_int stop;

struct worker {
	struct trapline *self;
	double share; /* the part of a CPU that it used */
	unsigned long blocks;
};

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* About 100 us of work. */
static void compact_block(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

static int explain(int err)
{
	char text[256];

	if (!err)
		return 0;
	trapline_explain(err, text, sizeof(text));
	fprintf(stderr, "compactor: %s\n", text);
	return err;
}

static void *compact(void *arg)
{
	struct worker *w = arg;
	struct trapline_throttle *budget;
	TRAPLINE_OPTS(throttle, opts);
	double start = seconds(CLOCK_MONOTONIC);

	opts.counter = TRAPLINE_TASK_CLOCK;
	opts.per_second = 200000000;
	opts.scope = TRAPLINE_CALLER;
	if (explain(trapline_throttle(w->self, &opts, &budget)))
		return NULL;
	for (; !stop; w->blocks++) {
		compact_block();
		trapline_throttle_pay(budget);
	}
	w->share = seconds(CLOCK_THREAD_CPUTIME_ID) / (seconds(CLOCK_MONOTONIC) - start);
	trapline_throttle_end(budget);
	return NULL;
}

static void *serve(void *arg)
{
	struct worker *w = arg;
	double start = seconds(CLOCK_MONOTONIC);

	for (; !stop; w->blocks++)
		compact_block();
	w->share = seconds(CLOCK_THREAD_CPUTIME_ID) / (seconds(CLOCK_MONOTONIC) - start);
	return NULL;
}

int main(int argc, char **argv)
{
	double length = argc > 1 ? atof(argv[1]) : 2;
	struct timespec pause = {(time_t)length, (long)((length - (long)length) * 1e9)};
	struct worker compactor = {0};
	struct worker server = {0};
	pthread_t threads[2];

	if (explain(trapline_open(0, NULL, &compactor.self)))
		return 1;
	pthread_create(&threads[0], NULL, compact, &compactor);
	pthread_create(&threads[1], NULL, serve, &server);
	nanosleep(&pause, NULL);
	stop = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	trapline_close(compactor.self);
	printf("compactor: %4.1f %% of a CPU, %lu blocks\n", 100 * compactor.share,
	       compactor.blocks);
	printf("server:    %4.1f %% of a CPU, %lu blocks\n", 100 * server.share, server.blocks);
	return compactor.blocks == 0;
}
