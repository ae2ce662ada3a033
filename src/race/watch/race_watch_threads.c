/* SPDX-License-Identifier: MIT */
/*
 * race_watch_threads.c - watches and breakpoints as events of the threads.
 *
 * An event that lies in a thread costs it at each switch, even disabled. Where the samples need
 * none, nothing else does either: watches and breakpoints are opened again for each stall. That
 * costs half as much again as to move them.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/atomic.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/control.h"
#include "event/event.h"
#include "race/race.h"
#include "race/race_birth.h"
#include "race/race_state.h"
#include "race/stall/race_slot.h"
#include "race/watch/race_watch.h"
#include "trap/inflight.h"

TRAP_PATH static int threads_take(void)
{
	return 1;
}

TRAP_PATH static void threads_give(void)
{
}

TRAP_PATH static enum trapline_access access_of(const struct race_target *t)
{
	return t->access & RACE_WRITE ? TRAPLINE_READ_WRITE : TRAPLINE_WRITE;
}

TRAP_PATH static int move(struct race_slot *slot)
{
	const struct race_target *t = &slot->target;

	return event_aim(slot->event, t->part, t->part_len, access_of(t));
}

TRAP_PATH static int open_again(struct race_slot *slot)
{
	const struct race_target *t = &slot->target;

	race_slot_count_again(slot);
	return event_aim_again(slot->event, t->part, t->part_len, access_of(t), &slot->names);
}

TRAP_PATH static void threads_pass_over(const struct race_slot *slot)
{
}

TRAP_PATH static void threads_pause(struct race_slot *slot)
{
	event_pause(slot->event);
}

TRAP_PATH static void retire(struct race_slot *slot)
{
	event_retire(slot->event);
	inflight_wait(race.pid, slot->event->index);
}

TRAP_PATH static void retire_and_close(struct race_slot *slot)
{
	retire(slot);
	event_let_go(slot->event);
}

TRAP_PATH static int threads_count_traps(const struct race_slot *slot, uint64_t *traps)
{
	return event_read_count(slot->event, 0, traps);
}

TRAP_PATH static int has_missed_none(const struct race_slot *slot)
{
	return 0;
}

/*
 * In a program that ran before us thread creations are not reported. But each takes a new id, after
 * it has got its events: while the last id of the pid namespace is the same, no thread was created.
 */
TRAP_PATH static uint64_t last_thread_id(void)
{
	char text[128];
	uint64_t id = 0;
	int fd = own_fd_open("/proc/loadavg", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : sys_read(fd, text, sizeof(text));

	if (fd >= 0)
		sys_close(fd);
	for (ssize_t i = 0; i < n && text[i] != '\n'; i++)
		id = text[i] == ' ' ? 0 : id * 10 + (uint64_t)(text[i] - '0');
	return n > 0 ? id : UINT64_MAX;
}

TRAP_PATH static uint64_t births_begun(void)
{
	if (race.flags & RACE_IS_LATE)
		return last_thread_id();
	/*
	 * In this order: a thread creation that ends before it is looked for has begun before, too.
	 */
	uint64_t ended = atomic_get(&race_births.ended);
	uint64_t begun = atomic_get(&race_births.begun);

	return begun == ended ? begun : UINT64_MAX;
}

/* In all threads, or in the caller and those that it creates from now on, which inherit it. */
TRAP_PATH static int threads_aim_all(struct trapline_event *ev, uint64_t pc, int is_birth)
{
	if (atomic_get(&race.has_shared_aim))
		return event_aim(ev, pc, sizeof(long), TRAPLINE_EXECUTE);
	event_let_go(ev); /* perhaps another thread's */
	return event_aim_self(ev, pc);
}

const struct race_watch_ops race_watch_kept = {
	.take = threads_take,
	.give = threads_give,
	.arm = move,
	.pass_over = threads_pass_over,
	.pause = threads_pause,
	.disarm = retire,
	.count_traps = threads_count_traps,
	.may_have_missed = has_missed_none,
	.births = births_begun,
	.aim_all = threads_aim_all,
	.put_away = event_rest,
	.is_of_threads = 1,
};

/* It is not worth while to keep the breakpoint open. */
const struct race_watch_ops race_watch_again = {
	.take = threads_take,
	.give = threads_give,
	.arm = open_again,
	.pass_over = threads_pass_over,
	.pause = threads_pause,
	.disarm = retire_and_close,
	.count_traps = threads_count_traps,
	.may_have_missed = has_missed_none,
	.births = births_begun,
	.aim_all = threads_aim_all,
	.put_away = event_let_go,
	.is_of_threads = 1,
	.opens_again = 1,
};

const struct race_watch_ops *race_watch = &race_watch_kept;
