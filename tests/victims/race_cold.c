/* SPDX-License-Identifier: MIT */
/*
 * race_cold.c - races in code that runs seldom, or once, where the others are busy with something
 * else; the same made right; and what a trap in the text must not break.
 */
#include "race_common.h"

#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long level;
static long sink[4][8];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void nap(long us)
{
	struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&ts, NULL);
}

static NOINLINE void level_store(long v)
{
	level = v;
}

static NOINLINE long level_load(void)
{
	return level;
}

static NOINLINE void level_add(void)
{
	level++;
}

/* Nine of ten million instructions have to do with something else. */
static NOINLINE void own_work(int thread, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		sink[thread][i & 3] += i;
		work(50);
	}
}

/* One access each, in an order that only a sleep makes; nothing else runs. */
static void by_sleep(int thread)
{
	if (thread) {
		nap(100000);
		sink[1][0] = level_load();
	} else {
		level_store(1);
	}
}

/* The time that most tests take for it. */
static void by_second(int thread)
{
	if (thread) {
		sleep(1);
		sink[1][0] = level_load();
	} else {
		level_store(1);
	}
}

/* As it was done before nanosleep(). */
static void by_select(int thread)
{
	struct timeval wait = { 0, 100000 };

	if (thread) {
		select(0, NULL, NULL, NULL, &wait);
		sink[1][0] = level_load();
	} else {
		level_store(1);
	}
}

static void right_by_sleep(int thread)
{
	if (thread)
		nap(100000);
	pthread_mutex_lock(&lock);
	if (thread)
		sink[1][0] = level_load();
	else
		level_store(1);
	pthread_mutex_unlock(&lock);
}

static void once_a_second(int thread)
{
	for (long n = 1; is_running(); n++) {
		if (thread) {
			nap(900000);
			level_store(n);
		} else {
			own_work(0, 100);
			sink[0][7] += level_load();
		}
	}
}

static void once_a_run(int thread)
{
	int is_done = 0;
	uint64_t start = now_ns();

	while (is_running()) {
		own_work(thread, 100);
		if (!thread)
			sink[0][7] += level_load();
		if (thread && !is_done && now_ns() - start > 20000000) {
			level_store(7);
			is_done = 1;
		}
	}
}

/* Both sides are rare: every few milliseconds. */
static void both_rare(int thread)
{
	while (is_running()) {
		own_work(thread, 2000 + thread * 900);
		level_add();
	}
}

static void at_the_end(int thread)
{
	uint64_t end = end_ns - 20000000;

	while (now_ns() < end)
		own_work(thread, 100);
	for (int i = 0; i < 400; i++) {
		level_add();
		own_work(thread, 100);
	}
}

static char image[256];

/* By a call of libc: the compiler does not know the length. */
static NOINLINE void image_store(int value, size_t n)
{
	char mine[sizeof(image)];

	memset(mine, value, sizeof(mine));
	memcpy(image, mine, n);
	sink[value & 3][6] += mine[n - 1];
}

/* Both are in libc for the time of a copy, once. */
static void copies(int thread)
{
	nap(5000 + thread * 100);
	image_store(thread + 1, sizeof(image) - (size_t)thread);
}

static void right_copies(int thread)
{
	nap(5000 + thread * 100);
	pthread_mutex_lock(&lock);
	image_store(thread + 1, sizeof(image) - (size_t)thread);
	pthread_mutex_unlock(&lock);
}

static void right_once_a_run(int thread)
{
	int is_done = 0;

	while (is_running()) {
		own_work(thread, 100);
		pthread_mutex_lock(&lock);
		if (!thread)
			sink[0][7] += level_load();
		else if (!is_done)
			level_store(7);
		pthread_mutex_unlock(&lock);
		is_done = 1;
	}
}

static void right_both_rare(int thread)
{
	while (is_running()) {
		own_work(thread, 2000 + thread * 900);
		pthread_mutex_lock(&lock);
		level_add();
		pthread_mutex_unlock(&lock);
	}
}

static void on_user_signal(int number)
{
	level_add();
}

/* A handler that runs while all other signals are blocked by the call that waits. */
static void right_waits(int thread)
{
	struct sigaction sa = { .sa_handler = on_user_signal };
	sigset_t all;

	if (!thread) {
		own_work(0, 100);
		for (int i = 0; i < 50; i++) {
			nap(2000);
			kill(getpid(), SIGUSR1);
		}
		nap(20000);
		kill(getpid(), SIGUSR1);
		return;
	}
	sigfillset(&sa.sa_mask);
	sigaction(SIGUSR1, &sa, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	sigdelset(&all, SIGUSR1);
	for (int i = 0; i < 5; i++)
		sigsuspend(&all);
}

/* A loop of few instructions, whatever the time: prints what it cost, in us of CPU. */
static void right_rounds(int thread)
{
	static double rows[2][100000];
	static pthread_barrier_t barrier;
	static int is_made;

	pthread_mutex_lock(&lock);
	if (!is_made)
		pthread_barrier_init(&barrier, NULL, 2);
	is_made = 1;
	pthread_mutex_unlock(&lock);
	for (int round = 0; round < 300; round++) {
		for (int i = 1; i < 99999; i++)
			rows[thread][i] = (rows[thread][i - 1] + rows[thread][i + 1] + 1) / 2;
		pthread_barrier_wait(&barrier);
	}
	if (!thread)
		printf("%ld\n", clock());
}

/* A child that has our memory until it calls exec. */
static void right_vfork(int thread)
{
	while (is_running()) {
		if (thread) {
			own_work(1, 100);
			continue;
		}
		pid_t pid = vfork();
		if (pid == 0) {
			own_work(0, 10);
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
}

/* Around libc, so that nobody can keep SIGTRAP out of it. */
static void block_raw(void)
{
	uint64_t all = ~0ull;
	register long bytes __asm__("r10") = sizeof(all);
	long result = SYS_rt_sigprocmask;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"((long)SIG_BLOCK), "S"(&all), "d"(NULL), "r"(bytes)
			 : "rcx", "r11", "memory");
}

static void blocked_raw(int thread)
{
	while (is_running())
		own_work(thread, 100);
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "once_a_second", once_a_second, 2 },
		{ "by_sleep", by_sleep, 2 },
		{ "by_second", by_second, 2 },
		{ "by_select", by_select, 2 },
		{ "right_by_sleep", right_by_sleep, 2 },
		{ "once_a_run", once_a_run, 2 },
		{ "both_rare", both_rare, 2 },
		{ "at_the_end", at_the_end, 2 },
		{ "copies", copies, 2 },
		{ "right_copies", right_copies, 2 },
		{ "right_once_a_run", right_once_a_run, 2 },
		{ "right_both_rare", right_both_rare, 2 },
		{ "right_waits", right_waits, 2 },
		{ "right_rounds", right_rounds, 2 },
		{ "right_vfork", right_vfork, 2 },
		{ "blocked_raw", blocked_raw, 2 },
	};

	if (argc > 1 && !strcmp(argv[1], "right_waits")) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
	}
	if (argc > 1 && !strcmp(argv[1], "blocked_raw"))
		block_raw();
	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
