/* SPDX-License-Identifier: MIT */
/* probe_cost.c - costs, measured: the median of batches, so that one interruption is
 * nothing. */
#include "check/probe_cost.h"
#include "check/probe_util.h"

#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys.h"
#include "check/probe_arch.h"

#define BATCHES 15
#define THREADS 50

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double probe_median(void (*action)(void *arg), void *arg, unsigned int n)
{
	double ns[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		uint64_t start = clock_now_ns();

		for (unsigned int i = 0; i < n; i++)
			action(arg);
		ns[b] = (double)(clock_now_ns() - start) / n;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), by_value);
	return ns[BATCHES / 2];
}

static void read_clock(void *arg)
{
	*(uint64_t *)arg = clock_now_ns();
}

double probe_cost_clock(void)
{
	uint64_t now;

	return probe_median(read_clock, &now, 2000);
}

static void call_kernel(void *arg)
{
	(void)arg;
	sys0(SYS_getppid);
}

double probe_cost_syscall(void)
{
	return probe_median(call_kernel, NULL, 2000);
}

static void probe_cost_write_once(void *arg)
{
	(void)arg;
	probe_store(&probe_word, 8, 1);
}

double probe_cost_hardware_trap(void)
{
	struct perf_event_attr attr;

	probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return -1;
	double ns = probe_median(probe_cost_write_once, NULL, 100);
	return probe_count(fd) ? ns : -1;
}

double probe_cost_signal(void)
{
	struct perf_event_attr attr;

	probe_catch();
	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	if (probe_open(&attr, 0, -1) < 0)
		return -1;
	double ns = probe_median(probe_cost_write_once, NULL, 100);
	return probe_trap.signals ? ns : -1;
}

struct moved {
	struct perf_event_attr attr;
	int fd;
	int err;
};

static void move_once(void *arg)
{
	struct moved *m = arg;

	m->attr.bp_addr ^= 8;
	m->err |= sys_ioctl(m->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (uintptr_t)&m->attr);
}

double probe_cost_move(void)
{
	static volatile uint64_t words[2] __attribute__((aligned(16)));
	struct moved m = { .err = 0 };

	probe_attr_counting(&m.attr, words, HW_BREAKPOINT_W, 8);
	m.fd = probe_open(&m.attr, 0, -1);
	if (m.fd < 0)
		return -1;
	double ns = probe_median(move_once, &m, 200);
	return m.err ? -1 : ns;
}

static void toggle_once(void *arg)
{
	sys_ioctl(*(int *)arg, PERF_EVENT_IOC_DISABLE, 0);
	sys_ioctl(*(int *)arg, PERF_EVENT_IOC_ENABLE, 0);
}

double probe_cost_enable_disable(void)
{
	struct perf_event_attr attr;

	probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return -1;
	return probe_median(toggle_once, &fd, 200);
}

static void open_once(void *arg)
{
	sys_close(probe_open(arg, 0, -1));
}

double probe_cost_open_close(void)
{
	struct perf_event_attr attr;

	probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return -1;
	sys_close(fd);
	return probe_median(open_once, &attr, 50);
}

static volatile pid_t tids[THREADS];

static void *idle(void *arg)
{
	*(volatile pid_t *)arg = sys_gettid();
	for (;;)
		pause();
	return NULL;
}

static int threads_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, &attr, idle, (void *)(uintptr_t)&tids[i]))
			return -1;
	}
	for (int i = 0; i < THREADS; i++) {
		while (!tids[i])
			usleep(100);
	}
	return 0;
}

/* As arming a process does it: all are opened, and live side by side, before any is
 * closed. */
static void arm_all(void *arg)
{
	struct perf_event_attr *attr = arg;
	int fds[THREADS];

	for (int i = 0; i < THREADS; i++)
		fds[i] = probe_open(attr, tids[i], -1);
	for (int i = 0; i < THREADS; i++)
		sys_close(fds[i]);
}

double probe_cost_arm_per_thread(void)
{
	struct perf_event_attr attr;

	if (threads_start())
		return -1;
	probe_catch();
	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	attr.inherit = 1;
	attr.inherit_thread = 1;
	if (probe_open(&attr, tids[0], -1) < 0)
		return -1;
	return probe_median(arm_all, &attr, 1) / THREADS;
}
