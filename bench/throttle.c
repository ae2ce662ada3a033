/* SPDX-License-Identifier: MIT */
/*
 * throttle.c - what share of a CPU was asked, and what was got: this library, a POSIX CPU timer in
 * the process, and cpulimit(1), for several loads, in one run.
 *
 * bench_throttle [SECONDS [ROUNDS [LOAD]]]. JSON lines: medians over rounds in which the contenders
 * take turns, so that what else runs meanwhile is the same for all. "points" is got - asked in
 * percent of a CPU, "worst" the same of the round farthest from it. "free_percent" is what the load
 * got without a limit: where that is little above what was asked, a shortfall is the machine's. So
 * it is where "waited_percent" is high: how long its threads were ready and had no processor, in
 * percent of the time. "machine_load" is the number of threads that wanted one, ours among them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trapline/tools.h>

#define ROUNDS_MAX 32

static double seconds = 3;
static int rounds = 1;
static double *waited_s; /* by the threads of a load, shared with it */
static double end_s;
static double share; /* asked */

static double clock_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The second number of schedstat: ready, and without a processor. */
static void add_waited(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned long long ns = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");

	if (!f)
		return;
	if (fscanf(f, "%*u %llu", &ns) != 1)
		ns = 0;
	fclose(f);
	pthread_mutex_lock(&lock);
	*waited_s += (double)ns * 1e-9;
	pthread_mutex_unlock(&lock);
}

static void *spin(void *arg)
{
	while (clock_s(CLOCK_MONOTONIC) < end_s)
		for (volatile int i = 0; i < 10000; i++)
			;
	add_waited();
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
	add_waited();
	return NULL;
}

static void *work_and_sleep(void *arg)
{
	while (clock_s(CLOCK_MONOTONIC) < end_s) {
		for (volatile int i = 0; i < 400000; i++)
			;
		usleep(300);
	}
	add_waited();
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

/* Each thread may draw for 2 ms before it is asked the first time; then that is to be paid. */
static double warm_up_s(const struct load *load)
{
	return 0.5 + load->threads * 0.002 / share;
}

static int run_load(const struct load *load, const struct contender *c)
{
	if (c->begin())
		return 1;
	end_s = clock_s(CLOCK_MONOTONIC) + warm_up_s(load) + seconds;
	run_threads(load->first, load->others, load->threads);
	return 0;
}

struct got {
	double share; /* negative: this contender is not to be had */
	double waited;
	double load;
};

static double machine_load(void)
{
	double load = 0;
	FILE *f = fopen("/proc/loadavg", "re");

	if (f && fscanf(f, "%lf", &load) != 1)
		load = 0;
	if (f)
		fclose(f);
	return load;
}

static void sleep_until(double end)
{
	struct timespec until = {(time_t)end, (long)((end - (double)(time_t)end) * 1e9)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* While the load still runs: threads that sleep until their turn end late. */
static double share_between(pid_t pid, double start, double end)
{
	clockid_t clock;

	sleep_until(start);
	if (clock_getcpuclockid(pid, &clock))
		return -1;
	double used = clock_s(clock);
	start = clock_s(CLOCK_MONOTONIC);
	sleep_until(end);
	used = clock_s(clock) - used;
	return used / (clock_s(CLOCK_MONOTONIC) - start);
}

static struct got measure(const struct load *load, const struct contender *c)
{
	double start = clock_s(CLOCK_MONOTONIC);
	struct got got = {.share = -1, .load = machine_load()};
	int limiter_status = 0;
	int status;
	pid_t limiter = 0;

	*waited_s = 0;
	pid_t pid = fork();
	if (!pid)
		_exit(run_load(load, c));
	if (c->by_cpulimit)
		limiter = start_cpulimit(pid);
	start += warm_up_s(load);
	double measured = share_between(pid, start, start + seconds - 0.1);
	waitpid(pid, &status, 0);
	if (limiter) {
		usleep(50000);
		kill(limiter, SIGTERM);
		waitpid(limiter, &limiter_status, 0);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) ||
	    (WIFEXITED(limiter_status) && WEXITSTATUS(limiter_status) == 127))
		return got;
	got.share = measured;
	got.waited = *waited_s / (warm_up_s(load) + seconds);
	return got;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const struct got *got, size_t member)
{
	double values[ROUNDS_MAX];

	for (int r = 0; r < rounds; r++)
		values[r] = *(const double *)(const void *)((const char *)&got[r] + member);
	qsort(values, (size_t)rounds, sizeof(values[0]), by_value);
	return (values[(rounds - 1) / 2] + values[rounds / 2]) / 2;
}

static double farthest(const struct got *got)
{
	double worst = 0;

	for (int r = 0; r < rounds; r++)
		if ((got[r].share - share) * (got[r].share - share) > worst * worst)
			worst = got[r].share - share;
	return worst;
}

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static void tell(const struct load *load, const struct contender *c, const struct got *got,
		 double free_share)
{
	double middle = median(got, offsetof(struct got, share));

	if (middle < 0)
		printf("{\"bench\":\"throttle\",\"load\":\"%s\",\"by\":\"%s\","
		       "\"skipped\":\"not installed or not permitted\"}\n",
		       load->name, c->name);
	else
		printf("{\"bench\":\"throttle\",\"load\":\"%s\",\"by\":\"%s\","
		       "\"asked_percent\":%.0f,\"got_percent\":%.2f,\"points\":%.2f,"
		       "\"worst\":%.2f,\"rounds\":%d,\"free_percent\":%.0f,"
		       "\"waited_percent\":%.1f,\"machine_load\":%.1f}\n",
		       load->name, c->name, share * 100, middle * 100, (middle - share) * 100,
		       farthest(got) * 100, rounds, free_share * 100,
		       median(got, offsetof(struct got, waited)) * 100,
		       median(got, offsetof(struct got, load)));
	fflush(stdout);
}

static void measure_all(const struct load *load)
{
	struct got got[CONTENDERS][ROUNDS_MAX];

	for (int r = 0; r < rounds; r++)
		for (size_t i = 0; i < CONTENDERS; i++)
			got[i][r] = measure(load, &contenders[i]);
	for (size_t i = 0; i < CONTENDERS; i++)
		tell(load, &contenders[i], got[i], median(got[0], offsetof(struct got, share)));
}

int main(int argc, char **argv)
{
	static const double shares[] = {0.1, 0.3, 0.5};

	if (argc > 1)
		seconds = atof(argv[1]);
	if (argc > 2)
		rounds = atoi(argv[2]);
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 1;
	waited_s = mmap(NULL, sizeof(*waited_s), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (waited_s == MAP_FAILED)
		return 1;
	for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++)
		for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
			share = shares[s];
			if (argc < 4 || !strcmp(argv[3], loads[i].name))
				measure_all(&loads[i]);
		}
	return 0;
}
