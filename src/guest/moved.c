/* SPDX-License-Identifier: MIT */
/*
 * moved.c - waits until each thread has left a short function that it may have been in.
 *
 * A function of libc leads elsewhere from now on, but a thread may be behind its jump. Such a
 * function makes a system call that does not sleep. So a thread has left it that sleeps, or that
 * has run for longer than the function takes. A thread that waits for a CPU on a busy machine has
 * not, however long that lasts.
 */
#include "guest/moved.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lines.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "guest/own_thread.h"

#define STEP_NS 2000000
#define LEAST_NS 20000000 /* where nothing is known of a thread */
#define MOST_NS 3000000000ull
#define RUNS_NS 1000000ull

/* Nanoseconds on a CPU. 0: not known, or it has ended. */
static uint64_t read_ran(pid_t tid)
{
	struct lines lines;
	char path[64];
	unsigned long long ran = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
	if (lines_open(&lines, path))
		return 0;
	const char *line = lines_next(&lines);
	if (line && sscanf(line, "%llu", &ran) != 1)
		ran = 0;
	lines_close(&lines);
	return ran;
}

static int is_asleep(pid_t tid)
{
	struct lines lines;
	char path[64];
	int is = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	if (lines_open(&lines, path))
		return 1; /* it has ended */
	for (const char *line; (line = lines_next(&lines));) {
		if (memcmp(line, "State:\t", 7))
			continue;
		is = line[7] == 'S' || line[7] == 'Z' || line[7] == 'X';
		break;
	}
	lines_close(&lines);
	return is;
}

/* Until it has moved, or the time is over. ran_ns: at the beginning. */
static void wait_for_one(pid_t tid, uint64_t ran_ns, uint64_t start_ns)
{
	const struct timespec step = { 0, STEP_NS };

	while (!is_asleep(tid)) {
		const uint64_t waited_ns = clock_now_ns() - start_ns;
		const uint64_t now_ns = read_ran(tid);

		if (!ran_ns || !now_ns ? waited_ns > LEAST_NS : now_ns - ran_ns > RUNS_NS)
			return;
		if (waited_ns > MOST_NS)
			return;
		sys_nap(&step);
	}
}

void moved_wait(void)
{
	const pid_t owner = own_thread_lender();
	const uint64_t start_ns = clock_now_ns();
	struct task_list list = { .tids = NULL };

	if (tasks_read(sys_getpid(), &list))
		return;
	for (size_t i = 0; i < list.count; i++)
		if (list.tids[i] != sys_gettid() && list.tids[i] != owner)
			wait_for_one(list.tids[i], read_ran(list.tids[i]), start_ns);
	tasks_free(&list);
}
