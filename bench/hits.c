/* SPDX-License-Identifier: MIT */
/*
 * hits.c - what a hit, an armed thread, a move and a toggle cost, as JSON lines.
 *
 * Each is measured beside its floor, the bare system calls, in interleaved batches of the same
 * run; ns are medians over the batches.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trapline/trapline.h>

#include "median.h"

#define BATCHES 25
#define HITS 2000
#define MANY 2000
#define ADDR(p) ((uint64_t)(uintptr_t)(p))

static volatile uint64_t word __attribute__((aligned(64)));
static volatile uint64_t elsewhere __attribute__((aligned(64)));
static volatile uint64_t bare_hits;
static pid_t tids[MANY];
static _Atomic int standing;
static pthread_barrier_t leave;

static void report(const char *name, int threads, double ns, double floor_ns)
{
	printf("{\"bench\":\"%s\",\"threads\":%d,\"ns\":%.0f,\"floor_ns\":%.0f,\"ratio\":%.3f}\n",
	       name, threads, ns, floor_ns, floor_ns > 0 ? ns / floor_ns : 0);
	fflush(stdout);
}

static void must(int err, const char *what)
{
	char why[512];

	if (err >= 0)
		return;
	trapline_explain(err, why, sizeof(why));
	fprintf(stderr, "hits: %s: %s\n", what, why);
	exit(1);
}

static int bare_open(pid_t tid, int is_signal)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = ADDR(&word),
		.bp_len = 8,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
		.inherit = 1,
		.inherit_thread = 1,
		.sigtrap = is_signal != 0,
		.remove_on_exec = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void on_bare(int sig, siginfo_t *info, void *context)
{
	bare_hits++;
}

static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	(*(volatile uint64_t *)hit->arg)++;
	return TRAPLINE_GO_ON;
}

static double time_stores(void)
{
	double start = now_ns();

	for (uint64_t i = 0; i < HITS; i++)
		word = i;
	return (now_ns() - start) / HITS;
}

/* Floor first, then the library, in each batch: both see the same weather. */
static void bench_hits(const char *name, uint32_t open_flags, int is_callback, uint32_t depth)
{
	struct sigaction bare_action = { .sa_sigaction = on_bare, .sa_flags = SA_SIGINFO };
	struct sigaction our_action;
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	double floor_ns[BATCHES];
	double ns[BATCHES];
	volatile uint64_t hits = 0;
	struct trapline_event *event;
	struct trapline *target;
	int fd = bare_open(0, is_callback);

	must(fd < 0 ? -errno : 0, "perf_event_open");
	open_opts.flags = open_flags;
	opts.callback = is_callback ? on_hit : NULL;
	opts.arg = (void *)(uintptr_t)&hits;
	opts.flags = TRAPLINE_DISABLED;
	opts.stack_depth = depth;
	must(trapline_open(0, &open_opts, &target), "open");
	must(trapline_watch(target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event), "watch");
	sigaction(SIGTRAP, NULL, &our_action);
	for (int i = 0; i < BATCHES; i++) {
		sigaction(SIGTRAP, &bare_action, NULL);
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
		floor_ns[i] = time_stores();
		ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		sigaction(SIGTRAP, &our_action, NULL);
		trapline_event_enable(event);
		ns[i] = time_stores();
		trapline_event_disable(event);
		while (!is_callback && trapline_poll(target, 0, on_hit) > 0)
			;
	}
	if (hits != (uint64_t)BATCHES * HITS)
		fprintf(stderr, "hits: %s: %lu of %d hits\n", name, (unsigned long)hits,
			BATCHES * HITS);
	report(name, 1, median(ns, BATCHES), median(floor_ns, BATCHES));
	close(fd);
	trapline_close(target);
}

static void *stand(void *arg)
{
	tids[standing++] = gettid();
	pthread_barrier_wait(&leave);
	return NULL;
}

static double bare_arm(int fds[], int count)
{
	double start = now_ns();

	for (int i = 0; i < count; i++) {
		fds[i] = bare_open(tids[i], 1);
		must(fds[i] < 0 ? -errno : 0, "perf_event_open of a thread");
		ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);
	}

	double ns = (now_ns() - start) / count;

	for (int i = 0; i < count; i++)
		close(fds[i]);
	return ns;
}

static void bench_control(struct trapline_event *event, int threads)
{
	double move_ns[BATCHES];
	double toggle_ns[BATCHES];

	for (int i = 0; i < BATCHES; i++) {
		double start = now_ns();

		must(trapline_event_move(event, ADDR(i % 2 ? &word : &elsewhere)), "move");
		move_ns[i] = now_ns() - start;
		start = now_ns();
		must(trapline_event_disable(event), "disable");
		must(trapline_event_enable(event), "enable");
		toggle_ns[i] = now_ns() - start;
	}
	report("move", threads, median(move_ns, BATCHES), 0);
	report("disable_enable", threads, median(toggle_ns, BATCHES), 0);
}

static void bench_arm(int count)
{
	static int fds[MANY];
	static pthread_t threads[MANY];
	int batches = count > 500 ? 5 : 15;
	TRAPLINE_OPTS(event, opts);
	double floor_ns[15];
	double ns[15];
	struct trapline_event *event;
	struct trapline *target;
	pthread_attr_t attr;

	standing = 0;
	pthread_barrier_init(&leave, NULL, (unsigned int)count + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (int i = 0; i < count; i++)
		must(-pthread_create(&threads[i], &attr, stand, NULL), "thread");
	while (standing < count)
		usleep(1000);
	usleep(20000);
	opts.callback = on_hit;
	must(trapline_open(0, NULL, &target), "open");
	for (int i = 0; i < batches; i++) {
		floor_ns[i] = bare_arm(fds, count);

		double start = now_ns();

		must(trapline_watch(target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &event), "arm");
		ns[i] = (now_ns() - start) / (count + 1);
		if (i < batches - 1)
			trapline_event_close(event);
	}
	report("arm_per_thread", count, median(ns, batches), median(floor_ns, batches));
	bench_control(event, count);
	trapline_close(target);
	pthread_barrier_wait(&leave);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&leave);
}

int main(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	bench_hits("hit_callback", 0, 1, 0);
	bench_hits("hit_callback_stack16", 0, 1, 16);
	bench_hits("hit_record_bpf", 0, 0, 0);
	bench_hits("hit_record_ring", TRAPLINE_NO_BPF, 0, 0);
	bench_arm(10);
	bench_arm(100);
	bench_arm(MANY);
	return 0;
}
