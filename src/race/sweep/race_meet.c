/* SPDX-License-Identifier: MIT */
/*
 * race_meet.c - in a sweep: in which iteration of a loop do threads access the same
 * address?
 *
 * In most iterations of a loop over an array a thread accesses elements that no other
 * thread accesses. Among hundreds of iterations, a random stall hardly ever hits the two
 * that conflict. So at the start of some runs no thread is stalled for a while, and the
 * detector records which thread accessed which address. A site whose address another
 * thread accessed too, one of them by a write, keeps it as a conflict hint. Later, and in
 * later runs, only accesses to such addresses are stalled there. Runs have their memory
 * at other addresses; the offset in the page is the same in all of them.
 *
 * Hints are written without a lock. A torn hint costs one useless stall.
 */
#include "race/sweep/race_meet.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/table_size.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "race/race_state.h"
#include "race/race_walk.h"
#include "race/stall/race_slot.h"
#include "race/sweep/race_call_targets.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_sites.h"
#include "record/race_region.h"

#define NOTES TABLE_SIZE(4096u, 2u)
#define IS_KNOWN 0x10000u
#define IN_PAGE 0xfffu

struct note {
	uint64_t address;
	uint32_t tid;
	uint32_t site; /* row in the region << 1 | does it write */
};

static struct note notes[NOTES];

/* What the trap's instruction is about to touch, first of all. 0, or -errno. */
TRAP_PATH static int find_address(const void *code, const struct race_spot *spot,
				  const struct insn_regs *regs, uint64_t *address,
				  unsigned int *access)
{
	struct race_target target;
	struct insn insn;

	if (spot->call) {
		int err = race_find_call_target((enum race_call)spot->call, regs, &target);
		*address = target.address;
		*access = target.access;
		return err;
	}
	if (insn_decode(code, INSN_LENGTH_MAX, &insn))
		return -ENOENT;
	for (unsigned int i = 0; i < insn.memory_count; i++) {
		if (!race_is_worth_it(&insn, i, regs, spot->is_escaped || spot->is_by_free_rbp))
			continue;
		*access = insn.memory[i].access;
		return insn_address(&insn, i, regs, address);
	}
	return -ENOENT;
}

TRAP_PATH static void remember(struct race_site *site, uint64_t address)
{
	if (!atomic_get(&site->meets) || race_random() % 4 == 0)
		atomic_set(&site->meets, IS_KNOWN | (uint32_t)(address & IN_PAGE));
}

TRAP_PATH void race_meet_note(const void *code, const struct race_spot *spot,
			      const struct insn_regs *regs, uint32_t tid)
{
	struct race_site *sites = race.region->sites;
	unsigned int access;
	uint64_t address;

	if (!spot->site || find_address(code, spot, regs, &address, &access))
		return;
	struct note *note = &notes[(address * HASH_MIX >> 32) % NOTES];
	uint32_t writes = (access & RACE_WRITE) != 0;
	uint32_t seen = atomic_get(&note->site);
	int is_same = atomic_get(&note->address) == address;

	if (is_same && atomic_get(&note->tid) != tid && (writes || seen & 1)) {
		remember(spot->site, address);
		remember(&sites[(seen >> 1) % RACE_SITES], address);
	}
	/* A thread that writes meets all others, one that reads only those that write. */
	if (is_same && !writes && seen & 1)
		return;
	atomic_set(&note->address, address);
	atomic_set(&note->tid, tid);
	atomic_set(&note->site, (uint32_t)(spot->site - sites) << 1 | writes);
}

TRAP_PATH int race_meet_is_there(const void *code, const struct race_spot *spot,
				 const struct insn_regs *regs)
{
	unsigned int access;
	uint64_t address;

	return !find_address(code, spot, regs, &address, &access) &&
	       (address & IN_PAGE) == (spot->meets & IN_PAGE);
}
