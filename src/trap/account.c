/* SPDX-License-Identifier: MIT */
/* account.c - see account.h. */
#include "base/general_regs.h"

#include "base/trap_path.h"
#include "trap/account.h"

#include "base/atomic.h"
#include "base/sys.h"
#include "event/control.h"
#include "trap/room.h"

TRAP_PATH void account_lost(struct trapline_event *ev, uint64_t *counter)
{
	counter_add(counter, 1);
	if (ev->mirror)
		counter_add(counter == &ev->lost_nested ? &ev->mirror->lost_nested :
							  &ev->mirror->lost_late,
			    1);
	if (ev->has_limit && ev->evaluated_in == TRAPLINE_EVALUATED_IN_KERNEL)
		atomic_add(&ev->control->budget, 1);
}

TRAP_PATH void account_late(struct trapline_event *ev, uint64_t data)
{
	uint32_t state = atomic_get(&ev->state);
	uint32_t age = atomic_get(&ev->generation) - (uint32_t)data;

	if (state == EVENT_LIVE && age <= ev->generation - ev->first_generation)
		account_lost(ev, &ev->lost_late);
	else if (ev->mirror)
		counter_add(&ev->mirror->lost_late, 1);
}

TRAP_PATH int account_grant(struct trapline_event *ev, int *last)
{
	uint64_t granted = atomic_get(&ev->granted);

	*last = 0;
	if (!ev->has_limit)
		return 1;
	if (ev->evaluated_in == TRAPLINE_EVALUATED_IN_KERNEL) {
		*last = !event_budget_left(ev);
		return 1;
	}
	for (;;) {
		uint64_t limit = atomic_get(&ev->limit);
		if (granted >= limit)
			return 0;
		if (atomic_cas(&ev->granted, &granted, granted + 1)) {
			*last = granted + 1 >= limit;
			return 1;
		}
	}
}

/* Does an event without a program count an access at this address by the calling thread? */
TRAP_PATH static int counts_access(const struct trapline_event *ev, uint64_t address)
{
	uint32_t state = atomic_get(&ev->state);

	if ((state != EVENT_LIVE && state != EVENT_OPENING) || !event_is_data(ev) || ev->control ||
	    ev->mechanism != TRAPLINE_BY_SIGNAL || !atomic_get(&ev->applied) ||
	    ev->owner_pid != trap_room.pid)
		return 0;
	if (ev->scope != TRAPLINE_PROCESS && ev->armed_tid != sys_gettid())
		return 0;
	for (uint32_t i = 0; i < ev->part_count; i++)
		if (address - atomic_get(&ev->parts[i].addr) < ev->parts[i].len)
			return 1;
	return 0;
}

TRAP_PATH void account_step(const struct past *past, uint64_t watched)
{
	const uint64_t address = past->access > watched ? past->access : watched;
	const struct trapline_event *signalled = &event_table[past->data >> 40 & 0xff];

	if (!past->is_hit || past->data >> 48 != event_magic())
		return;
	for (uint32_t i = 0; i < EVENT_MAX; i++) {
		struct trapline_event *row = &event_table[i];

		if ((row == signalled && !row->control) || counts_access(row, address))
			atomic_add(&row->stepped, 1u);
	}
}
