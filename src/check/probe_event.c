/* SPDX-License-Identifier: MIT */
/* probe_event.c - probes of events in this process: signals, threads, moving. */
#include "check/probe_event.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "check/probe_arch.h"

#define OLD_KERNEL "use kernel 5.13 or later"

void probe_perf_event_open(struct probe_result *r)
{
	struct perf_event_attr attr;

	probe_attr_counter(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		probe_refused(r, fd, "opening a counter of this thread, in user mode", 2);
	else
		probe_yes(r, "opened as uid %d; kernel.perf_event_paranoid is %d", (int)getuid(),
			  probe_paranoid());
}

/* Open with SIGTRAP, or state why not. Returns a descriptor or a negative number. */
static int open_signalling(struct probe_result *r, struct perf_event_attr *attr)
{
	probe_catch();
	int fd = probe_open(attr, 0, -1);
	if (fd < 0)
		probe_refused(r, fd, "opening a write watchpoint with sigtrap", 2);
	return fd;
}

void probe_sigtrap(struct probe_result *r)
{
	struct perf_event_attr attr;

	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = open_signalling(r, &attr);
	if (fd < 0)
		return;
	probe_write_word(PROBE_HITS);
	uint32_t signals = probe_trap.signals;
	int ok = signals == PROBE_HITS && probe_trap.data == attr.sig_data;
	probe_say(r, ok, "use a machine with debug registers; some emulators lack them",
		  "%u writes of a watched variable: %u signals in the thread, %llu counted",
		  PROBE_HITS, signals, (unsigned long long)probe_count(fd));
}

void probe_sigtrap_blocked(struct probe_result *r)
{
	struct perf_event_attr attr;
	sigset_t trap;

	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = open_signalling(r, &attr);
	if (fd < 0)
		return;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, NULL);
	probe_write_word(5);
	uint32_t early = probe_trap.signals;
	sigprocmask(SIG_UNBLOCK, &trap, NULL);
	int ok = early == 0 && probe_trap.signals == 1 && (probe_trap.flags & 1);
	probe_say(r, ok, "use kernel 5.19 or later (commit 78ed93d72ded)",
		  "5 writes while blocked: %u signals, after unblocking %u, flag async %u", early,
		  probe_trap.signals, probe_trap.flags & 1);
}

static void *write_in_thread(void *arg)
{
	*(pid_t *)arg = sys_gettid();
	probe_write_word(PROBE_HITS);
	return NULL;
}

/* A forked child's signals, or -1. */
static int signals_in_fork(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		probe_trap.signals = 0;
		probe_write_word(PROBE_HITS);
		_exit((int)probe_trap.signals);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void probe_inherit_thread(struct probe_result *r)
{
	struct perf_event_attr attr;
	pthread_t thread;
	pid_t tid = 0;

	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	attr.inherit = 1;
	attr.inherit_thread = 1;
	int fd = open_signalling(r, &attr);
	if (fd < 0)
		return;
	int err = pthread_create(&thread, NULL, write_in_thread, &tid);
	if (err) {
		probe_no(r, "allow one more thread: ulimit -u", "pthread_create: %s",
			 strerrorname_np(err));
		return;
	}
	pthread_join(thread, NULL);
	uint32_t signals = probe_trap.signals;
	int is_own = probe_trap.tid == tid;
	int forked = signals_in_fork();
	probe_say(r, signals == PROBE_HITS && is_own && forked == 0, OLD_KERNEL,
		  "%u writes each: %u signals in a new thread, %d in a forked child", PROBE_HITS,
		  signals, forked);
}

void probe_move(struct probe_result *r)
{
	static volatile uint64_t other __attribute__((aligned(8)));
	struct perf_event_attr attr;

	probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0) {
		probe_refused(r, fd, "opening a write watchpoint", 2);
		return;
	}
	attr.bp_addr = (uintptr_t)&other;
	int err = sys_ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (uintptr_t)&attr);
	if (err) {
		probe_no(r, "use kernel 4.17 or later", "PERF_EVENT_IOC_MODIFY_ATTRIBUTES: %s",
			 strerrorname_np(-err));
		return;
	}
	probe_write_word(PROBE_HITS);
	uint64_t old = probe_count(fd);
	for (int i = 0; i < PROBE_HITS; i++)
		probe_store(&other, 8, 1);
	uint64_t now = probe_count(fd) - old;
	probe_say(r, old == 0 && now == PROBE_HITS, OLD_KERNEL,
		  "moved: %u writes each, %llu hits at the old address, %llu at the new",
		  PROBE_HITS, (unsigned long long)old, (unsigned long long)now);
}

/* sig_data follows a move since Linux commit 3c25fc97f559, v5.17. */
void probe_signal_generation(struct probe_result *r)
{
	struct perf_event_attr attr;

	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	attr.sig_data = 1;
	int fd = open_signalling(r, &attr);
	if (fd < 0)
		return;
	probe_write_word(1);
	uint64_t first = probe_trap.data;
	attr.sig_data = 2;
	int err = sys_ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (uintptr_t)&attr);
	probe_write_word(1);
	probe_say(r, !err && first == 1 && probe_trap.data == 2, "use kernel 5.17 or later",
		  "sig_data 1 before a move, changed to 2: the next signal has %llu",
		  (unsigned long long)probe_trap.data);
}

void probe_access_in_syscalls(struct probe_result *r)
{
	struct perf_event_attr attr;
	uint64_t value = 1;
	int ends[2];

	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	attr.exclude_kernel = 0;
	probe_catch();
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0) {
		probe_refused(r, fd, "opening a watchpoint with exclude_kernel=0", 1);
		return;
	}
	if (pipe(ends)) {
		probe_no(r, "raise the limit of open files: ulimit -n", "pipe: %s",
			 strerrorname_np(errno));
		return;
	}
	for (int i = 0; i < PROBE_HITS; i++) {
		if (sys_write(ends[1], &value, sizeof(value)) < 0 ||
		    sys_read(ends[0], (void *)(uintptr_t)&probe_word, sizeof(value)) < 0)
			break;
	}
	probe_say(r, probe_trap.signals == PROBE_HITS, PROBE_SYSCALL_REMEDY,
		  "%u read(2) into a watched variable: %u signals, %llu hits", PROBE_HITS,
		  probe_trap.signals, (unsigned long long)probe_count(fd));
}

void probe_cpu_wide(struct probe_result *r)
{
	struct perf_event_attr attr;
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, -1, cpu);
	if (fd < 0) {
		probe_refused(r, fd, "opening a watchpoint for all processes on one CPU", 0);
		return;
	}
	probe_write_word(PROBE_HITS);
	uint64_t n = probe_count(fd);
	probe_say(r, n == PROBE_HITS, "run outside a sandbox that virtualises debug registers",
		  "%u writes on CPU %d: %llu counted", PROBE_HITS, cpu, (unsigned long long)n);
}
