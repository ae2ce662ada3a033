/* SPDX-License-Identifier: MIT */
/* inflight.c - see inflight.h. */
#include "base/general_regs.h"

#include "base/trap_path.h"
#include "trap/inflight.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/table_size.h"

/* More callbacks at once than this are not run: their hits are lost and counted as nested. */
#define ENTRIES TABLE_SIZE(4096u, 2u)
#define WAIT_STEP_NS 50000
#define WAIT_STEPS 40000 /* 2 s and more: only a callback that left without a word lasts so long */

/* tid << 32 | event index + 1; 0 is free. */
static uint64_t entries[ENTRIES];

TRAP_PATH uint64_t *inflight_enter(pid_t tid, uint32_t event_index)
{
	uint64_t mine = (uint64_t)(uint32_t)tid << 32 | (event_index + 1);
	uint32_t at = (uint32_t)tid * 2654435761u % ENTRIES;

	for (uint32_t n = 0; n < ENTRIES; n++, at = (at + 1) % ENTRIES) {
		uint64_t held = atomic_get(&entries[at]);

		/* Trapline's already: an earlier callback left by siglongjmp. */
		if (held && held >> 32 != (uint32_t)tid)
			continue;
		if (atomic_cas(&entries[at], &held, mine))
			return &entries[at];
	}
	return NULL;
}

TRAP_PATH void inflight_leave(uint64_t *entry)
{
	/*
	 * The thread that waits loops. What was done inside is done then; more order would cost a
	 * locked write.
	 */
	if (entry)
		__atomic_store_n(entry, 0, __ATOMIC_RELEASE);
}

static int is_alive(pid_t pid, uint64_t entry)
{
	return sys_tgkill(pid, (pid_t)(entry >> 32), 0) != -ESRCH;
}

/* Forgets the entry of a thread that has died. */
static int inflight_is_inside(pid_t pid, uint64_t *entry, uint32_t event_index)
{
	uint64_t held = atomic_get(entry);

	if ((uint32_t)held != event_index + 1 || held >> 32 == (uint32_t)sys_gettid())
		return 0;
	if (is_alive(pid, held))
		return 1;
	atomic_cas(entry, &held, 0);
	return 0;
}

int inflight_is_any(pid_t pid, uint32_t event_index)
{
	for (uint32_t i = 0; i < ENTRIES; i++)
		if (inflight_is_inside(pid, &entries[i], event_index))
			return 1;
	return 0;
}

int inflight_wait(pid_t pid, uint32_t event_index)
{
	struct timespec step = { 0, WAIT_STEP_NS };
	int steps = 0;

	for (uint32_t i = 0; i < ENTRIES; i++)
		while (inflight_is_inside(pid, &entries[i], event_index)) {
			if (++steps > WAIT_STEPS)
				return -EBUSY;
			sys_nap(&step);
		}
	return 0;
}
