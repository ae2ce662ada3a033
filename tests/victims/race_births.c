/* SPDX-License-Identifier: MIT */
/*
 * race_births.c - programs that create threads over and over, each of which lives for some
 * microseconds: MODE SECONDS. Modes that begin with right_ do the same and have no race.
 */
#include "race_common.h"

#include <semaphore.h>

struct account {
	long balance;
	long entries;
	pthread_mutex_t lock;
};

static long served;
static long served_atomic;
static struct account bank = { .lock = PTHREAD_MUTEX_INITIALIZER };
static char last_error[64];
static int is_right;
static sem_t may_begin;

static void lock(void)
{
	if (is_right)
		pthread_mutex_lock(&bank.lock);
}

static void unlock(void)
{
	if (is_right)
		pthread_mutex_unlock(&bank.lock);
}

static NOINLINE void count_request(void)
{
	lock();
	served++;
	unlock();
}

static NOINLINE void book(struct account *account, long amount)
{
	lock();
	account->balance += amount;
	account->entries++;
	unlock();
}

/* One access, at the end of a life that does something else. */
static void *serve(void *arg)
{
	work(3000);
	count_request();
	return NULL;
}

static void *serve_a_little(void *arg)
{
	work(300);
	count_request();
	return NULL;
}

static void *book_often(void *arg)
{
	for (int i = 0; i < 50; i++)
		book(arg, i);
	return NULL;
}

static NOINLINE void note_error(int number)
{
	lock();
	snprintf(last_error, sizeof(last_error), "request %d failed", number);
	unlock();
}

static void *fail(void *arg)
{
	work(500);
	note_error((int)(intptr_t)arg);
	return NULL;
}

/* Its own part of a result; the creator reads it after pthread_join(), which is right. */
static long parts[8];

static NOINLINE void add_part(int i)
{
	for (int n = 0; n < 100; n++)
		parts[i] += n;
}

static void *compute(void *arg)
{
	add_part((int)(intptr_t)arg);
	__atomic_add_fetch(&served_atomic, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void crew(void *(*run)(void *), void *arg, int n)
{
	pthread_t threads[8];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, run, arg ? arg : (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void pairs(void)
{
	crew(serve, NULL, 2);
}

static void short_pairs(void)
{
	crew(serve_a_little, NULL, 2);
}

static void crews(void)
{
	crew(serve, NULL, 8);
}

static void books(void)
{
	crew(book_often, &bank, 2);
}

static void errors(void)
{
	crew(fail, NULL, 3);
}

/* The creator takes part. */
static void with_creator(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, serve, NULL);
	work(2000);
	count_request();
	pthread_join(thread, NULL);
}

static void *serve_detached(void *arg)
{
	serve(arg);
	sem_post(&may_begin);
	return NULL;
}

/* As servers do: a thread a request, and nobody waits for it; eight at most. */
static void detached(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	sem_wait(&may_begin);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attr, serve_detached, NULL);
	pthread_attr_destroy(&attr);
}

static NOINLINE long sum_parts(void)
{
	long sum = 0;

	for (int i = 0; i < 4; i++)
		sum += parts[i];
	return sum;
}

static void joined(void)
{
	memset(parts, 0, sizeof(parts));
	crew(compute, NULL, 4);
	if (sum_parts() != 4 * 4950)
		abort();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "pairs", pairs },	{ "short_pairs", short_pairs },
		{ "crews", crews },	{ "books", books },
		{ "errors", errors },	{ "with_creator", with_creator },
		{ "detached", detached }, { "right_joined", joined },
	};
	const char *name = argc > 1 ? argv[1] : "";
	const char *seconds = argc > 2 ? argv[2] : "1";

	is_right = strncmp(name, "right_", 6) == 0;
	sem_init(&may_begin, 0, 8);
	end_ns = now_ns() + (uint64_t)(atof(seconds) * 1e9);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(name, modes[i].name) != 0 &&
		    !(is_right && !strcmp(name + 6, modes[i].name)))
			continue;
		long rounds = 0;
		for (; is_running(); rounds++)
			modes[i].run();
		for (int n = 0; n < 8; n++)
			sem_wait(&may_begin); /* none is under way */
		printf("%ld rounds\n", rounds);
		return 0;
	}
	return 2;
}
