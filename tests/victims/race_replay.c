/* SPDX-License-Identifier: MIT */
/*
 * race_replay.c - one race, seldom hit, in builds that differ: MOVED has other code and lines before
 * it, MENDED takes a lock.
 */
#include "race_common.h"

#include <unistd.h>

static long level;
static long other;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#ifdef MOVED
/* Something that was not there before. */
static NOINLINE void moved_away(long v)
{
	for (long i = 0; i < v; i++)
		other += i * v;
	other ^= v;
}
#endif

static NOINLINE void level_store(long v)
{
#ifdef MENDED
	pthread_mutex_lock(&lock);
	level = v;
	pthread_mutex_unlock(&lock);
#else
	level = v;
#endif
}

static NOINLINE long level_load(void)
{
	long v;

#ifdef MENDED
	pthread_mutex_lock(&lock);
	v = level;
	pthread_mutex_unlock(&lock);
#else
	v = level;
#endif
	return v;
}

/* A race of its own, for a replay to leave alone. */
static NOINLINE void other_add(void)
{
	other++;
}

static void seldom(int thread)
{
	for (long n = 1; is_running(); n++) {
#ifdef MOVED
		moved_away(3);
#endif
		if (thread)
			level_store(n);
		else
			other = level_load();
		for (int i = 0; i < ROUND; i++) {
			other_add();
			work(20);
		}
		usleep(2000);
	}
}

static void elsewhere(int thread)
{
	while (is_running()) {
		other_add();
		usleep(100);
	}
}

/* By two threads, or by one: the environment decides. */
static void asked(int thread)
{
	const char *workers = getenv("WORKERS");

	while (is_running()) {
		if (!thread || (workers && !strcmp(workers, "2")))
			level_store(level_load() + 1);
		usleep(200);
	}
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "seldom", seldom, 2 },
		{ "elsewhere", elsewhere, 2 },
		{ "asked", asked, 2 },
	};

	(void)lock;
	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
