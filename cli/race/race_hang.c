/* SPDX-License-Identifier: MIT */
/* race_hang.c - see race_hang.h. */
#include "cli/race/race_hang.h"

#include "base/maps.h"
#include "cli/launch/program.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_EVERY_NS 50000000u
#define TREE_MAX 64u	 /* processes; a larger tree is not judged */
#define THREADS_MAX 256u /* of one process */
#define WAITS_NS 150000000u
#define RUNS_TO_LEARN 3u
#define SLEEPS_NS 1000000000u
#define SLEEPS_RUNS 8u /* of the longest run */
#define SPINS_NS 3000000000u
#define SPINS_RUNS 20u
#define CUTS_MAX 6u
#define STALL_MOST_NS 5000000000u

/* A file of /proc/PID/, or of a thread of it. Its length, 0: empty or gone; text ends with a 0. */
static size_t read_proc(pid_t pid, pid_t tid, const char *name, char *text, size_t n)
{
	char path[80];
	ssize_t got = -1;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, n - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

struct tree {
	pid_t pids[TREE_MAX];
	size_t count;
	bool is_whole;
};

static void add_children(struct tree *tree, pid_t pid, pid_t tid)
{
	char text[1024];

	if (read_proc(pid, tid, "children", text, sizeof(text)) == sizeof(text) - 1)
		tree->is_whole = false;
	for (char *at = text, *end; (pid = (pid_t)strtol(at, &end, 10)) > 0 && end != at;
	     at = end) {
		if (tree->count == TREE_MAX) {
			tree->is_whole = false;
			return;
		}
		tree->pids[tree->count++] = pid;
	}
}

static bool is_in_tree(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->pids[i] == pid)
			return true;
	return false;
}

/* A process of the run whose parent has ended is outside, and may wake those inside. */
static void look_outside(struct tree *tree, const struct race_region *region)
{
	for (uint32_t i = 0; i < RACE_PROCESSES && region->processes[i].state; i++) {
		const struct race_process *p = &region->processes[i];
		pid_t pid = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);

		if (p->state == RACE_PROCESS_LIVE && p->run == region->run &&
		    !is_in_tree(tree, pid) && program_thread_state(pid, pid))
			tree->is_whole = false;
	}
}

/* Signals that a kernel, a terminal or a timer may send: such a handler may wake a thread up. */
static bool may_be_signalled(pid_t pid)
{
	static const int never[] = { SIGTRAP, SIGSEGV, SIGBUS,	SIGILL, SIGFPE,	 SIGABRT, SIGSYS,
				     SIGINT,  SIGTERM, SIGQUIT, SIGHUP, SIGPIPE, 32,	  33 };
	char text[32];
	char timer[2];

	if (!program_status(pid, pid, "SigCgt", text, sizeof(text)))
		return true;
	uint64_t caught = strtoull(text, NULL, 16);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		caught &= ~(1ull << (never[i] - 1));
	return caught || read_proc(pid, 0, "timers", timer, sizeof(timer));
}

/* A process outside of the run may wake a thread that waits there. */
static bool is_shared_word(pid_t pid, unsigned int operation, uint64_t address)
{
	struct maps_row row;

	return !(operation & FUTEX_PRIVATE_FLAG) && !maps_find(pid, address, NULL, 0, &row) &&
	       row.mode[3] == 's';
}

/*
 * Does the thread wait for what only another thread or process of the run can do? A system call as
 * /proc/PID/task/TID/syscall has it: its number, its arguments, sp and pc.
 */
static bool waits_for_others(pid_t pid, pid_t tid)
{
	unsigned long long a[6];
	char text[256];
	long number;

	read_proc(pid, tid, "syscall", text, sizeof(text));
	if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx", &number, &a[0], &a[1], &a[2], &a[3],
		   &a[4], &a[5]) != 7)
		return program_thread_state(pid, tid) ==
		       'Z'; /* pthread_exit() in the first thread */
	if (number == SYS_wait4 || number == SYS_waitid)
		return true;
	unsigned int operation = (unsigned int)a[1] & (unsigned int)FUTEX_CMD_MASK;
	return number == SYS_futex && !a[3] &&
	       (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
		operation == FUTEX_LOCK_PI) &&
	       !is_shared_word(pid, (unsigned int)a[1], a[0]);
}

static uint64_t cpu_time_ns(pid_t pid, pid_t tid)
{
	int64_t user;
	int64_t system;
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	if (!program_stat(pid, tid, 14, &user) || !program_stat(pid, tid, 15, &system))
		return 0;
	return (uint64_t)(user + system) * tick_ns;
}

/* True: no thread of the run can continue. *cpu_ns: CPU time of all. */
static bool is_waiting(const struct race_region *region, pid_t pid, uint64_t *cpu_ns)
{
	/* Without such files a parent might wait for a child that is not seen. */
	struct tree tree = { .pids = { pid },
			     .count = 1,
			     .is_whole = !access("/proc/thread-self/children", R_OK) };
	bool waits = true;

	*cpu_ns = 0;
	for (size_t i = 0; i < tree.count; i++) {
		pid_t tids[THREADS_MAX];
		size_t n = program_threads(tree.pids[i], tids, THREADS_MAX);

		waits &= n > 0 && n < THREADS_MAX && !may_be_signalled(tree.pids[i]);
		n = n < THREADS_MAX ? n : THREADS_MAX;
		for (size_t k = 0; k < n; k++) {
			if (program_has_our_thread(tree.pids[i], tids[k]))
				continue;
			*cpu_ns += cpu_time_ns(tree.pids[i], tids[k]);
			waits = waits && waits_for_others(tree.pids[i], tids[k]);
			add_children(&tree, tree.pids[i], tids[k]);
		}
	}
	look_outside(&tree, region);
	return waits && tree.is_whole;
}

/* Stopped first: none of them starts another one in the meantime, and no number is used again. */
void race_hang_kill_tree(pid_t pid)
{
	struct tree tree = { .pids = { pid }, .count = 1 };

	for (size_t i = 0; i < tree.count; i++) {
		pid_t tids[THREADS_MAX];

		kill(tree.pids[i], SIGSTOP);
		size_t n = program_threads(tree.pids[i], tids, THREADS_MAX);
		n = n < THREADS_MAX ? n : THREADS_MAX;
		for (size_t k = 0; k < n; k++)
			add_children(&tree, tree.pids[i], tids[k]);
	}
	for (size_t i = 0; i < tree.count; i++)
		kill(tree.pids[i], SIGKILL);
}

static uint64_t count_sites(const struct race_region *region)
{
	uint64_t sites = 0;

	for (uint32_t i = 0; i < RACE_PROCESSES && region->processes[i].state; i++) {
		const uint64_t *c = region->processes[i].counters;

		if (region->processes[i].run == region->run)
			sites += __atomic_load_n(&c[RACE_SITE_HITS], __ATOMIC_RELAXED) +
				 __atomic_load_n(&c[RACE_STALLS], __ATOMIC_RELAXED);
	}
	return sites;
}

/* A stall may be longer than a limit. But its thread may be gone. */
static bool is_in_stall(const struct race_region *region, uint64_t now_ns)
{
	for (uint32_t i = 0; i < RACE_LAST_STALLS; i++) {
		const struct race_last_stall *row = &region->last_stalls[i];
		uint64_t ready = __atomic_load_n(&row->ready, __ATOMIC_RELAXED);

		if (ready && row->run == region->run && row->ended != ready &&
		    now_ns - row->record.time_ns < STALL_MOST_NS)
			return true;
	}
	return false;
}

void race_hang_begin(struct race_hang *h, uint64_t now_ns)
{
	h->began_ns = h->cpu_since_ns = h->sites_since_ns = now_ns;
	h->looked_ns = h->cpu_ns = h->sites = h->waits_since_ns = 0;
}

static uint64_t limit(const struct race_hang *h, uint64_t least_ns, uint64_t runs)
{
	uint64_t learnt = runs * h->longest_ns;
	uint64_t cuts = h->cuts < CUTS_MAX ? h->cuts : CUTS_MAX;

	return (learnt > least_ns ? learnt : least_ns) << cuts;
}

enum race_hang_why race_hang_look(struct race_hang *h, const struct race_region *region, pid_t pid,
				  uint64_t now_ns)
{
	uint64_t cpu_ns;

	if (now_ns - h->looked_ns < LOOK_EVERY_NS)
		return RACE_HANG_NOT;
	h->looked_ns = now_ns;
	uint64_t sites = count_sites(region);
	bool waits = is_waiting(region, pid, &cpu_ns) && cpu_ns == h->cpu_ns;
	if (cpu_ns != h->cpu_ns)
		h->cpu_since_ns = now_ns;
	if (sites != h->sites || is_in_stall(region, now_ns))
		h->sites_since_ns = now_ns;
	h->cpu_ns = cpu_ns;
	h->sites = sites;
	if (!waits)
		h->waits_since_ns = 0;
	else if (!h->waits_since_ns)
		h->waits_since_ns = now_ns;
	if (waits && now_ns - h->waits_since_ns > WAITS_NS)
		return RACE_HANG_WAITS;
	if (h->runs < RUNS_TO_LEARN)
		return RACE_HANG_NOT;
	if (now_ns - h->sites_since_ns < limit(h, SLEEPS_NS, SLEEPS_RUNS))
		return RACE_HANG_NOT;
	if (now_ns - h->cpu_since_ns > limit(h, SLEEPS_NS, SLEEPS_RUNS))
		return RACE_HANG_SLEEPS;
	return now_ns - h->sites_since_ns > limit(h, SPINS_NS, SPINS_RUNS) ? RACE_HANG_SPINS :
									     RACE_HANG_NOT;
}

void race_hang_ran(struct race_hang *h, uint64_t took_ns, bool is_cut)
{
	h->cuts = is_cut ? h->cuts + 1 : 0;
	if (is_cut)
		return;
	h->runs++;
	h->longest_ns = took_ns > h->longest_ns ? took_ns : h->longest_ns;
}

const char *race_hang_text(enum race_hang_why why)
{
	switch (why) {
	case RACE_HANG_WAITS:
		return "all its threads wait for each other";
	case RACE_HANG_SLEEPS:
		return "it is far longer than the runs before it, and its threads sleep";
	case RACE_HANG_SPINS:
		return "it is far longer than the runs before it, and reaches no site";
	default:
		return "";
	}
}
