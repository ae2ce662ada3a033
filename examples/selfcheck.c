/* SPDX-License-Identifier: MIT */
/*
 * selfcheck.c - a server that searches itself for data races while it serves. The
 * search costs at most 1 % of its time, so it can run in production. The counter of
 * requests is not locked: that is the race. With the argument `right` it is locked.
 *
 * The server ends after SECONDS, or soon after the first race. Each race is one line
 * of JSON on the standard output; `addr2line -e MODULE MODULE_OFFSET` prints the
 * source line of an access.
 *
 * Usage: selfcheck [SECONDS [right]]
 * Build: cc -O2 -g selfcheck.c $(pkg-config --cflags --libs trapline) -o selfcheck
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trapline/tools.h>

#define WORKERS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long requests;
static atomic_int stop;
static atomic_int races;
static int is_right;

static void on_race(void *arg, const struct trapline_race_report *report)
{
	printf("%s\n", report->json);
	races++;
}

/* About 2 us of work, and the counter. */
static void serve_request(void)
{
	for (volatile int i = 0; i < 1000; i++)
		;
	if (is_right)
		pthread_mutex_lock(&lock);
	requests++;
	if (is_right)
		pthread_mutex_unlock(&lock);
}

static void *worker(void *arg)
{
	while (!stop)
		serve_request();
	return NULL;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int begin_search(struct trapline **self, struct trapline_race **race)
{
	TRAPLINE_OPTS(race, opts);
	char text[256];

	opts.budget_ppm = 10000; /* 1 % */
	opts.report = on_race;
	int err = trapline_open(0, NULL, self);
	if (!err)
		err = trapline_race_start(*self, &opts, race);
	if (!err)
		return 0;
	trapline_explain(err, text, sizeof(text));
	fprintf(stderr, "selfcheck: %s\n", text);
	return err;
}

static void end_search(struct trapline *self, struct trapline_race *race)
{
	struct trapline_race_stats stats = {.size = sizeof(stats)};

	trapline_race_stats(race, &stats);
	trapline_race_stop(race);
	trapline_close(self);
	fprintf(stderr, "%llu accesses at %llu sites were stalled; cost: %.2f %% of the time\n",
		(unsigned long long)stats.stalls, (unsigned long long)stats.sites,
		stats.run_ns ? 100.0 * (double)stats.spent_ns / (double)stats.run_ns : 0.0);
}

int main(int argc, char **argv)
{
	double start = seconds();
	double end = start + (argc > 1 ? atof(argv[1]) : 10);
	struct timespec pause = {0, 10000000};
	struct trapline_race *race = NULL;
	struct trapline *self = NULL;
	pthread_t threads[WORKERS];

	is_right = argc > 2 && !strcmp(argv[2], "right");
	if (begin_search(&self, &race))
		return 1;
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	while (seconds() < end && (!races || seconds() < start + 2))
		nanosleep(&pause, NULL);
	stop = 1;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	end_search(self, race);
	printf("served %lu requests, %d races were reported\n", requests, (int)races);
	return 0;
}
