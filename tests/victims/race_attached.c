/* SPDX-License-Identifier: MIT */
/*
 * race_attached.c - programs that run when the search for races comes, and still when it has gone:
 * MODE on the command line. SIGTERM ends them; exit status 0 when nothing was disturbed.
 */
#include "race_common.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 2000
#define GUARDED 5000

static long shared_word;
static int is_over; /* atomic */
static long wrong;  /* atomic */
static int own_traps;

static int runs(void)
{
	return !__atomic_load_n(&is_over, __ATOMIC_RELAXED);
}

static void count_wrong(int is)
{
	if (is)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void on_term(int number)
{
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
}

static NOINLINE void increment(void)
{
	shared_word++;
}

static void *increment_on(void *arg)
{
	while (runs())
		increment();
	return NULL;
}

static void race_in_two_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, increment_on, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* All threads have all signals blocked. */
static void blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGTERM);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	race_in_two_threads();
}

static void *increment_for_a_while(void *arg)
{
	for (int i = 0; i < 20000; i++)
		increment();
	return NULL;
}

/* None of the threads that race was there when the search came. */
static void births(void)
{
	pthread_t threads[2];

	while (runs()) {
		for (int i = 0; i < 2; i++)
			count_wrong(pthread_create(&threads[i], NULL,
						   increment_for_a_while, NULL));
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
}

/* A value that threads write which are born while others are held. */
static pthread_mutex_t guarded_lock = PTHREAD_MUTEX_INITIALIZER;
static long guarded;

static void *add_guarded(void *arg)
{
	for (int i = 0; i < GUARDED; i++) {
		pthread_mutex_lock(&guarded_lock);
		guarded++;
		pthread_mutex_unlock(&guarded_lock);
	}
	return NULL;
}

static void right_births(void)
{
	pthread_t threads[4];
	long added = 0;

	while (runs()) {
		for (int i = 0; i < 4; i++)
			count_wrong(pthread_create(&threads[i], NULL, add_guarded, NULL));
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		added += 4 * GUARDED;
	}
	count_wrong(guarded != added);
}

static void *interruptible(void *arg)
{
	struct timespec pause = { 0, 1000000 };

	while (runs()) {
		increment();
		count_wrong(nanosleep(&pause, NULL) && runs());
		count_wrong(poll(NULL, 0, 1) < 0 && runs());
	}
	return NULL;
}

/* Calls that fail with EINTR when a handler runs inside them. */
static void interrupted(void)
{
	pthread_t threads[4];
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i < 2 ? interruptible : increment_on,
			       NULL);
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void on_own_trap(int number)
{
	__atomic_add_fetch(&own_traps, 1, __ATOMIC_RELAXED);
}

static void *trap_on(void *arg)
{
	long traps = 0;

	while (runs()) {
		__asm__ volatile("int3");
		raise(SIGTRAP);
		traps += 2;
		for (int i = 0; i < 10000; i++)
			increment();
	}
	return (void *)traps;
}

static void on_own_trap_slowly(int signal)
{
	on_own_trap(signal);
	usleep(5000);
}

/* A handler for SIGTRAP of its own gets its own traps and no others. */
static void trap_with(sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler };
	pthread_t threads[2];
	void *traps[2];

	sigaction(SIGTRAP, &action, NULL);
	pthread_create(&threads[0], NULL, trap_on, NULL);
	pthread_create(&threads[1], NULL, trap_on, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], &traps[i]);
	count_wrong((long)traps[0] + (long)traps[1] != own_traps);
}

static void own_sigtrap(void)
{
	trap_with(on_own_trap);
}

/* At almost any moment it is in its handler, where SIGTRAP is blocked for the moment. */
static void slow_sigtrap(void)
{
	trap_with(on_own_trap_slowly);
}

/* Children of a process whose threads run on: what is half done must not stay so in them. */
static void forks(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, increment_on, NULL);
	while (runs()) {
		int status = -1;
		pid_t child = fork();

		if (child == 0) {
			for (int i = 0; i < 1000; i++)
				increment();
			_exit(7);
		}
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		count_wrong(!WIFEXITED(status) || WEXITSTATUS(status) != 7);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void *add_with_lock(void *arg)
{
	while (runs())
		add_guarded(NULL);
	return NULL;
}

/* A lock that is held by a thread that is held. */
static void locks(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, add_with_lock, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	count_wrong(guarded % GUARDED != 0);
}

static void *mostly_wait(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	long *mine = malloc(64);

	while (runs()) {
		for (int i = 0; i < 100; i++)
			mine[i % 8] += i;
		/* Ten times as often, and two of these programs are more than two processors do. */
		usleep(200000 + seed % 17 * 10000);
	}
	free(mine);
	return NULL;
}

/* Two thousand threads, and two that race. */
static void many(void)
{
	static pthread_t threads[MANY];
	pthread_attr_t attr;
	int n = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (; n < MANY; n++)
		if (pthread_create(&threads[n], &attr, mostly_wait, (void *)(uintptr_t)n))
			break;
	count_wrong(n != MANY);
	race_in_two_threads();
	while (n--)
		pthread_join(threads[n], NULL);
}

/* Nothing runs: nobody is there to take the search away. */
static void *sleep_for_ever(void *arg)
{
	for (;;)
		syscall(SYS_pause);
	return NULL;
}

static void asleep(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleep_for_ever, NULL);
	while (runs())
		pause();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "busy", race_in_two_threads },
		{ "blocked", blocked },
		{ "births", births },
		{ "right_births", right_births },
		{ "interrupted", interrupted },
		{ "own_sigtrap", own_sigtrap },
		{ "slow_sigtrap", slow_sigtrap },
		{ "forks", forks },
		{ "locks", locks },
		{ "many", many },
		{ "asleep", asleep },
	};
	struct sigaction term = { .sa_handler = on_term };

	sigaction(SIGTERM, &term, NULL);
	alarm(argc > 2 ? (unsigned int)atoi(argv[2]) :
			 120); /* not left over by a test that failed */
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		modes[i].run();
		if (wrong)
			fprintf(stderr, "%ld things went wrong\n", wrong);
		return wrong != 0;
	}
	return 2;
}
