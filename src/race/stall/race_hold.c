/* SPDX-License-Identifier: MIT */
/*
 * race_hold.c - a thread is stalled before its access while the address is watched.
 *
 * The watchpoint is active before the old value is read and until the new value has been
 * read. A change that no thread was seen making was therefore made by something that
 * cannot trap here: the kernel or another process. A second thread that hit the
 * watchpoint in time is waited for even after the delay (inflight_wait), so that its slot
 * is not reused while it is in the callback.
 */
#include "race/stall/race_hold.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "base/aligned.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_stored.h"
#include "event/event.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_fork.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_walk.h"
#include "race/stall/race_last.h"
#include "race/stall/race_memory.h"
#include "race/stall/race_outwait.h"
#include "race/stall/race_slot.h"
#include "race/sweep/race_call_targets.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_sites.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"
#include "trap/dispatch.h"
#include "trap/room.h"
#include "trap/stack.h"

/* What lies so close above the stack pointer is most often the thread's own. */
#define OWN_STACK_BYTES 65536u
#define RED_ZONE_BYTES 256u
/* Longer waits are inspected: a slice in which no other thread runs is the last one. */
#define SLICE_NS 1000000u
#define CALLERS_MAX 16u	   /* functions of libc that call each other */
#define TOLD_MAX 16u	   /* records of one pair */
#define TOLD_MAX_LOCKED 4u /* right programs have these, too */
/* On a busy machine a thread may wait so long for a CPU after its stall. */
#define LEFT_AFTER_NS 10000000000u
/* So long a signal may take from the trap to its handler, on a busy machine. */
#define ARRIVAL_STEP_NS 200000
#define ARRIVAL_STEPS 25

/* A naturally aligned piece of the access, by chance when it has several. */
TRAP_PATH void race_choose_part(struct race_target *t)
{
	uint64_t at = t->address;
	uint64_t end = t->address + t->size;
	uint32_t seen = 0;

	/* Vectors are long: begin anywhere in them. */
	if (t->size > 4 * ALIGNED_PART_MAX)
		at += race_random() % (t->size - 4 * ALIGNED_PART_MAX) & ~7ull;
	for (int n = 0; n < 8 && at < end; n++) {
		uint32_t len = aligned_part(at, end - at);

		if (race_random() % ++seen == 0) {
			t->part = at;
			t->part_len = len;
		}
		at += len;
	}
}

/* One step of a string instruction that continues: any of those that will come. */
TRAP_PATH static void choose_step(const struct insn *insn, const struct insn_memory *m,
				  const struct insn_regs *regs, struct race_target *t)
{
	uint64_t count = regs->r[INSN_RCX];
	int backwards = regs->flags >> 10 & 1;

	if (insn->kind != INSN_STRING || !(m->flags & INSN_MEM_REPEATS) || count < 2)
		return;
	/* repe and repne may end before: only the first step is sure (scas, cmps read). */
	if (insn->memory_count == 2 ? !(insn->memory[0].access & INSN_WRITE) &&
					      !(insn->memory[1].access & INSN_WRITE) :
				      !(m->access & INSN_WRITE))
		return;
	uint64_t bytes = count * m->size;
	if (bytes / m->size != count || bytes > 1u << 30)
		return;
	if (backwards)
		t->address -= bytes - m->size;
	t->size = (uint32_t)bytes;
}

/* The access that the instruction at hit->ip is about to make. */
TRAP_PATH static int find_target(const struct insn *insn, const uint8_t *code,
				 const struct insn_regs *regs, int is_escaped,
				 struct race_target *out)
{
	unsigned int chosen = INSN_MEMORY_MAX;
	uint32_t seen = 0;

	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (race_is_worth_it(insn, i, regs, is_escaped) && race_random() % ++seen == 0)
			chosen = i;
	if (chosen == INSN_MEMORY_MAX)
		return -ENOENT;
	const struct insn_memory *m = &insn->memory[chosen];
	int err = insn_address(insn, chosen, regs, &out->address);
	if (err)
		return err;
	out->size = m->size;
	out->access = m->access;
	out->flags = RACE_DECODED | (insn->flags & INSN_VECTOR && m->size > 8 ? RACE_VECTOR : 0);
	choose_step(insn, m, regs, out);
	race_choose_part(out);
	out->is_stored_known = !insn_stored_x86_64(insn, code, regs, &out->stored);
	return 0;
}

/* Own frames and constants are not worth a stall. Returns the counter, or -1. */
TRAP_PATH static int is_pointless(const struct trapline_hit *hit, int is_escaped,
				  const struct race_target *t)
{
	const struct race_module *m;

	if (!is_escaped && t->part - hit->sp + RED_ZONE_BYTES < OWN_STACK_BYTES + RED_ZONE_BYTES &&
	    race_random() % 8)
		return RACE_STALLS_STACK;
	m = race_module_of(t->part);
	if (m && (t->part < m->data_start || t->part >= m->data_end))
		return RACE_STALLS_CONSTANT;
	return -1;
}

TRAP_PATH void race_slot_count_again(struct race_slot *slot)
{
	slot->delivered_before = counter_get(&slot->event->delivered);
	slot->dropped_before = slot->dropped;
	slot->lost = 0;
	slot->lost_before = 0;
}

TRAP_PATH void race_slot_free(struct race_slot *slot)
{
	slot->ops->give();
	atomic_set(&slot->state, SLOT_FREE);
}

/*
 * A handler of the program for a fault can end a stall by siglongjmp or worse. The caller is not in the stall, so a slot of its own is one that it left that way.
 */
TRAP_PATH int race_slot_reclaim(struct race_slot *slot, pid_t caller, uint64_t now_ns)
{
	uint32_t state = atomic_get(&slot->state);

	/* tid and until_ns are those of the present owner from SLOT_OPEN on, and not before. */
	if (state == SLOT_FREE || state == SLOT_TAKEN || state == SLOT_FILLING ||
	    (slot->tid != caller && now_ns < slot->until_ns))
		return 0;
	if (!atomic_cas(&slot->state, &state, SLOT_TAKEN))
		return 0;
	race_count(RACE_STALLS_LEFT);
	slot->ops->pause(slot);
	slot->ops->disarm(slot);
	return 1;
}

/* With many threads, to open a watch in each of them costs too much. */
TRAP_PATH static int is_usable(const struct race_slot *slot)
{
	return race_watch->is_of_threads || !slot->ops->opens_again ||
	       counter_get(&race.budget.threads) < RACE_AGAIN_THREADS / 2;
}

/* 1: the slot is the caller's. Another process may have its watch. */
TRAP_PATH static int is_taken(struct race_slot *slot)
{
	if (slot->ops->take())
		return 1;
	atomic_set(&slot->state, SLOT_FREE);
	return 0;
}

TRAP_PATH static struct race_slot *take_slot(pid_t tid)
{
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < race.slot_count; i++) {
		struct race_slot *slot = &race.slots[i];
		uint32_t expected = SLOT_FREE;

		if (is_usable(slot) && atomic_cas(&slot->state, &expected, SLOT_TAKEN) &&
		    is_taken(slot))
			return slot;
	}
	for (uint32_t i = 0; i < race.slot_count; i++) {
		struct race_slot *slot = &race.slots[i];

		if (race_slot_reclaim(slot, tid, now) && is_taken(slot))
			return slot;
	}
	return NULL;
}

TRAP_PATH int race_has_free_slot(void)
{
	for (uint32_t i = 0; i < race.slot_count; i++)
		if (is_usable(&race.slots[i]) && atomic_get(&race.slots[i].state) == SLOT_FREE)
			return 1;
	return 0;
}

TRAP_PATH static void copy_name(char *name)
{
	sys5(SYS_prctl, 16 /* PR_GET_NAME */, name, 0, 0, 0);
	name[15] = '\0';
}

TRAP_PATH static void copy_code(struct race_side *side, uint64_t pc, const struct race_module *m)
{
	if (!m || pc < m->text_start || pc >= m->text_end)
		return;
	uint64_t before = pc - m->text_start < RACE_CODE_BEFORE ? pc - m->text_start :
								  RACE_CODE_BEFORE;
	uint64_t bytes = m->text_end - (pc - before);
	bytes = bytes < RACE_CODE ? bytes : RACE_CODE;
	side->code_before = (uint8_t)before;
	side->code_bytes = (uint8_t)bytes;
	memcpy(side->code, race_code(m, pc - before), bytes);
}

/* The side may be in shared memory: nothing is read back from there. */
TRAP_PATH void race_side_fill(struct race_side *side, const struct trapline_hit *hit, uint64_t pc,
			      unsigned int length, const struct race_module *module)
{
	uint64_t frames[RACE_FRAMES];
	uint32_t n = stack_unwind(hit->ip, frames, RACE_FRAMES);
	uint32_t count = 1;

	side->ip = pc;
	side->tid = hit->tid;
	side->length = (uint8_t)length;
	copy_name(side->thread);
	copy_code(side, pc, module);
	side->frames[0] = race_place_of(pc);
	for (; count < n && frames[count]; count++)
		side->frames[count] = race_place_of(frames[count]);
	side->frame_count = (uint8_t)count;
	if (module && module->policy == RACE_CODE_LIBC)
		side->flags |= race_block_access(pc) ? RACE_BLOCK : RACE_INSIDE;
}

/* What libc touches counts as an access of its caller: a runtime's does not. */
TRAP_PATH int race_is_called_by_included(const struct trapline_hit *hit)
{
	uint64_t frames[CALLERS_MAX];
	uint32_t n = stack_unwind(hit->ip, frames, CALLERS_MAX);

	for (uint32_t i = 1; i < n && frames[i]; i++) {
		const struct race_module *m = race_module_of(frames[i]);

		if (!m || m->policy != RACE_CODE_LIBC)
			return m && m->policy == RACE_CODE_INCLUDED;
	}
	return 0;
}

/* 1: wait on. Else the thread is released, since no thread is there to race with. */
TRAP_PATH static int is_anybody_running(uint64_t *cpu_ns, uint64_t slice_ns)
{
	uint64_t now = race_process_cpu_ns();
	uint64_t ran = now - *cpu_ns;

	*cpu_ns = now;
	return ran > slice_ns / 16;
}

TRAP_PATH int race_slot_waits(const struct race_slot *slot)
{
	return atomic_get(&slot->state) == SLOT_OPEN && !race_is_stopped() &&
	       !race_is_unwatched() && !race_is_forking();
}

TRAP_PATH static void wait_for_second(struct race_slot *slot, uint64_t delay_ns)
{
	uint64_t start = clock_now_ns();
	uint64_t cpu_ns = delay_ns > SLICE_NS ? race_process_cpu_ns() : 0;
	uint64_t left = delay_ns;
	uint32_t patience = race_strategy->patience();

	while (race_slot_waits(slot)) {
		uint64_t slice = left < SLICE_NS ? left : SLICE_NS;
		uint64_t slack = race.budget.slack_ns;
		uint64_t sleep_ns = slice > slack + 5000 ? slice - slack : 5000;
		struct timespec ts = { 0, (long)sleep_ns };
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &ts, NULL, 0);
		uint64_t passed = clock_now_ns() - start;
		if (passed + 5000 >= delay_ns)
			break;
		if (trap_signal_waits(slot->context)) {
			race_count(RACE_STALLS_SIGNALLED);
			break;
		}
		left = delay_ns - passed;
		if (cpu_ns && slice == SLICE_NS && !is_anybody_running(&cpu_ns, slice) &&
		    --patience == 0) {
			race_count(RACE_STALLS_IDLE);
			break;
		}
	}
}

TRAP_PATH static uint64_t read_part(const struct race_target *t, int *is_readable)
{
	uint64_t value = 0;

	*is_readable = sys_read_memory(race.pid, t->part, &value, t->part_len) ==
		       (ssize_t)t->part_len;
	return value;
}

/* A flag of the first side; 0: it stores nothing, or what is not known. */
TRAP_PATH static uint8_t what_is_stored(const struct race_target *t, uint64_t there)
{
	uint64_t mask = t->part_len == 8 ? ~0ull : (1ull << t->part_len * 8) - 1;

	if (!t->is_stored_known)
		return 0;
	uint64_t stored = t->stored >> (t->part - t->address) * 8;
	return (stored & mask) == (there & mask) ? RACE_STORES_SAME : RACE_STORES_OTHER;
}

TRAP_PATH static void fill_second(struct race_record *record, const struct race_slot *slot,
				  const struct race_caught *second, uint64_t now_value)
{
	memset(&record->second, 0, sizeof(record->second));
	record->new_value = second ? second->new_value : now_value;
	if (second) {
		record->second = second->side;
		if (slot->target.part - second->sp < OWN_STACK_BYTES)
			record->flags |= RACE_ON_STACK;
	} else {
		record->flags |= RACE_UNKNOWN_ORIGIN;
	}
	if (record->new_value != record->old_value)
		record->flags |= RACE_CHANGED;
	if (slot->atomic_seen)
		record->flags |= RACE_ATOMIC_SEEN;
	if (!(record->flags & RACE_CHANGED))
		record->first.flags |= what_is_stored(&slot->target, record->old_value);
}

TRAP_PATH void race_fill_first(struct race_record *record, const struct race_target *t,
			       const struct trapline_hit *hit, const struct race_module *module)
{
	memset(&record->first, 0, sizeof(record->first));
	record->first.address = t->address;
	record->first.size = t->size;
	record->first.access = t->access;
	record->first.flags = t->flags;
	race_side_fill(&record->first, hit, hit->ip, t->length, module);
}

/* second: NULL, no thread was seen. */
TRAP_PATH static void hold_tell(const struct trapline_hit *hit, const struct race_slot *slot,
				const struct race_module *module, const struct race_caught *second,
				uint64_t now_value)
{
	uint32_t pair = race_add_pair(race.region, race_place_of(hit->ip),
				      second ? second->side.frames[0] : 0);
	int is_locked = second == &slot->locked;
	uint64_t sequence;

	race_count(is_locked ? RACE_FOUND_LOCKED : RACE_FOUND);
	if (pair == RACE_PAIRS)
		race_count(RACE_LOST_TABLES);
	else if (counter_add(&race.region->pairs[pair].count, 1u) >=
		 (is_locked ? TOLD_MAX_LOCKED : TOLD_MAX)) {
		race_count(RACE_FOUND_REPEATED);
		return;
	}
	struct race_record *record = race_write_begin(race.region, &sequence);
	if (!record) {
		race_count(RACE_LOST_FULL);
		return;
	}
	const struct race_target *t = &slot->target;
	record->time_ns = clock_now_ns();
	record->held_since_ns = slot->opened_ns;
	/*
	 * A thread that comes while the watch is put on all threads was there before the stall
	 * began.
	 */
	uint64_t end_ns = second ? second->hit_ns : record->time_ns;
	record->stalled_ns = end_ns > slot->opened_ns ? end_ns - slot->opened_ns : 0;
	record->address = t->part;
	record->place = race_place_of(t->part);
	record->old_value = slot->old_value;
	record->len = t->part_len;
	record->flags = 0;
	record->pid = race.pid;
	record->pair = pair;
	race_fill_first(record, t, hit, module);
	fill_second(record, slot, second, now_value);
	race_tell_memory(record, hit->sp, second ? second->sp : 0);
	race_write_end(record, sequence);
	race_tell_reader();
}

/*
 * The value has changed and no thread has come. One may be on the way from the trap to Trapline's
 * handler. Or the signal was merged with another one, which the kernel's count shows. What is left
 * was not a thread of this process: 1. A thread created in the meantime may have escaped the watch.
 */
TRAP_PATH static int is_unknown_origin(struct race_slot *slot)
{
	struct trapline_event *ev = slot->event;
	struct timespec step = { 0, ARRIVAL_STEP_NS };
	uint64_t traps = 0;

	for (int i = 0; i < ARRIVAL_STEPS && atomic_get(&slot->state) == SLOT_OPEN &&
			!atomic_get(&slot->is_explained);
	     i++)
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &step, NULL, 0);
	if (atomic_get(&slot->state) != SLOT_OPEN || atomic_get(&slot->is_explained))
		return 0;
	if (slot->births == UINT64_MAX || slot->ops->births() != slot->births ||
	    slot->ops->may_have_missed(slot)) {
		race_count(RACE_CHANGES_UNSURE);
		return 0;
	}
	if (race_is_stopped() || slot->ops->count_traps(slot, &traps))
		return 0;
	uint64_t dropped = counter_get(&ev->lost_nested) + counter_get(&ev->lost_late);
	uint64_t lost = traps - (counter_get(&ev->delivered) - slot->delivered_before) -
			(dropped - slot->dropped_before);
	if (lost == slot->lost && dropped == slot->dropped)
		return 1;
	/* Lost for good, or only late? For good when it is the same at the next doubt too. */
	if (lost == slot->lost_before)
		slot->lost = lost;
	slot->lost_before = lost;
	race_count(RACE_HITS_LOST);
	return 0;
}

/* Returns how long the thread waited; 0: it did not. */
TRAP_PATH static uint64_t watch_and_wait(const struct trapline_hit *hit, struct race_slot *slot,
					 uint64_t delay_ns, const struct race_module *module)
{
	const struct race_target *t = &slot->target;
	int is_readable;

	slot->births = slot->ops->births();
	slot->dropped =
		counter_get(&slot->event->lost_nested) + counter_get(&slot->event->lost_late);
	atomic_set(&slot->state, SLOT_OPEN);
	uint64_t earlier = read_part(t, &is_readable);
	slot->old_value = earlier;
	int err = slot->ops->arm(slot);
	if (err) {
		race_count(RACE_STALLS_REFUSED);
		return 0;
	}
	uint64_t start = clock_now_ns();
	slot->opened_ns = start;
	slot->old_value = read_part(t, &is_readable);
	int came_before = atomic_get(&slot->state) != SLOT_OPEN ||
			  atomic_get(&slot->locked.state) != 0;
	if (!(t->access & RACE_WRITE))
		slot->ops->pass_over(slot);
	if (slot->spot)
		race_spot_served(slot->spots, slot->spot);
	if (is_readable) {
		wait_for_second(slot, delay_ns);
		slot->outwaited_ns = race_outwait(slot);
	}
	uint64_t waited = clock_now_ns() - start;
	int was_readable = is_readable;
	uint64_t now_value = read_part(t, &is_readable);
	slot->ops->pause(slot);
	int is_unknown = was_readable && is_readable && now_value != slot->old_value &&
			 is_unknown_origin(slot);
	slot->ops->disarm(slot);
	if (!was_readable) {
		race_count(RACE_STALLS_CONSTANT);
		return 0;
	}
	int is_filled = atomic_get(&slot->state) == SLOT_FILLED;
	race_count(RACE_STALLS);
	int has_locked = atomic_get(&slot->locked.state) == 2;
	/*
	 * A thread that came before the old value was read has changed it already, and others may
	 * have since.
	 */
	if (came_before || (is_filled && slot->second.new_value == slot->old_value) ||
	    (has_locked && slot->locked.new_value == slot->old_value))
		slot->old_value = earlier;
	if (is_filled)
		hold_tell(hit, slot, module, &slot->second, now_value);
	if (has_locked)
		hold_tell(hit, slot, module, &slot->locked, now_value);
	else if (!is_filled && is_unknown)
		hold_tell(hit, slot, module, NULL, now_value);
	return waited;
}

TRAP_PATH static void note_covered(const struct race_site *site)
{
	uint64_t at = counter_add(&race.region->sites_covered, 1u);

	if (at < RACE_HELD)
		atomic_set(&race.region->held[at], site->place);
}

TRAP_PATH static int hold(const struct trapline_hit *hit, const struct race_spots *spots,
			  struct race_spot *spot, const struct race_target *target,
			  const struct race_module *module)
{
	uint64_t all_ns = race_others_cpu_ns(0, 0);
	uint64_t cpu_ns = race_thread_cpu_ns();
	uint64_t start = clock_now_ns();
	struct race_site *site = race_add_site(race.region, race_place_of(hit->ip));
	struct race_slot *slot = take_slot(hit->tid);

	if (!slot) {
		race_count(RACE_STALLS_NO_SLOT);
		return -EBUSY;
	}
	if (race_is_forking()) {
		race_slot_free(slot);
		return -EBUSY;
	}
	uint64_t delay = race_delay_ns(site, spot, start);
	slot->tid = hit->tid;
	slot->until_ns = start + delay + LEFT_AFTER_NS;
	slot->spots = spots;
	slot->spot = spot;
	slot->context = hit->context;
	slot->target = *target;
	slot->site = race_place_of(hit->ip);
	slot->is_explained = 0;
	slot->atomic_seen = 0;
	slot->locked.state = 0;
	slot->hits = 0;
	slot->outwaited_ns = 0;
	uint64_t stall = race_last_begin(hit, slot, module);
	uint64_t found = counter_get(&race.process->counters[RACE_FOUND]);
	race_budget_stall_begins(start);
	uint64_t waited = watch_and_wait(hit, slot, delay, module);
	uint64_t alone = race_budget_stall_ends(clock_now_ns());
	uint64_t asked = delay + slot->outwaited_ns;
	race_slot_free(slot);
	race_last_end(stall);
	uint64_t end = clock_now_ns();
	if (!site) {
		race_count(RACE_LOST_TABLES);
	} else if (waited) {
		if (counter_add(&site->stalls, 1u) == 0)
			note_covered(site);
		site->last_ns = end;
		if (counter_get(&race.process->counters[RACE_FOUND]) != found)
			counter_add(&site->found, 1u);
	}
	cpu_ns = race_thread_cpu_ns() - cpu_ns;
	race_budget_stalled(&(struct race_stall_cost){
		.asked_ns = asked,
		.waited_ns = waited,
		.alone_ns = alone,
		.cpu_ns = cpu_ns,
		.others_ns = race_others_cpu_ns(all_ns, cpu_ns),
		.is_trapped = spot != NULL,
	});
	return waited ? 0 : -EFAULT;
}

/* The access to be watched at hit->ip: a frame of its own, that is gone during the stall. */
TRAP_PATH static int hold_choose(const struct trapline_hit *hit, const struct race_spot *spot,
				 enum race_policy policy, const struct race_module *module,
				 struct race_target *target)
{
	enum race_call call = spot ? spot->call : RACE_CALL_NONE;
	uint64_t left = module->text_end - hit->ip;
	const uint8_t *code = race_code(module, hit->ip);
	struct insn_regs regs;
	struct insn insn;

	target->is_stored_known = 0;
	race_registers(hit, &regs);
	if (insn_decode(code, left < INSN_LENGTH_MAX ? (size_t)left : INSN_LENGTH_MAX, &insn) ||
	    (call ? race_find_call_target(call, &regs, target) :
		    find_target(&insn, code, &regs, spot && spot->is_escaped, target)))
		return -ENOENT;
	unsigned int allowed = policy == RACE_CODE_LIBC ? race_block_access(hit->ip) :
							  RACE_READ_WRITE;
	if (target->access & ~allowed)
		return -ENOENT;
	if (policy == RACE_CODE_LIBC &&
	    race_block_clip(hit->ip, &regs, target->address, &target->size)) {
		if (!target->size)
			return -ENOENT;
		race_choose_part(target);
	}
	target->length = insn.length;
	return 0;
}

TRAP_PATH int race_hold(const struct trapline_hit *hit, const struct race_spots *spots,
			struct race_spot *spot)
{
	const struct race_module *module;
	struct race_target target;

	enum race_policy policy = race_policy_of(hit->ip, &module);
	if (policy == RACE_CODE_EXCLUDED)
		return -ENOENT;
	if (!trap_has_room(RACE_ROOM_HOLD)) {
		race_count(RACE_STALLS_NO_ROOM);
		return -EBUSY;
	}
	if (hold_choose(hit, spot, policy, module, &target))
		return -ENOENT;
	int pointless = is_pointless(hit, spot && spot->is_escaped, &target);
	if (pointless >= 0) {
		race_count((enum race_counter)pointless);
		return -EFAULT;
	}
	if (policy == RACE_CODE_LIBC && !race_is_called_by_included(hit))
		return -ENOENT;
	/* At a call nothing is accessed that a breakpoint alone could show. */
	if (!spot || !spot->call)
		race_note_seen(hit->ip);
	return hold(hit, spots, spot, &target, module);
}
