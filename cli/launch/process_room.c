/* SPDX-License-Identifier: MIT */
/*
 * process_room.c - whether a process with a limit of its address space or of its descriptors has room for a tool.
 *
 * Memory without a page counts, too. Without the question a tool fails halfway, and what it has mapped by
 * then takes the room from the program, whose next malloc(3) fails. An event takes a descriptor in each
 * thread: it has a high number, for the low ones are the program's, which may count on all of them.
 */
#include "cli/launch/process_room.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/cmd.h"
#include "cli/launch/program.h"

#define MIB ((uint64_t)1 << 20)
#define RESERVE_MIB 32u /* that is left for the program */
/* Of the events of flow and heap: src/flow/flow_watch.c, src/heap/heap_watch.c. */
#define LOWEST_FD 600u
#define EVENTS 5u /* in a thread, at most */

/*
 * Measured in a program with one thread, without what malloc(3) takes for a thread of ours if there is room.
 * The test `address_room` compares.
 */
static const struct {
	const char *option;
	uint32_t mib;
} needs[] = {
	{ "flow", 330 }, { "heap", 150 },    { "race", 160 },
	{ "probe", 60 }, { "throttle", 36 }, { "patch", 48 },
};

/* The most that it has had: what it took and gave back it may take again. */
static uint64_t mapped_bytes(pid_t pid)
{
	char kib[32];

	return program_status(pid, pid, "VmPeak", kib, sizeof(kib)) ?
		       strtoull(kib, NULL, 10) * 1024 :
		       0;
}

static int check_address_space(const char *command, pid_t pid, const char *option)
{
	struct rlimit limit;
	uint64_t need = 0;

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (!strcmp(needs[i].option, option))
			need = needs[i].mib;
	if (!need || prlimit(pid, RLIMIT_AS, NULL, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return CLI_OK;
	const uint64_t used = mapped_bytes(pid);
	const uint64_t left = (limit.rlim_cur > used ? limit.rlim_cur - used : 0) / MIB;
	if (left >= need + RESERVE_MIB)
		return CLI_OK;
	return cli_wrong(command,
			 "process %d: its limit of address space (RLIMIT_AS) leaves %" PRIu64
			 " MiB, and %s needs %" PRIu64
			 " MiB; raise it: prlimit --pid %d --as=%" PRIu64,
			 pid, left, command, need + RESERVE_MIB, pid,
			 used + (need + RESERVE_MIB) * MIB);
}

static int check_descriptors(const char *command, pid_t pid, const char *option)
{
	struct rlimit limit;
	char threads[32];

	if ((strcmp(option, "flow") && strcmp(option, "heap")) ||
	    prlimit(pid, RLIMIT_NOFILE, NULL, &limit) ||
	    !program_status(pid, pid, "Threads", threads, sizeof(threads)))
		return CLI_OK;
	const rlim_t need = LOWEST_FD + EVENTS * strtoull(threads, NULL, 10);
	if (limit.rlim_max >= need)
		return CLI_OK;
	return cli_wrong(command,
			 "process %d: its hard limit of descriptors (RLIMIT_NOFILE) is %" PRIu64
			 ", and %s needs %" PRIu64 "; raise it: prlimit --pid %d --nofile=%" PRIu64,
			 pid, (uint64_t)limit.rlim_max, command, (uint64_t)need, pid,
			 (uint64_t)need);
}

int process_room_check(const char *command, pid_t pid, const char *option)
{
	int status = check_address_space(command, pid, option);

	return status ? status : check_descriptors(command, pid, option);
}
