/* SPDX-License-Identifier: MIT */
/*
 * race_end.c - the search ends in this process. Only the handler of SIGTRAP stays, and it
 * is idle.
 *
 * Safe in a handler: if trapline was killed, the thread that notices it at its next
 * sample does the work. The order matters. No new stall begins; all events are disabled;
 * running callbacks end; the events are closed; callbacks that began in between end; then
 * the memory that callbacks use is released.
 */
#include "race/race_end.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/event.h"
#include "event/limit.h"
#include "race/race.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/watch/race_watch_cpus.h"
#include "record/race_region.h"
#include "trap/inflight.h"

/* A command that cannot be seen from here is taken for gone after that time. */
#define UNWATCHED_NS 60000000000u

TRAP_PATH int race_is_unwatched(void)
{
	if (race.observer)
		return sys2(SYS_kill, race.observer, 0) == -ESRCH;
	uint64_t looked = atomic_get(&race.region->looked_ns);
	uint64_t now = looked ? clock_now_ns() : 0;

	return now > looked && now - looked > UNWATCHED_NS;
}

TRAP_PATH int race_end_if_over(void)
{
	int is_over = atomic_get(&race.region->stop) != 0;

	if (!is_over && !race_is_unwatched())
		return 0;
	/* One that only was still will want to know. */
	race_end(is_over ? RACE_STEP_NONE : RACE_STEP_UNWATCHED, is_over ? 0 : -ECANCELED);
	return 1;
}

static uint64_t ended_ns;

TRAP_PATH int race_has_ended_for(uint64_t ns)
{
	uint32_t phase = atomic_get(&race.phase);

	return phase == RACE_IDLE ||
	       (phase == RACE_ENDED && clock_now_ns() - atomic_get(&ended_ns) > ns);
}

#define EVENTS (RACE_TIMERS + RACE_SLOTS + RACE_AIM_ROWS + 2)

TRAP_PATH static struct trapline_event *event_at(uint32_t i)
{
	if (i < RACE_TIMERS)
		return race.timers[i];
	i -= RACE_TIMERS;
	if (i < RACE_SLOTS)
		return race.slots[i].event;
	i -= RACE_SLOTS;
	if (i < RACE_AIM_ROWS)
		return race.aims[i].event;
	return i == RACE_AIM_ROWS ? race.shared_aim.event : race.turn.event;
}

TRAP_PATH static void each_event(void (*act)(struct trapline_event *))
{
	for (uint32_t i = 0; i < EVENTS; i++)
		if (event_at(i))
			act(event_at(i));
}

TRAP_PATH static int wait_for_callbacks(void)
{
	int err = 0;

	for (uint32_t i = 0; i < EVENTS; i++)
		if (event_at(i) && inflight_wait(race.pid, event_at(i)->index))
			err = -EBUSY;
	return err;
}

void race_let_go_of_copies(void)
{
	race_outside_end();
	race_outside_close();
	race_cpus_forked();
	each_event(event_forget_copies);
	each_event(event_free);
}

TRAP_PATH static void give_back(void)
{
	struct race_region *region = race.region;

	each_event(event_free);
	if (!(race.flags & RACE_OWNS_REGION))
		return;
	/* A child that is forked just now must not find it half gone. */
	atomic_set(&race.region, (struct race_region *)NULL);
	memory_unmap(region, sizeof(*region));
}

TRAP_PATH int race_end(enum race_step why, int error)
{
	uint32_t phase = RACE_RUNNING;

	if (!atomic_cas(&race.phase, &phase, (uint32_t)RACE_ENDING))
		return -EALREADY;
	atomic_set(&race.is_stopped, 1u);
	race_outside_end();
	race_cpus_stop();
	each_event(event_pause);
	int err = wait_for_callbacks();
	each_event(event_let_go);
	int later = wait_for_callbacks();
	err = err ? err : later;
	race_cpus_end();
	race_outside_close();
	event_limit_restore();
	if (why) {
		race.process->step = why;
		race.process->error = error;
	}
	atomic_set(&race.process->state, (uint32_t)RACE_PROCESS_ENDED);
	/* A thread that left a callback by a jump may still use it: then it is lost for good. */
	if (!err)
		give_back();
	atomic_set(&ended_ns, clock_now_ns());
	atomic_set(&race.phase, (uint32_t)RACE_ENDED);
	return err;
}
