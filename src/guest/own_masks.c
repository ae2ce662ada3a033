/* SPDX-License-Identifier: MIT */
/* own_masks.c - see own_masks.h. */
#include "guest/own_masks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/lines.h"
#include "base/marker.h"
#include "base/signal_bit.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "trap/foreign.h"

#define MOST 16u
#define KEPT                                                                         \
	(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(MARKER_OF_SIGTRAP) | \
	 SIGNAL_BIT(MARKER_OF_SIGSEGV))

static uint64_t own[MOST];
static uint32_t count; /* more than there is room for: any mask may be one */

int own_masks_of(pid_t tid, const char *name, uint64_t *mask)
{
	const size_t n = strlen(name);
	struct lines lines;
	char path[64];
	int found = -ENODATA;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	int err = lines_open(&lines, path);
	if (err)
		return err;
	for (const char *line; found && (line = lines_next(&lines));) {
		if (strncmp(line, name, n) || strncmp(line + n, ":\t", 2))
			continue;
		*mask = strtoull(line + n + 2, NULL, 16);
		found = 0;
	}
	lines_close(&lines);
	return found;
}

int own_masks_have(uint64_t mask, uint64_t open)
{
	const uint32_t n = atomic_get(&count);

	for (uint32_t i = 0; i < n && i < MOST; i++)
		if (!(own[i] & open) && (own[i] | KEPT) == (mask | KEPT))
			return 1;
	return n > MOST;
}

static int is_noted(uint64_t mask)
{
	for (uint32_t i = 0; i < count && i < MOST; i++)
		if (own[i] == mask)
			return 1;
	return 0;
}

static int look_at(void *each, pid_t tid)
{
	void (*const tell)(uint64_t) = *(void (**)(uint64_t))each;
	uint64_t mask;

	if ((tid == sys_gettid() && foreign_keeps_sent()) || own_masks_of(tid, "SigBlk", &mask))
		return 0;
	if (tell)
		tell(mask);
	if ((mask & OWN_MASKS_SIGNALS) != OWN_MASKS_SIGNALS || is_noted(mask))
		return 0;
	if (count < MOST)
		own[count] = mask;
	atomic_add(&count, 1u);
	return 0;
}

void own_masks_read(void (*each)(uint64_t mask))
{
	struct task_names names;

	atomic_set(&count, 0u);
	tasks_each(sys_getpid(), &names, look_at, &each);
}
