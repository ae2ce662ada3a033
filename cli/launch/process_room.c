/* SPDX-License-Identifier: MIT */
/*
 * process_room.c - whether a process with a limit of its address space, of what it locks in memory,
 * or of its descriptors has room for a tool.
 *
 * Memory without a page counts, too. Without the question a tool fails halfway, and what it has
 * mapped by then takes the room from the program, whose next malloc(3) fails. In a process that
 * locks all that it maps, that is locked as well. The kernel does not show other processes whether
 * it does, but then most of it is locked. An event takes a descriptor in each thread: it has a high
 * number, for the low ones are the program's, which may count on all of them.
 */
#include "cli/launch/process_room.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/own_fd.h"
#include "cli/launch/program.h"
#include "cli/message.h"

#define MIB ((uint64_t)1 << 20)
#define RESERVE_MIB 32u /* that is left for the program */

/*
 * Measured in a program with one thread, without what malloc(3) takes for a thread of Trapline if
 * there is room. The test `address_room` compares.
 */
static const struct {
	const char *what;
	uint32_t mib;
	uint32_t events; /* in a thread, at most: src/flow/flow_watch.c, src/heap/heap_watch.c */
} needs[] = {
	{ "flow", 330, 5 }, { "heap", 150, 5 }, { "growth", 500, 0 },  { "race", 160, 0 },
	{ "probe", 60, 0 }, { "patch", 48, 0 }, { "throttle", 36, 0 },
};

struct kind {
	const char *name; /* in /proc/PID/limits */
	const char *words;
	const char *option; /* of prlimit(1) */
};

/*
 * prlimit(2) shows nothing of a process of another user to a root without CAP_SYS_RESOURCE.
 * UINT64_MAX: the process has no limit, or that is not known.
 */
static uint64_t limit_of(pid_t pid, const char *name, bool is_hard)
{
	uint64_t limits[2] = { UINT64_MAX, UINT64_MAX };
	struct lines lines;
	char path[40];
	char *line;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	if (lines_open(&lines, path))
		return UINT64_MAX;
	while ((line = lines_next(&lines))) {
		const char *values = line + strlen(name);

		if (strncmp(line, name, strlen(name)))
			continue;
		/* "unlimited" is not a number */
		if (sscanf(values, "%" SCNu64 " %" SCNu64, &limits[0], &limits[1]) < 1)
			sscanf(values, " unlimited %" SCNu64, &limits[1]);
	}
	lines_close(&lines);
	return limits[is_hard];
}

static uint64_t bytes_of(pid_t pid, const char *name)
{
	char kib[32];

	return program_status(pid, pid, name, kib, sizeof(kib)) ? strtoull(kib, NULL, 10) * 1024 :
								  0;
}

static int check_limit(const char *command, pid_t pid, const struct kind *kind, uint64_t used,
		       uint64_t need)
{
	const uint64_t limit = limit_of(pid, kind->name, false);
	const uint64_t left = (limit > used ? limit - used : 0) / MIB;

	if (left >= need)
		return CLI_OK;
	return cli_wrong(command,
			 "process %d: its limit of %s leaves %" PRIu64 " MiB, and %s needs %" PRIu64
			 " MiB; raise it: prlimit --pid %d --%s=%" PRIu64,
			 pid, kind->words, left, command, need, pid, kind->option,
			 used + need * MIB);
}

/* It has locked most of its memory, and no right to lock without a limit. */
static bool is_locked(pid_t pid)
{
	char rights[32];

	return bytes_of(pid, "VmLck") > bytes_of(pid, "VmSize") / 2 &&
	       program_status(pid, pid, "CapEff", rights, sizeof(rights)) &&
	       !(strtoull(rights, NULL, 16) >> CAP_IPC_LOCK & 1);
}

static int check_memory(const char *command, pid_t pid, uint32_t mib)
{
	static const struct kind mapped = { "Max address space", "address space (RLIMIT_AS)",
					    "as" };
	static const struct kind locked = { "Max locked memory", "locked memory (RLIMIT_MEMLOCK)",
					    "memlock" };
	const uint64_t need = mib + RESERVE_MIB;

	/* The most that it has had: what it took and gave back it may take again. */
	const int status = check_limit(command, pid, &mapped, bytes_of(pid, "VmPeak"), need);
	if (status || !is_locked(pid))
		return status;
	return check_limit(command, pid, &locked, bytes_of(pid, "VmLck"), need);
}

static int check_descriptors(const char *command, pid_t pid, uint32_t events)
{
	char threads[32];

	if (!events || !program_status(pid, pid, "Threads", threads, sizeof(threads)))
		return CLI_OK;
	const uint64_t limit = limit_of(pid, "Max open files", true);
	const uint64_t need = OWN_FD_OF_TABLE + events * strtoull(threads, NULL, 10);
	if (limit >= need)
		return CLI_OK;
	return cli_wrong(command,
			 "process %d: its hard limit of descriptors (RLIMIT_NOFILE) is %" PRIu64
			 ", and %s needs %" PRIu64 "; raise it: prlimit --pid %d --nofile=%" PRIu64,
			 pid, limit, command, need, pid, need);
}

int process_room_check(const char *command, pid_t pid, const char *what)
{
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (strcmp(needs[i].what, what))
			continue;
		int status = check_memory(command, pid, needs[i].mib);
		return status ? status : check_descriptors(command, pid, needs[i].events);
	}
	return CLI_OK;
}
