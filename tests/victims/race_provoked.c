/* SPDX-License-Identifier: MIT */
/*
 * race_provoked.c MODE - fails only if a thread is stalled at the wrong moment: `assertion`, `hang`.
 * `mended` does not, however threads are stalled; `broken` fails always, `flaky` in one
 * of seven runs, by itself; `woken` looks as if it hung.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static pthread_barrier_t begin;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile long level; /* volatile: its stores stay */
static int is_done;
static int is_mended;

static void sleep_ms(long ms)
{
	struct timespec ts = { 0, ms * 1000000 };

	nanosleep(&ts, NULL);
}

static int get(void)
{
	return __atomic_load_n(&is_done, __ATOMIC_SEQ_CST);
}

static void set(void)
{
	__atomic_store_n(&is_done, 1, __ATOMIC_SEQ_CST);
}

static NOINLINE void level_store(void)
{
	level = 1;
}

static void *work(void *arg)
{
	pthread_barrier_wait(&begin);
	level_store();
	set();
	return NULL;
}

/* Between the look and the wait comes a store: who is stalled there sleeps through the signal. */
static void *wait_for_it(void *arg)
{
	pthread_barrier_wait(&begin);
	if (is_mended)
		pthread_mutex_lock(&lock);
	if (!get()) {
		level_store();
		if (!is_mended)
			pthread_mutex_lock(&lock);
		pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
	} else if (is_mended) {
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static sem_t woken;

static void on_alarm(int signal)
{
	sem_post(&woken);
}

/* All threads wait without a limit, until a signal comes. */
static void *wait_for_alarm(void *arg)
{
	sem_wait(&woken);
	return NULL;
}

static int be_woken(void)
{
	const struct itimerval later = { .it_value.tv_sec = 2 };
	pthread_t thread;

	sem_init(&woken, 0, 0);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &later, NULL);
	pthread_create(&thread, NULL, wait_for_alarm, NULL);
	pthread_join(thread, NULL);
	return 0;
}

static void *count(void *arg)
{
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&lock);
		level_store();
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

/* No stall plays a part in how it ends. */
static int be_flaky(void)
{
	unsigned char random = 0;
	pthread_t thread;

	pthread_create(&thread, NULL, count, NULL);
	count(NULL);
	pthread_join(thread, NULL);
	return getrandom(&random, 1, 0) == 1 && random < 37;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int is_assertion = !strcmp(mode, "assertion");
	pthread_t thread;

	if (!strcmp(mode, "broken"))
		return 3;
	if (!strcmp(mode, "flaky"))
		return be_flaky();
	if (!strcmp(mode, "woken"))
		return be_woken();
	is_mended = !strcmp(mode, "mended");
	pthread_barrier_init(&begin, NULL, 2);
	pthread_create(&thread, NULL, is_assertion ? work : wait_for_it, NULL);
	pthread_barrier_wait(&begin);
	sleep_ms(200);
	if (is_assertion) {
		if (!get())
			abort();
	} else {
		if (is_mended)
			pthread_mutex_lock(&lock);
		set();
		pthread_cond_signal(&changed);
		if (is_mended)
			pthread_mutex_unlock(&lock);
	}
	pthread_join(thread, NULL);
	return 0;
}
