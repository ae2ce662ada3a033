/* SPDX-License-Identifier: MIT */
/* uncovered.c - see uncovered.h. */
#include "cli/launch/uncovered.h"

#include "cli/launch/preloadable.h"
#include "cli/launch/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 32
#define EXECS_NS 2000000

static bool is_empty(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	FILE *f = fopen(path, "re");
	const bool empty = !f || fgetc(f) == EOF;
	if (f)
		fclose(f);
	return empty;
}

static bool environment_has_preload(pid_t pid)
{
	char path[64];
	char *line = NULL;
	size_t room = 0;
	bool is_found = false;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return true;
	while (!is_found && getdelim(&line, &room, 0, f) > 0)
		is_found = !strncmp(line, "LD_PRELOAD=", 11) && strstr(line, "libtrapline-agent");
	free(line);
	fclose(f);
	return is_found;
}

/*
 * As the program began: it may have changed it. During an execve(2) both files are empty for a
 * moment, the arguments less long (create_elf_tables() of Linux); else there is an argument.
 */
static bool has_preload(pid_t pid)
{
	const struct timespec moment = { 0, EXECS_NS };

	if (environment_has_preload(pid))
		return true;
	nanosleep(&moment, NULL);
	return is_empty(pid, "cmdline") || environment_has_preload(pid);
}

/* NULL: not known, or the agent has not begun yet. */
static const char *reason(pid_t pid, const char *exe)
{
	if (program_is_32_bit(exe))
		return "it is a 32-bit program, and the agent is for 64-bit programs";
	if (program_is_static(exe))
		return "it is linked statically; link it dynamically";
	if (program_is_secure(exe))
		return "it is setuid or setgid, or has capabilities; run it as its owner";
	if (!has_preload(pid))
		return "it was started without the environment variable LD_PRELOAD; keep this variable";
	return preloadable_hindrance(exe);
}

static void read_name(pid_t pid, char *out, size_t n)
{
	char name[32] = "?";

	program_status(pid, pid, "Name", name, sizeof(name));
	char *text = name + strspn(name, "\t ");
	snprintf(out, n, "%.*s", (int)strcspn(text, "\n"), text);
}

static void count_alive(struct uncovered *u, pid_t pid)
{
	if (u->alive++)
		return;
	u->alive_pid = pid;
	read_name(pid, u->alive_name, sizeof(u->alive_name));
}

static void inspect_one(struct uncovered *u, pid_t pid)
{
	size_t row = (size_t)pid % UNCOVERED_KNOWN;
	uint64_t start;
	uint64_t end;
	struct stat st;
	char exe[64];

	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	if (stat(exe, &st))
		return;
	if (u->known[row].pid == pid && u->known[row].inode == st.st_ino) {
		if (u->known[row].is_covered)
			count_alive(u, pid);
		return;
	}
	bool is_covered = program_mapping(pid, u->mapping, 0, &start, &end);
	if (is_covered)
		count_alive(u, pid);
	const char *why = is_covered ? NULL : reason(pid, exe);
	u->starting += !is_covered && !why;
	if (!is_covered && !why)
		return;
	u->known[row].pid = pid;
	u->known[row].inode = st.st_ino;
	u->known[row].is_covered = is_covered;
	if (is_covered || u->count++)
		return;
	read_name(pid, u->name, sizeof(u->name));
	u->pid = pid;
	u->why = why;
}

static void inspect_tree(struct uncovered *u, pid_t pid, int depth);

static void inspect_children_of(struct uncovered *u, pid_t pid, pid_t tid, int depth)
{
	char path[64];
	pid_t child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	FILE *f = fopen(path, "re");
	while (f && fscanf(f, "%d", &child) == 1)
		inspect_tree(u, child, depth);
	if (f)
		fclose(f);
}

static void inspect_below(struct uncovered *u, pid_t pid, int depth)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			inspect_children_of(u, pid, atoi(e->d_name), depth + 1);
	if (d)
		closedir(d);
}

static void inspect_tree(struct uncovered *u, pid_t pid, int depth)
{
	inspect_one(u, pid);
	if (depth < DEPTH_MAX)
		inspect_below(u, pid, depth);
}

void uncovered_inspect(struct uncovered *u)
{
	u->alive = u->starting = 0;
	inspect_below(u, getpid(), 0);
}
