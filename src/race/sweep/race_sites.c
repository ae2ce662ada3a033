/* SPDX-License-Identifier: MIT */
/*
 * race_sites.c - a thread reaches a trapped site: stall it there, or let it continue.
 *
 * Usually one arming gives one stall. While a thread is stalled, the trap of its site is
 * removed, so that other threads run through it at full speed. The trap thread
 * (race_sites_keep.c) sets it again after the sites with fewer stalls had their turn.
 *
 * The first thread at a trap is nearly always the same one in the same iteration of a loop. The
 * race may be between the last iteration of one loop and the first of another. So chance also
 * decides whether some occurrences are skipped first, and whether several threads are stalled there
 * at once, which changes the order in which they continue.
 */
#include "race/sweep/race_sites.h"

#include <errno.h>
#include <linux/futex.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_context.h"
#include "race/race_budget.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/stall/race_stall.h"
#include "race/sweep/race_meet.h"
#include "record/race_region.h"
#include "trap/room.h"

#define PASSES_MAX 32u
#define POINTLESS_MAX 16u
#define DEPTH_MAX 6u
#define SKIPS_AT_FIRST 8u /* one in so many, while it does not look like a loop */
#define PLAIN_STALLS 2u	  /* the first ones of a site take any thread that comes */
/*
 * Where all are stalled everywhere, no thread reaches where another one is. In some runs fewer
 * still: an access that is behind many others of its thread is reached in time only when those let
 * it by.
 */
#define HELD_AT_FIRST 12u
#define HELD_AT_FIRST_FEW 3u
/*
 * Which thread touches what is recorded, of each site that many times: long loops, or many sites.
 */
#define NOTED_LEAST 128u
#define NOTED_DOUBLINGS 5u
#define AIMED_PASSES 1024u /* that were another address; then it is taken away */
#define COLD_AFTER_NS 50000000u
#define AT_START_HALVINGS 3u
#define AT_START_LEAST 6u
#define READS_ONE_IN 2u
/* One trap by int3 and its signal, where none was measured. */
#define PASS_NS 2500u

struct race_spot_queue race_spot_queue;

TRAP_PATH static void wake_keeper(void)
{
	uint32_t *wakeups = &race_spot_queue.wakeups;

	counter_add(wakeups, 1u);
	sys6(SYS_futex, wakeups, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

TRAP_PATH static void ask_off(const struct race_spots *set, struct race_spot *spot)
{
	struct race_spot_queue *q = &race_spot_queue;
	uint32_t state = SPOT_ARMED;
	uint32_t at = atomic_get(&q->in);
	uint32_t now = atomic_get(&spot->state);

	/*
	 * Asked for, and still here: the thread that takes it away may be waiting for this very
	 * CPU.
	 */
	if (now == SPOT_ASKED)
		sys_sched_yield();
	if (now != SPOT_ARMED)
		return;
	do
		if (at - atomic_get(&q->out) >= RACE_SPOT_QUEUE)
			return; /* at the next occurrence */
	while (!atomic_cas(&q->in, &at, at + 1));
	if (atomic_cas(&spot->state, &state, SPOT_ASKED))
		atomic_set(&q->rows[at % RACE_SPOT_QUEUE],
			   (set->number << 16 | (uint32_t)(spot - set->rows)) + 1);
	else
		atomic_set(&q->rows[at % RACE_SPOT_QUEUE], UINT32_MAX); /* no thread */
	wake_keeper();
}

/* It cannot be stalled now. The trap must not stay for ever where many pass. */
TRAP_PATH static void let_pass(const struct race_spots *set, struct race_spot *spot,
			       enum race_counter why, uint32_t passes)
{
	/* Others reach a stalled thread only if they run at full speed. */
	int is_in_way = why == RACE_SITE_HITS_EARLY ||
			(why == RACE_SITE_HITS_BUSY && race_strategy->rotates);

	race_count(why);
	if (passes >= PASSES_MAX + spot->skip || is_in_way)
		ask_off(set, spot);
}

TRAP_PATH static void set_flag(struct race_spot *spot, uint32_t flag)
{
	if (spot->site && !(counter_get(&spot->site->flags) & flag))
		__atomic_fetch_or(&spot->site->flags, flag, __ATOMIC_RELAXED);
}

TRAP_PATH int race_spot_is_cold(const struct race_spot *spot, uint64_t now_ns)
{
	return now_ns - spot->armed_ns > COLD_AFTER_NS;
}

static uint32_t
	one_in; /* a thread is stalled at one in so many of the sites that are armed at the start */

/*
 * A short program meets its traps in the order of its code, and pays for the first ones only. So a
 * part of them is used, and any of them can be the first.
 */
void race_spots_begin(uint32_t count)
{
	uint32_t halvings = 0;

	while (halvings < AT_START_HALVINGS && count >> (halvings + 1) >= AT_START_LEAST)
		halvings++;
	one_in = atomic_get(&race.keeper) ? 1 : 1u << race_random() % (halvings + 1);
}

/*
 * In a short program most threads reach a trap in the same moment, and a stalled one does not reach
 * where another one is. A race has a write: a thread that is stalled there meets readers and
 * writers alike.
 */
static int is_let_off_turn(const struct race_spot *spot)
{
	if (atomic_get(&race.keeper))
		return 0;
	return one_in > 1 && (race_random() % one_in != 0 ||
			      (spot->is_read && race_random() % READS_ONE_IN != 0));
}

static int is_let_off(const struct race_spot *spot)
{
	if (race_strategy->rotates)
		return is_let_off_turn(spot);
	uint32_t known = atomic_get(&race.region->sites_covered);
	uint32_t most = race.region->run % 3 ? HELD_AT_FIRST : HELD_AT_FIRST_FEW;

	return known > most && spot->site && counter_get(&spot->site->stalls) &&
	       race_random() % known >= most;
}

/* Another process can have written any number there. */
TRAP_PATH static uint32_t depth_of(const struct race_spot *spot)
{
	uint32_t depth = counter_get(&spot->site->depth);

	return depth < DEPTH_MAX ? depth : DEPTH_MAX;
}

/* Each power of two as likely, and then any number up to the next one: any round may be the one. */
static uint32_t passes_to_skip(uint64_t random, uint32_t depth)
{
	uint32_t least = 1u << random % (depth + 1);

	return least + (uint32_t)(random >> 16) % least;
}

/*
 * The first thread that came was stalled here before: which round, and how many threads, is by
 * chance now.
 */
static void draw(struct race_spot *spot)
{
	uint64_t random = race_random();
	uint32_t depth = depth_of(spot);

	if (random % (depth == 0 ? SKIPS_AT_FIRST : race_strategy->skips_one_in) == 0)
		spot->skip = passes_to_skip(random >> 8, depth);
	if (random / 4 % 4 < 2 && race_strategy->stalls_several)
		spot->wanted = 2 + (uint32_t)(random / 4 % 2);
	if (random / 16 % 2)
		spot->meets = atomic_get(&spot->site->meets);
	if (spot->meets) {
		spot->skip = 0;
		spot->wanted = 1; /* the others come at full speed */
	}
}

/*
 * The same for all sites of a process: what is short is over then, and the rest is for the long
 * ones.
 */
static uint32_t passes_to_note(void)
{
	static uint32_t passes;

	if (!passes)
		passes = NOTED_LEAST << race_random() % NOTED_DOUBLINGS;
	return passes;
}

void race_spot_arm(struct race_spot *spot, enum race_arming why)
{
	spot->skip = 0;
	spot->notes = 0;
	spot->meets = 0;
	spot->wanted = 1;
	spot->is_for_second = race_strategy->rotates && race_random() % 4 == 0;
	if (spot->site && counter_get(&spot->site->stalls) >= PLAIN_STALLS)
		draw(spot);
	if (why == RACE_ARM_TO_NOTE) {
		spot->wanted = 0;
		spot->notes = passes_to_note();
	} else if (why == RACE_ARM_FIRST && !race_strategy->is_for_some && is_let_off(spot)) {
		spot->wanted = 0;
	}
	spot->armed_ns = clock_now_ns();
	atomic_set(&spot->holds, 0u);
	atomic_set(&spot->last_tid, 0u);
	atomic_set(&spot->first_tid, 0u);
	atomic_set(&spot->passes, 0u);
	atomic_set(&spot->state, SPOT_ARMED);
}

/* The occurrence that was waited for has come: the next time, perhaps a later one. */
TRAP_PATH static void note_depth(const struct race_spot *spot)
{
	if (!spot->skip || !spot->site)
		return;
	uint32_t depth = depth_of(spot);

	if (depth < DEPTH_MAX && spot->skip >= 1u << depth)
		atomic_set(&spot->site->depth, depth + 1);
}

/* 1: this thread is to be stalled here. */
TRAP_PATH static int sites_take_turn(struct race_spot *spot, uint32_t tid)
{
	uint32_t holds = atomic_get(&spot->holds);

	do {
		if (holds >= spot->wanted || (holds && atomic_get(&spot->last_tid) == tid))
			return 0;
	} while (!atomic_cas(&spot->holds, &holds, holds + 1));
	atomic_set(&spot->last_tid, tid);
	if (holds == 0)
		note_depth(spot);
	return 1;
}

/*
 * The part of an array that the first thread has borders on that of one neighbour only, and a
 * thread that comes later finds others at work already.
 */
TRAP_PATH static int is_first_thread(struct race_spot *spot, uint32_t tid)
{
	uint32_t none = 0;

	return atomic_cas(&spot->first_tid, &none, tid) || none == tid;
}

/*
 * Once the watch is on, not before: a thread that ran on without a trap would be past the race by
 * then.
 */
TRAP_PATH void race_spot_served(const struct race_spots *set, struct race_spot *spot)
{
	if (atomic_get(&spot->holds) >= spot->wanted)
		ask_off(set, spot);
}

TRAP_PATH static void hold_at(const struct trapline_trap_hit *trap, uint32_t tid,
			      const struct race_spots *set, struct race_spot *spot, uint64_t now)
{
	const ucontext_t *context = trap->context;
	const struct trapline_hit hit = {
		.size = sizeof(hit),
		.time_ns = now,
		.pid = race.pid,
		.tid = (pid_t)tid,
		.ip = trap->address,
		.sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP],
		.context = trap->context,
	};

	int err = race_stall(&hit, set, spot);
	if (err)
		race_spot_served(set, spot);
	/* The watch is free: those that were in the way may have their turn. */
	if (race_strategy->rotates) {
		counter_add(&race_spot_queue.ended, 1u);
		wake_keeper();
	}
	if (err == -EFAULT && counter_add(&spot->pointless, 1u) >= POINTLESS_MAX)
		set_flag(spot, RACE_SITE_POINTLESS);
}

/* There is room on its stack for the decoder: 1, and the registers. */
TRAP_PATH static int can_look(const struct trapline_trap_hit *trap, struct insn_regs *regs)
{
	if (!trap_has_room(RACE_ROOM_TICK))
		return 0;
	insn_regs_from_context(trap->context, regs);
	return 1;
}

TRAP_PATH static void witness(const struct trapline_trap_hit *trap, const struct race_spots *set,
			      struct race_spot *spot, uint32_t passes)
{
	struct insn_regs regs;
	struct insn insn;
	uint64_t address;

	if (!can_look(trap, &regs)) {
		let_pass(set, spot, RACE_STALLS_NO_ROOM, passes);
		return;
	}
	if (!insn_decode(race_code(set->module, trap->address), INSN_LENGTH_MAX, &insn) &&
	    !insn_address(&insn, 0, &regs, &address))
		race_note_atomic(race_place_of(address));
	ask_off(set, spot);
}

/* A trap that is to stall no thread, or not yet. */
TRAP_PATH static void note(const struct trapline_trap_hit *trap, const struct race_spots *set,
			   const struct race_spot *spot)
{
	struct insn_regs regs;

	if (can_look(trap, &regs))
		race_meet_note(race_code(set->module, trap->address), spot, &regs,
			       (uint32_t)sys_gettid());
}

TRAP_PATH static int is_aimed_at(const struct trapline_trap_hit *trap, const struct race_spots *set,
				 const struct race_spot *spot)
{
	struct insn_regs regs;

	return can_look(trap, &regs) &&
	       race_meet_is_there(race_code(set->module, trap->address), spot, &regs);
}

/*
 * The first time is always paid in a sweep: else code that runs seldom would find the budget empty.
 */
TRAP_PATH static int is_paid(const struct race_spot *spot, uint64_t now)
{
	int is_first = !spot->site || !counter_get(&spot->site->stalls);

	if (!race_strategy->rotates)
		return (spot->site && is_first) || race_budget_allows(now);
	if (is_first && race_spot_is_cold(spot, now))
		return race_budget_allows_cold(now);
	int64_t needed = (int64_t)(RACE_DELAY_MIN_NS + counter_get(&race.budget.stall_cost_ns));
	return race_budget_sites_left(now) > needed;
}

TRAP_PATH static void pay_pass(void)
{
	if (race_strategy->rotates)
		race_budget_spend_on_sites(PASS_NS);
	else
		race_budget_spend(PASS_NS, 1);
}

TRAP_PATH void race_on_site(const struct trapline_trap_hit *hit)
{
	const struct race_spots *set = hit->arg;
	struct race_spot *spot = &set->rows[hit->index];
	uint64_t now = clock_now_ns();

	/*
	 * A child of fork() that is not searched has the traps, and forgot the rest. A child of
	 * vfork() has Trapline's memory, but its accesses are not seen by Trapline's watches.
	 */
	if (!race.region || race_is_stopped() || sys_getpid() != race.pid)
		return;
	race_count(RACE_SITE_HITS);
	pay_pass();
	uint32_t passes = counter_add(&spot->passes, 1u) + 1;
	if (spot->is_witness) {
		witness(hit, set, spot, passes);
		return;
	}
	if (race_is_alone(now)) {
		let_pass(set, spot, RACE_SITE_HITS_ALONE, passes);
		return;
	}
	set_flag(spot, RACE_SITE_REACHED);
	if (!spot->wanted) {
		race_count(RACE_SITE_HITS_SKIPPED);
		if (passes < spot->notes && race_budget_allows(now))
			note(hit, set, spot);
		else
			ask_off(set, spot);
		return;
	}
	if (passes <= spot->skip) {
		race_count(RACE_SITE_HITS_SKIPPED);
		note(hit, set, spot);
		return;
	}
	if (spot->is_for_second && is_first_thread(spot, (uint32_t)sys_gettid())) {
		let_pass(set, spot, RACE_SITE_HITS_SKIPPED, passes);
		return;
	}
	if (spot->meets && !is_aimed_at(hit, set, spot)) {
		race_count(RACE_SITE_HITS_SKIPPED);
		if (passes >= AIMED_PASSES)
			ask_off(set, spot);
		return;
	}
	if (!is_paid(spot, now)) {
		let_pass(set, spot, RACE_SITE_HITS_EARLY, passes);
		return;
	}
	uint32_t tid = (uint32_t)sys_gettid();
	if (!race_has_free_slot() || !sites_take_turn(spot, tid)) {
		let_pass(set, spot, RACE_SITE_HITS_BUSY, passes);
		return;
	}
	hold_at(hit, tid, set, spot, now);
}
