/* SPDX-License-Identifier: MIT */
/*
 * race.c - a tick of the task clock: is it time to hold a thread, and before which access?
 */
#include "tools/race.h"

#include <errno.h>

#include "code/insn_context.h"
#include "tools/race_priv.h"

/* Of so many ticks one goes to an access seen elsewhere. */
#define SEEN_INSTEAD 8

struct race_state race;
struct race_births race_births;

void race_birth_begins(void)
{
	atomic_add(&race_births.begun, 1u);
}

void race_birth_ends(void)
{
	atomic_add(&race_births.ended, 1u);
}

TRAP_PATH uint64_t race_random(void)
{
	uint64_t x = counter_add(&race.random, 0x9e3779b97f4a7c15u);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

TRAP_PATH void race_registers(const struct trapline_hit *hit, struct insn_regs *out)
{
	insn_regs_from_context(hit->context, out);
}

TRAP_PATH static void on_tick(const struct trapline_hit *hit)
{
	uint64_t now = hit->time_ns;
	uint64_t pc;

	if (!race_budget_allows(now)) {
		race_count(RACE_SAMPLES_EARLY);
		return;
	}
	if (race_is_alone(now)) {
		race_count(RACE_SAMPLES_ALONE);
		return;
	}
	int err = race_walk(hit, &pc);
	if (err)
		race_count(err == -EACCES ? RACE_SAMPLES_EXCLUDED : RACE_SAMPLES_NOTHING);
	if (err || race_random() % SEEN_INSTEAD == 0 || race_is_tired_of(pc))
		err = race_choose_seen(&pc) ? err : 0;
	if (err && race_walk_anywhere(hit, &pc))
		return;
	if (pc == hit->ip) {
		race_hold(hit, 0);
		return;
	}
	race_aim_check_missed(hit->tid);
	race_count(race_aim_at(hit->tid, pc) ? RACE_AIMS_REFUSED : RACE_AIMS);
}

TRAP_PATH enum trapline_action race_on_timer(const struct trapline_hit *hit)
{
	uint64_t cpu_ns = race_thread_cpu_ns();

	race_count(RACE_SAMPLES);
	if (!hit->async && !race_is_stopped())
		on_tick(hit);
	/* With that of a stall, which is counted there too: it errs on the safe side. */
	race_budget_spend(race_thread_cpu_ns() - cpu_ns + race.budget.trap_ns, 1);
	return TRAPLINE_GO_ON;
}
