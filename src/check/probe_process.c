/* SPDX-License-Identifier: MIT */
/* probe_process.c - probes that need a second process: exec, and events in others. */
#include "check/probe_process.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

/* Between a probe and the process it makes. */
struct pair {
	volatile int go;
	volatile int done;
	volatile int fd;
	volatile int err;
	volatile uint64_t before;
	volatile pid_t pid;
};

static struct pair *pair_map(void)
{
	void *p = mmap(NULL, sizeof(struct pair), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* In the child: an own event, then exec. Page faults are what any program has at its
 * start. */
static void exec_with_event(struct pair *pair, int remove)
{
	struct perf_event_attr attr;
	char *const argv[] = { (char *)"true", NULL };
	char *const envp[] = { NULL };

	probe_catch();
	probe_attr_counter(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, remove);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0) {
		pair->err = fd;
		_exit(1);
	}
	pair->fd = fd;
	pair->before = probe_count(fd);
	execve("/bin/true", argv, envp);
	execve("/usr/bin/true", argv, envp);
	pair->err = -ENOEXEC;
	_exit(1);
}

/*
 * The child shares Trapline's table of files, which exec ends: the event stays here. Returns the
 * page faults that the event counted after exec, or -errno.
 */
static long faults_after_exec(struct pair *pair, int remove, int *status)
{
	memset((void *)pair, 0, sizeof(*pair));
	long pid = sys1(SYS_clone, CLONE_FILES | SIGCHLD);

	if (pid < 0)
		return pid;
	if (pid == 0)
		exec_with_event(pair, remove);
	if (waitpid((pid_t)pid, status, 0) != pid)
		return -ECHILD;
	if (pair->err)
		return pair->err;
	return (long)(probe_count(pair->fd) - pair->before);
}

void probe_remove_on_exec(struct probe_result *r)
{
	struct pair *pair = pair_map();
	int status = 0;
	int ignored;

	if (!pair)
		return probe_no(r, "free some memory", "not tried: no memory");
	long kept = faults_after_exec(pair, 0, &ignored);
	long removed = faults_after_exec(pair, 1, &status);
	if (removed == -ENOEXEC)
		return probe_no(r, "install coreutils", "not tried: no /bin/true to run");
	if (removed < 0)
		return probe_refused(r, (int)removed,
				     "opening an event with sigtrap and remove_on_exec", 2);
	/* A few faults belong to the child before its exec. */
	int is_alive = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	probe_say(r, is_alive && removed < kept, "use kernel 5.13 or later",
		  "page faults after exec: %ld with it, %ld without; the new program %s", removed,
		  kept, is_alive ? "continued" : "died");
}

/* A process that writes the variable at a command, and lives until it is killed or orphaned. */
static pid_t victim_start(struct pair *pair)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* So a signal of an event on us is counted, not fatal. */
	probe_catch();
	while (!pair->go)
		usleep(200);
	probe_write_word(PROBE_HITS);
	pair->before = probe_trap.signals;
	pair->done = 1;
	for (;;)
		pause();
}

static void victim_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* From a sibling of the victim, so that "own descendants are allowed" does not hide a
 * rule. */
static void watch_sibling(struct pair *pair, int with_signal)
{
	struct perf_event_attr attr;

	if (with_signal)
		probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	else
		probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	int fd = probe_open(&attr, pair->pid, -1);
	if (fd < 0) {
		pair->err = fd;
		_exit(1);
	}
	pair->go = 1;
	for (int i = 0; i < 1000 && !pair->done; i++)
		usleep(500);
	pair->fd = (int)probe_count(fd);
	_exit(0);
}

/* Returns hits counted, or -errno. */
static int watch_other(struct pair *pair, int with_signal)
{
	pair->pid = victim_start(pair);
	if (pair->pid < 0)
		return -EAGAIN;
	pid_t watcher = fork();

	if (watcher == 0)
		watch_sibling(pair, with_signal);
	if (watcher > 0)
		waitpid(watcher, NULL, 0);
	victim_stop(pair->pid);
	return pair->err ? pair->err : pair->fd;
}

void probe_other_process(struct probe_result *r)
{
	struct pair *pair = pair_map();

	if (!pair)
		return probe_no(r, "free some memory", "not tried: no memory");
	int n = watch_other(pair, 0);
	if (n == -EACCES && probe_paranoid() <= 2)
		return probe_no(r, "give CAP_SYS_PTRACE, or run as the same user",
				"opening a watchpoint in a process of the same user: EACCES");
	if (n < 0)
		return probe_refused(r, n, "opening a watchpoint in a process of the same user", 2);
	probe_say(r, n == PROBE_HITS, "use kernel 5.13 or later",
		  "%u writes in another process of this user: %d counted", PROBE_HITS, n);
}

/* With sigtrap the kernel asks for ATTACH, not READ: Yama has a state (9d7a6c95f62b). */
void probe_other_process_signal(struct probe_result *r)
{
	int scope = probe_read_number("/proc/sys/kernel/yama/ptrace_scope", -1);
	struct pair *pair = pair_map();
	char yama[48];

	if (!pair)
		return probe_no(r, "free some memory", "not tried: no memory");
	snprintf(yama, sizeof(yama), scope < 0 ? "no Yama" : "yama ptrace_scope %d", scope);
	int n = watch_other(pair, 1);
	if (n == -EACCES && probe_paranoid() <= 2)
		return probe_no(r,
				"sysctl kernel.yama.ptrace_scope=0, or give "
				"CAP_SYS_PTRACE; records "
				"from other processes work without",
				"sigtrap in a process that is not a child: EACCES (%s)", yama);
	if (n < 0)
		return probe_refused(r, n, "sigtrap in a process that is not a child", 2);
	probe_say(r, n == PROBE_HITS && pair->before == PROBE_HITS, "use kernel 5.13 or later",
		  "%u writes in a process that is not a child: %llu signals there (%s)", PROBE_HITS,
		  (unsigned long long)pair->before, yama);
}
