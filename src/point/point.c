/* SPDX-License-Identifier: MIT */
/* point.c - see point.h. */
#include "point/point.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/tasks.h"
#include "cond/steps.h"
#include "cond/terms.h"

int point_registers(uint64_t used, const uint64_t *regs, struct condition *out)
{
	struct steps steps = { .out = out };

	memset(out, 0, sizeof(*out));
	for (uint32_t n = 0; used >> n; n++) {
		if (!(used >> n & 1))
			continue;
		if (!cond_register_name(n))
			return -EINVAL;
		struct cond_step *skip = out->count ? steps_skip(&steps, false) : NULL;

		steps_register(&steps, n);
		steps_number(&steps, regs[n]);
		steps_binary(&steps, COND_EQ, false, false);
		if (skip)
			steps_skip_end(&steps, skip);
	}
	return 0;
}

/* The state letter of a thread, or 0 when it has gone. */
static char state_of(pid_t pid, pid_t tid)
{
	char path[64];
	char line[512];
	char *end = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(line, sizeof(line), f))
		end = strrchr(line, ')'); /* the name before it may be any text */
	fclose(f);
	return end && end[1] ? end[2] : '\0';
}

int point_is_stopped(pid_t pid)
{
	struct task_list list = { 0 };
	int stopped = tasks_read(pid, &list) ? -ESRCH : 1;
	int live = 0;

	for (size_t i = 0; stopped == 1 && i < list.count; i++) {
		char state = state_of(pid, list.tids[i]);

		live += state && state != 'Z' && state != 'X';
		/* t: stopped by a debugger, which is as good. */
		if (state && !strchr("TtZX", state))
			stopped = 0;
	}
	tasks_free(&list);
	return stopped == 1 && !live ? -ESRCH : stopped;
}

/* The program counter of a stopped thread. */
static int read_pc(pid_t pid, pid_t tid, uint64_t *pc)
{
	char path[64];
	char line[256];
	int err = -EIO;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	/* Outside a system call: -1, sp, pc. */
	if (fgets(line, sizeof(line), f) && sscanf(line, "-1 %*x %" SCNx64, pc) == 1)
		err = 0;
	fclose(f);
	return err;
}

pid_t point_find_thread(pid_t pid, pid_t tid, uint64_t ip)
{
	struct task_list list = { 0 };
	pid_t found = 0;
	uint64_t pc;

	if (tasks_read(pid, &list))
		return 0;
	for (size_t i = 0; i < list.count && !found; i++)
		if ((!tid || list.tids[i] == tid) && !read_pc(pid, list.tids[i], &pc) && pc == ip)
			found = list.tids[i];
	tasks_free(&list);
	return found;
}
