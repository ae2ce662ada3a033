/* SPDX-License-Identifier: MIT */
/* locked.c - see locked.h: /proc/self/smaps, which is read only in a process that has locked something. */
#include "code/poke/locked.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/lines.h"
#include "base/own_status.h"
#include "base/sys.h"

#define ON_FAULT 1 /* MLOCK_ONFAULT */
#define FLAGS_BYTES 256

static int is_line_of(const char *line, uint64_t address)
{
	uint64_t start;
	uint64_t end;

	/* Else it is about the mapping of a line before, or the rest of a long name. */
	return sscanf(line, "%lx-%lx ", &start, &end) == 2 && address >= start && address < end;
}

/* 0 or -errno. */
static int read_flags(uint64_t address, char flags[FLAGS_BYTES])
{
	struct lines smaps;
	int is_there = 0;
	int err = lines_open(&smaps, "/proc/self/smaps");
	char *line;

	if (err)
		return err;
	err = -ENOENT;
	while (err && (line = lines_next(&smaps))) {
		is_there = is_there || is_line_of(line, address);
		if (is_there && !strncmp(line, "VmFlags:", 8))
			err = snprintf(flags, FLAGS_BYTES, "%s", line + 8) < 0;
	}
	lines_close(&smaps);
	return err;
}

/* Kernels that have no name for a lock on a fault print question marks. */
enum locked locked_at(uint64_t address)
{
	char flags[FLAGS_BYTES];

	if (own_status("\nVmLck:\t       0") == ' ')
		return LOCKED_NOT;
	if (read_flags(address, flags))
		return LOCKED_UNKNOWN;
	if (!strstr(flags, " lo"))
		return LOCKED_NOT;
	return strstr(flags, " lf") || strstr(flags, " ??") ? LOCKED_ON_FAULT : LOCKED_ALL;
}

int locked_is_accounted(uint64_t address)
{
	char flags[FLAGS_BYTES];

	return read_flags(address, flags) || strstr(flags, " ac");
}

int locked_set(uint64_t address, uint64_t bytes, enum locked as)
{
	if (as == LOCKED_NOT)
		return 0;
	if (as == LOCKED_ON_FAULT)
		return (int)sys3(SYS_mlock2, address, bytes, ON_FAULT);
	return (int)sys2(SYS_mlock, address, bytes);
}
