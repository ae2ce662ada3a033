/* SPDX-License-Identifier: MIT */
/*
 * race_walk.c - the code ahead of a sampled thread: an access that it will reach.
 *
 * Samples fall on instructions in proportion to their time. So the code ahead is followed
 * for some instructions, and one of the accesses there is chosen: sites with few stalls
 * before sites with many. A wrong guess at a branch costs a breakpoint that is not
 * reached; no conclusion depends on it.
 */
#include "race/race_walk.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_stall.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "record/race_region.h"

#define INSNS_MAX 40
#define CANDIDATES_MAX 12
#define TIRED_AFTER 64u
#define WEIGHT_RARE 16u
/* How far above the stack pointer memory is taken for the thread's own frames. */
#define FRAME_BYTES 65536u

TRAP_PATH static int is_frame_register(uint8_t reg, const struct insn_regs *regs)
{
	if (reg == INSN_RSP)
		return 1;
	return reg == INSN_RBP && regs->r[INSN_RBP] - regs->r[INSN_RSP] < FRAME_BYTES;
}

TRAP_PATH int race_is_candidate(const struct insn *insn, unsigned int operand,
				const struct insn_regs *regs)
{
	return insn_can_stall(insn, operand) &&
	       !is_frame_register(insn->memory[operand].base, regs);
}

TRAP_PATH static int has_candidate(const struct insn *insn, const struct insn_regs *regs)
{
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (race_is_candidate(insn, i, regs))
			return 1;
	return 0;
}

/* Sites that had no stall weigh most: the debt of coverage is paid first. */
TRAP_PATH static uint32_t weight_of(uint64_t pc)
{
	const struct race_site *site = race_find_site(race.region, race_place_of(pc));
	uint32_t stalls = site ? counter_get(&site->stalls) : 0;

	if (site && counter_get(&site->found) > 64)
		return 0;
	if (stalls == 0)
		return 4 * WEIGHT_RARE;
	return stalls < 16 ? WEIGHT_RARE : stalls < 256 ? 4 : 1;
}

/* Where the thread continues after insn at pc; 0: not known. */
TRAP_PATH static uint64_t next_pc(const struct insn *insn, uint64_t pc, int is_first,
				  const struct insn_regs *regs)
{
	uint64_t after = pc + insn->length;
	int taken;

	switch (insn->kind) {
	case INSN_OTHER:
	case INSN_NOP:
	case INSN_LANDING:
	case INSN_FENCE:
	case INSN_STRING:
		return after;
	case INSN_JUMP:
		return pc + (uint64_t)insn->target;
	case INSN_JUMP_CONDITIONAL:
		taken = is_first ? insn_branch_taken(insn, regs) : (int)(race_random() & 1);
		return taken == 1 ? pc + (uint64_t)insn->target : after;
	case INSN_CALL:
		return race_random() & 1 ? pc + (uint64_t)insn->target : after;
	case INSN_CALL_INDIRECT:
		return after;
	default:
		return 0;
	}
}

struct walk {
	const struct race_module *module;
	uint64_t chosen;
	uint32_t weight; /* of all candidates so far */
	unsigned int candidates;
	int is_guess; /* no thread was seen to come here */
};

TRAP_PATH void race_note_seen(uint64_t pc)
{
	atomic_set(&race.seen[counter_add(&race.seen_count, 1u) % RACE_SEEN], pc);
}

/* Each candidate so far is the chosen one in proportion to its weight. */
TRAP_PATH static void consider(struct walk *w, uint64_t pc)
{
	uint32_t weight = weight_of(pc);

	/* A loop that waits would fill the ring with itself. */
	if (!w->is_guess && (weight >= WEIGHT_RARE || race_random() % 2 == 0))
		race_note_seen(pc);
	w->candidates++;
	w->weight += weight;
	if (weight && race_random() % w->weight < weight)
		w->chosen = pc;
}

/* Still in code that counts? Another object is looked up, the same one is not. */
TRAP_PATH static int is_walkable(struct walk *w, uint64_t pc)
{
	if (w->module && pc - w->module->text_start < w->module->text_end - w->module->text_start)
		return !race_is_own_code(w->module, pc) &&
		       (w->module->policy != RACE_CODE_LIBC ||
			race_block_access(pc) == RACE_READ_WRITE);
	switch (race_policy_of(pc, &w->module)) {
	case RACE_CODE_INCLUDED:
		return 1;
	case RACE_CODE_LIBC:
		return race_block_access(pc) == RACE_READ_WRITE;
	default:
		return 0;
	}
}

/* A locked instruction on a global variable: plain accesses to that are likely meant, too. */
TRAP_PATH static void note_global(const struct insn *insn, uint64_t pc)
{
	struct insn_regs regs = { .known = 1ull << INSN_RIP };
	uint64_t address;

	regs.r[INSN_RIP] = pc;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].base == INSN_RIP && !insn_address(insn, i, &regs, &address))
			race_note_atomic(race_place_of(address));
}

/* regs: as they are at pc; NULL: no thread is there. */
TRAP_PATH static int walk_from(const struct insn_regs *regs, uint64_t pc, uint64_t *out)
{
	static const struct insn_regs unknown;
	struct walk w = { .is_guess = !regs };
	const uint64_t first = pc;
	struct insn insn;

	if (!is_walkable(&w, pc))
		return -EACCES;
	for (int n = 0; n < INSNS_MAX && w.candidates < CANDIDATES_MAX; n++) {
		if (!pc || (n && !is_walkable(&w, pc)))
			break;
		uint64_t left = w.module->text_end - pc;
		if (insn_decode(race_code(w.module, pc),
				left < INSN_LENGTH_MAX ? (size_t)left : INSN_LENGTH_MAX, &insn))
			break;
		if (insn.flags & INSN_ATOMIC) {
			/* Code that no thread was seen to run shows nothing of what runs here. */
			if (regs)
				note_global(&insn, pc);
		} else if (has_candidate(&insn, regs ? regs : &unknown))
			consider(&w, pc);
		pc = next_pc(&insn, pc, regs && pc == first, regs);
	}
	if (!w.chosen)
		return -ENOENT;
	*out = w.chosen;
	return 0;
}

TRAP_PATH int race_walk(const struct trapline_hit *hit, uint64_t *out)
{
	struct insn_regs regs;

	race_registers(hit, &regs);
	return walk_from(&regs, hit->ip, out);
}

TRAP_PATH int race_walk_from(uint64_t pc, uint64_t *out)
{
	return walk_from(NULL, pc, out);
}

TRAP_PATH int race_walk_in(const struct race_module *module, uint64_t *out)
{
	const struct unwind_index *h = module ? module->eh_frame : NULL;

	if (!h || !unwind_index_is_sorted(h) || !h->count)
		return -ENOENT;
	return walk_from(NULL, unwind_row_start(h, &h->rows[race_random() % h->count]), out);
}

/* For the beginning, when all samples fall into a runtime and nothing has been seen yet. */
TRAP_PATH int race_walk_anywhere(uint64_t *out)
{
	return race_walk_in(race.program, out);
}

/* A loop that waits takes most of the samples: what had so many stalls may be left out, mostly. */
TRAP_PATH int race_is_tired_of(uint64_t pc)
{
	const struct race_site *site = race_find_site(race.region, race_place_of(pc));
	uint32_t stalls = site ? counter_get(&site->stalls) : 0;

	return stalls > TIRED_AFTER && race_random() % stalls >= TIRED_AFTER &&
	       race_random() % 8 != 0;
}

/*
 * A thread in a runtime waits for work most often. What it will do next is perhaps what others were
 * seen doing. A breakpoint there catches the first access of its next piece of work, which is where
 * it meets its neighbours. The one with fewer stalls, of two accesses seen lately.
 */
TRAP_PATH int race_choose_seen(uint64_t *out)
{
	uint64_t count = counter_get(&race.seen_count);
	uint32_t best = 0;
	int found = 0;

	if (count > RACE_SEEN)
		count = RACE_SEEN;
	for (int n = 0; count && n < 16 && found < 2; n++) {
		uint64_t pc = atomic_get(&race.seen[race_random() % count]);
		uint32_t weight = pc ? weight_of(pc) : 0;

		found += weight != 0;
		if (weight > best) {
			best = weight;
			*out = pc;
		}
	}
	return best ? 0 : -ENOENT;
}
