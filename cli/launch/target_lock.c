/* SPDX-License-Identifier: MIT */
/*
 * target_lock.c - see target_lock.h.
 *
 * The lock is on /proc/PID/task/PID/mem. To open it takes the right to trace the process, so no
 * stranger can lock it, and it ends with the command. (That on /proc/PID/mem is for the moments of
 * a call: inject_thread.h.)
 */
#include "cli/launch/target_lock.h"

#include "base/clock.h"
#include "base/own_thread_name.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "record/heap_region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 4096
/* heap waits for the answer of a command that was killed, and then leaves. */
#define LEAVES_NS (HEAP_ANSWER_MOST_NS + 7000000000ull)
/* A command prints its last line before it has left the process. */
#define ENDS_NS 3000000000ull
#define STEP_NS 10000000
#define OPTIONS "TRAPLINE_OPTIONS="
#define OF_AGENTS "/libtrapline-"

/* What the process is to the other command. */
static const struct {
	const char *option; /* in the environment of a program that it started */
	const char *tool;
	const char *is;
} uses[] = {
	{ "heap", "heap", "is sampled by" },   { "race", "race", "is searched by" },
	{ "flow", "flow", "is followed by" },  { "probe", "break", "has probes of" },
	{ "patch", "patch", "is patched by" }, { "throttle", "throttle", "has a budget of" },
};
#define USES (sizeof(uses) / sizeof(uses[0]))

struct other {
	const char *is;
	const char *tool; /* empty: not known */
	pid_t pid;	  /* 0: not known */
};

static void set_use(struct other *o, size_t i)
{
	o->is = uses[i].is;
	o->tool = uses[i].tool;
}

static int say(const char *command, pid_t pid, const struct other *o)
{
	char number[32] = "";

	if (o->pid)
		snprintf(number, sizeof(number), " (PID %d)", o->pid);
	return cli_wrong(command, "process %d %s another trapline%s%s%s: end that one first", pid,
			 o->is, *o->tool ? " " : "", o->tool, number);
}

/* By its command line. */
static void find_tool(struct other *o)
{
	char path[32];
	char text[256];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", o->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *tool = n > 0 ? text + strlen(text) + 1 : text;
	for (size_t i = 0; i < USES && tool < text + n; i++)
		if (!strcmp(tool, uses[i].tool))
			set_use(o, i);
}

/* The command that has the lock is in a line of /proc/locks, by the number of the file. */
static pid_t find_holder(int fd)
{
	FILE *f = fopen("/proc/locks", "re");
	struct stat st;
	char line[256];
	int holder = 0;

	while (f && !fstat(fd, &st) && fgets(line, sizeof(line), f)) {
		unsigned major_number;
		unsigned minor_number;
		uint64_t inode;
		int pid;

		if (sscanf(line, "%*s FLOCK %*s %*s %d %x:%x:%" SCNu64, &pid, &major_number,
			   &minor_number, &inode) == 4 &&
		    inode == st.st_ino && major_number == major(st.st_dev) &&
		    minor_number == minor(st.st_dev))
			holder = pid > 0 ? pid : 0;
	}
	if (f)
		fclose(f);
	return holder;
}

static int refuse_second(const char *command, pid_t pid, int fd)
{
	struct other o = { .is = "is used by", .tool = "", .pid = find_holder(fd) };

	if (o.pid)
		find_tool(&o);
	return say(command, pid, &o);
}

/* ---- a program that was started by another command ---- */

static bool read_option(const char *options, struct other *o)
{
	for (size_t i = 0; i < USES; i++) {
		size_t n = strlen(uses[i].option);

		if (strncmp(options, uses[i].option, n) != 0 || options[n] != '=')
			continue;
		set_use(o, i);
		o->pid = atoi(options + n + 1);
		return true;
	}
	return false;
}

static bool is_trapline(pid_t pid)
{
	char name[32];

	process_name(pid, name, sizeof(name));
	return pid > 0 && !strcmp(name, "trapline");
}

/* Its options are as the program began; they may be those of a command that has ended. */
static bool was_started_by(pid_t pid, struct other *o)
{
	char path[32];
	char *line = NULL;
	size_t room = 0;
	bool is_found = false;
	uint64_t start;
	uint64_t end;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	FILE *f = program_mapping(pid, OF_AGENTS, 0, &start, &end) ? fopen(path, "re") : NULL;
	while (f && !is_found && getdelim(&line, &room, 0, f) > 0)
		is_found = !strncmp(line, OPTIONS, strlen(OPTIONS)) &&
			   read_option(line + strlen(OPTIONS), o);
	free(line);
	if (f)
		fclose(f);
	return is_found && o->pid != getpid() && is_trapline(o->pid);
}

/* ---- what is on its way out ---- */

static pid_t find_our_thread(pid_t pid)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(pid, tids, THREADS_MAX);
	char name[32];

	for (size_t i = 0; i < n; i++)
		if (tids[i] != pid && program_status(pid, tids[i], "Name", name, sizeof(name)) &&
		    !strncmp(name + strspn(name, "\t "), OWN_THREAD_WORKS,
			     strlen(OWN_THREAD_WORKS)))
			return tids[i];
	return 0;
}

bool target_has_our_thread(pid_t pid)
{
	return find_our_thread(pid) != 0;
}

static int wait_until_left(const char *command, pid_t pid)
{
	const struct timespec step = { 0, STEP_NS };
	const uint64_t end = clock_now_ns() + LEAVES_NS;
	pid_t tid;

	while ((tid = find_our_thread(pid))) {
		if (clock_now_ns() > end)
			return cli_wrong(command,
					 "process %d has a thread of another trapline (%d), or of "
					 "libtrapline, that works: end that one first",
					 pid, tid);
		nanosleep(&step, NULL);
	}
	return CLI_OK;
}

/*
 * A command that is ending is waited for. Errors other than a lock that is taken have the attach's
 * words.
 */
static bool is_taken(int fd)
{
	const struct timespec step = { 0, STEP_NS };
	const uint64_t end = clock_now_ns() + ENDS_NS;

	while (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		if (clock_now_ns() > end)
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

int target_lock(const char *command, pid_t pid)
{
	static pid_t locked;
	struct other o;
	char path[64];

	if (locked == pid)
		return CLI_OK;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", pid, pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return CLI_OK;
	if (is_taken(fd)) {
		int status = refuse_second(command, pid, fd);
		close(fd);
		return status;
	}
	if (was_started_by(pid, &o)) {
		close(fd);
		return say(command, pid, &o);
	}
	int status = wait_until_left(command, pid);
	if (status)
		close(fd);
	else
		locked = pid; /* the descriptor stays open */
	return status;
}
