/* SPDX-License-Identifier: MIT */
/* locked.c - see locked.h: /proc/self/smaps, which is read only in a process that has locked something. */
#include "code/poke/locked.h"

#include <stdio.h>
#include <string.h>

#include "base/lines.h"
#include "base/own_status.h"
#include "base/sys.h"

#define ON_FAULT 1 /* MLOCK_ONFAULT */

static int is_line_of(const char *line, uint64_t address)
{
	uint64_t start;
	uint64_t end;

	/* Else it is about the mapping of a line before, or the rest of a long name. */
	return sscanf(line, "%lx-%lx ", &start, &end) == 2 && address >= start && address < end;
}

/* Kernels that have no name for this flag print question marks. */
static enum locked read_flags(const char *flags)
{
	if (!strstr(flags, " lo"))
		return LOCKED_NOT;
	return strstr(flags, " lf") || strstr(flags, " ??") ? LOCKED_ON_FAULT : LOCKED_ALL;
}

enum locked locked_at(uint64_t address)
{
	enum locked as = LOCKED_UNKNOWN;
	struct lines smaps;
	int is_there = 0;
	char *line;

	if (own_status("\nVmLck:\t       0") == ' ')
		return LOCKED_NOT;
	if (lines_open(&smaps, "/proc/self/smaps"))
		return LOCKED_UNKNOWN;
	while (as == LOCKED_UNKNOWN && (line = lines_next(&smaps))) {
		is_there = is_there || is_line_of(line, address);
		if (is_there && !strncmp(line, "VmFlags:", 8))
			as = read_flags(line + 8);
	}
	lines_close(&smaps);
	return as;
}

int locked_set(uint64_t address, uint64_t bytes, enum locked as)
{
	if (as == LOCKED_NOT)
		return 0;
	if (as == LOCKED_ON_FAULT)
		return (int)sys3(SYS_mlock2, address, bytes, ON_FAULT);
	return (int)sys2(SYS_mlock, address, bytes);
}
