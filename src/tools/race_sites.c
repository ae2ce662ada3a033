/* SPDX-License-Identifier: MIT */
/*
 * race_sites.c - a thread comes to a site that is trapped: hold it there, or let it pass.
 *
 * One arming is one stall: while a thread is held its site's int3 is taken away, so that the others
 * run through at full speed; the thread that keeps the traps (race_sites_start.c) puts it back when
 * the sites that were held less often have had their turn.
 */
#include <errno.h>
#include <linux/futex.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "base/clock.h"
#include "base/sys.h"
#include "code/insn_context.h"
#include "tools/race_priv.h"

#define PASSES_MAX 32u
#define POINTLESS_MAX 16u
/* Longer than any stall: its thread has left the handler by siglongjmp, or is dead. */
#define HELD_MAX_NS 10000000000u
/* One trap by int3 and its signal, where none was measured. */
#define PASS_NS 2500u

struct race_spot_queue race_spot_queue;

TRAP_PATH static void ask_off(const struct race_spots *set, struct race_spot *spot)
{
	struct race_spot_queue *q = &race_spot_queue;
	uint32_t state = SPOT_ARMED;
	uint32_t at = atomic_get(&q->in);

	if (atomic_get(&spot->state) != SPOT_ARMED)
		return;
	do
		if (at - atomic_get(&q->out) >= RACE_SPOT_QUEUE)
			return; /* at the next pass */
	while (!atomic_cas(&q->in, &at, at + 1));
	if (atomic_cas(&spot->state, &state, SPOT_ASKED))
		atomic_set(&q->rows[at % RACE_SPOT_QUEUE],
			   (set->number << 16 | (uint32_t)(spot - set->rows)) + 1);
	else
		atomic_set(&q->rows[at % RACE_SPOT_QUEUE], UINT32_MAX); /* nobody */
	counter_add(&q->wakeups, 1u);
	sys6(SYS_futex, &q->wakeups, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* It cannot be held now. The trap must not stay for ever where many pass. */
TRAP_PATH static void let_pass(const struct race_spots *set, struct race_spot *spot,
			       enum race_counter why, uint32_t passes)
{
	race_count(why);
	if (passes >= PASSES_MAX || why == RACE_SITE_HITS_EARLY)
		ask_off(set, spot);
}

TRAP_PATH static void set_flag(struct race_spot *spot, uint32_t flag)
{
	if (spot->site && !(counter_get(&spot->site->flags) & flag))
		__atomic_fetch_or(&spot->site->flags, flag, __ATOMIC_RELAXED);
}

TRAP_PATH static void hold_at(const struct trapline_trap_hit *trap,
			      const struct race_spots *set, struct race_spot *spot,
			      uint64_t now)
{
	const ucontext_t *context = trap->context;
	const struct trapline_hit hit = {
		.size = sizeof(hit),
		.time_ns = now,
		.pid = race.pid,
		.tid = sys_gettid(),
		.ip = trap->address,
		.sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP],
		.context = trap->context,
	};

	ask_off(set, spot);
	if (race_hold(&hit) == -EFAULT && counter_add(&spot->pointless, 1u) >= POINTLESS_MAX)
		set_flag(spot, RACE_SITE_POINTLESS);
	atomic_set(&spot->held_ns, (uint64_t)0);
}

TRAP_PATH static void witness(const struct trapline_trap_hit *trap,
			      const struct race_spots *set, struct race_spot *spot)
{
	struct insn_regs regs;
	struct insn insn;
	uint64_t address;

	insn_regs_from_context(trap->context, &regs);
	if (!insn_decode(race_code(set->module, trap->address), INSN_LENGTH_MAX, &insn) &&
	    !insn_address(&insn, 0, &regs, &address))
		race_note_atomic(race_place_of(address));
	ask_off(set, spot);
}

TRAP_PATH void race_on_site(const struct trapline_trap_hit *hit)
{
	const struct race_spots *set = hit->arg;
	struct race_spot *spot = &set->rows[hit->index];
	uint64_t now = clock_now_ns();

	/* A child of vfork() has our memory, but its accesses are not seen by our watches. */
	if (race_is_stopped() || sys_getpid() != race.pid)
		return;
	race_count(RACE_SITE_HITS);
	race_budget_spend(PASS_NS, 1);
	uint32_t passes = counter_add(&spot->passes, 1u) + 1;
	if (spot->is_witness) {
		witness(hit, set, spot);
		return;
	}
	if (race_is_alone(now)) {
		let_pass(set, spot, RACE_SITE_HITS_ALONE, passes);
		return;
	}
	set_flag(spot, RACE_SITE_REACHED);
	/* The first time is always paid: else what runs seldom would find the purse empty. */
	if ((!spot->site || counter_get(&spot->site->stalls)) && !race_budget_allows(now)) {
		let_pass(set, spot, RACE_SITE_HITS_EARLY, passes);
		return;
	}
	uint64_t held = atomic_get(&spot->held_ns);
	if ((held && now - held < HELD_MAX_NS) || !race_has_free_slot() ||
	    !atomic_cas(&spot->held_ns, &held, now)) {
		let_pass(set, spot, RACE_SITE_HITS_BUSY, passes);
		return;
	}
	hold_at(hit, set, spot, now);
}
