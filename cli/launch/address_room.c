/* SPDX-License-Identifier: MIT */
/*
 * address_room.c - whether a process with a limit of its address space (RLIMIT_AS) has room for a tool.
 *
 * Memory without a page counts, too. Without the question a tool fails halfway, and what it has mapped by
 * then takes the room from the program, whose next malloc(3) fails.
 */
#include "cli/launch/address_room.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/cmd.h"

#define MIB ((uint64_t)1 << 20)
#define RESERVE_MIB 32u /* that is left for the program */

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

static uint64_t mapped_bytes(pid_t pid)
{
	unsigned long long pages = 0;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * 4096;
}

int address_room_check(const char *command, pid_t pid, const char *option)
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
