/* SPDX-License-Identifier: MIT */
/*
 * throttle.c - what share of a CPU was asked, and what was got: this library, a POSIX CPU timer in
 * the process, and cpulimit(1), for several loads, in one run.
 *
 * bench_throttle [SECONDS]. JSON lines. "points" is got - asked in percent of a CPU; a load that
 * could not have used the share ("free" below it) says nothing about accuracy.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trapline/tools.h>

static double seconds = 3;
static double end_s;
static double share; /* asked */

static double clock_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *spin(void *arg)
{
	while (clock_s(CLOCK_MONOTONIC) < end_s)
		for (volatile int i = 0; i < 10000; i++)
			;
	return NULL;
}

static void *call(void *arg)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	static char block[1 << 16];

	while (clock_s(CLOCK_MONOTONIC) < end_s)
		for (int i = 0; i < 100; i++)
			syscall(i % 4 ? SYS_getppid : SYS_write, null, block, sizeof(block));
	close(null);
	return NULL;
}

static void *work_and_sleep(void *arg)
{
	while (clock_s(CLOCK_MONOTONIC) < end_s) {
		for (volatile int i = 0; i < 400000; i++)
			;
		usleep(300);
	}
	return NULL;
}

static void run_threads(void *(*first)(void *), void *(*others)(void *), int n)
{
	pthread_t threads[256];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, i ? others : first, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static const struct load {
	const char *name;
	void *(*first)(void *);
	void *(*others)(void *);
	int threads;
} loads[] = {
	{"spin", spin, spin, 1},	     {"spin_8_threads", spin, spin, 8},
	{"spin_200_threads", spin, spin, 200}, {"system_calls", call, call, 1},
	{"sleeping", work_and_sleep, work_and_sleep, 1}, {"mixed", spin, call, 4},
};

static int throttle_by_trapline(void)
{
	struct trapline *self;
	struct trapline_throttle *throttle;
	TRAPLINE_OPTS(throttle, opts);

	opts.counter = TRAPLINE_TASK_CLOCK;
	opts.per_second = (uint64_t)(share * 1e9);
	opts.flags = TRAPLINE_THROTTLE_SLEEP;
	int err = trapline_open(0, NULL, &self);
	return err ? err : trapline_throttle(self, &opts, &throttle);
}

static double started_s;

/* The obvious way: a timer on the process's CPU clock, and the thread that gets it sleeps. */
static void on_timer(int number)
{
	double due = started_s + clock_s(CLOCK_PROCESS_CPUTIME_ID) / share;
	struct timespec until = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int throttle_by_timer(void)
{
	struct sigaction sa = {.sa_handler = on_timer, .sa_flags = SA_RESTART | SA_NODEFER};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 2000000}, {0, 2000000}};
	timer_t timer;

	started_s = clock_s(CLOCK_MONOTONIC);
	sigaction(SIGUSR1, &sa, NULL);
	if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer))
		return -errno;
	return timer_settime(timer, 0, &every, NULL) ? -errno : 0;
}

static int throttle_by_nothing(void)
{
	return 0;
}

static const struct contender {
	const char *name;
	int (*begin)(void);
	int by_cpulimit;
} contenders[] = {
	{"free", throttle_by_nothing, 0},
	{"trapline", throttle_by_trapline, 0},
	{"posix_timer", throttle_by_timer, 0},
	{"cpulimit", throttle_by_nothing, 1},
};

static pid_t start_cpulimit(pid_t pid)
{
	char percent[16];
	char target[16];
	pid_t limiter = fork();

	if (limiter)
		return limiter;
	snprintf(percent, sizeof(percent), "%d", (int)(share * 100));
	snprintf(target, sizeof(target), "%d", pid);
	int null = open("/dev/null", O_WRONLY);
	dup2(null, 1);
	dup2(null, 2);
	execlp("cpulimit", "cpulimit", "-z", "-l", percent, "-p", target, (char *)NULL);
	_exit(127);
}

static int run_load(const struct load *load, const struct contender *c)
{
	if (c->begin())
		return 1;
	end_s = clock_s(CLOCK_MONOTONIC) + seconds;
	run_threads(load->first, load->others, load->threads);
	return 0;
}

/* The share that a load got, or negative: this contender is not to be had. */
static double measure(const struct load *load, const struct contender *c)
{
	double start = clock_s(CLOCK_MONOTONIC);
	struct rusage used;
	int limiter_status = 0;
	int status;
	pid_t limiter = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(run_load(load, c));
	if (c->by_cpulimit)
		limiter = start_cpulimit(pid);
	wait4(pid, &status, 0, &used);
	double elapsed = clock_s(CLOCK_MONOTONIC) - start;
	if (limiter) {
		usleep(50000);
		kill(limiter, SIGTERM);
		waitpid(limiter, &limiter_status, 0);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) ||
	    (WIFEXITED(limiter_status) && WEXITSTATUS(limiter_status) == 127))
		return -1;
	return ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) / elapsed;
}

static void measure_all(const struct load *load)
{
	for (size_t i = 0; i < sizeof(contenders) / sizeof(contenders[0]); i++) {
		double got = measure(load, &contenders[i]);

		if (got < 0)
			printf("{\"bench\":\"throttle\",\"load\":\"%s\",\"by\":\"%s\","
			       "\"skipped\":\"not installed or not permitted\"}\n",
			       load->name, contenders[i].name);
		else
			printf("{\"bench\":\"throttle\",\"load\":\"%s\",\"by\":\"%s\","
			       "\"asked_percent\":%.0f,\"got_percent\":%.2f,\"points\":%.2f}\n",
			       load->name, contenders[i].name, share * 100, got * 100,
			       (got - share) * 100);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const double shares[] = {0.1, 0.3, 0.5};

	if (argc > 1)
		seconds = atof(argv[1]);
	for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++)
		for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
			share = shares[s];
			measure_all(&loads[i]);
		}
	return 0;
}
