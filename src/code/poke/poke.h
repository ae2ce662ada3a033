/* SPDX-License-Identifier: MIT */
/*
 * poke.h - changing text under running threads: what the parts of it share.
 *
 * The protocol, for all sites of a batch at once (as text_poke_bp_batch() in the kernel does it):
 *
 *	publish the batch to the handler
 *	1. first byte := int3			sync: no CPU is inside an old instruction
 *	   commit: from here on a thread that traps is taken past the *new* instruction
 *	2. the other bytes := new		sync: no CPU has fetched the old ones
 *	3. first byte := new			sync, if a code log is on
 *	withdraw the batch; wait until no handler inspects it
 *
 * sync is membarrier(PRIVATE_EXPEDITED_SYNC_CORE). Two things are different from the kernel:
 * - Old steps until the commit, so that a batch that fails in phase 1 is undone without a trace.
 * - A SIGTRAP may reach the handler long after the int3 has gone: membarrier waits for CPUs, not
 *   for pending signals. The orphan rule: a handler that finds neither site nor int3, at
 *   an address that ever had one of Trapline, runs the pc again.
 * - That rule also takes what the last sync is for in the kernel: a CPU that still sees the int3
 *   after the last byte was written. So it is left out, and a batch whose first bytes alone differ
 *   has one sync. tests/model/poke.pml proves it. A reader of the code log must know when the last
 *   trap was possible.
 *
 * On arm64 a word takes the part of the first byte, and brk that of int3: trap_code_arm64.h.
 *
 * What the handler reads, and how it may change:
 * R1. The handler enters quiesce (counted in) before it loads poke_view, leaves after the last
 *     look at what it found there. It copies what it needs later.
 * R2. Code that withdraws memory from poke_view reuses it only after quiesce_wait() returned 0.
 * R3. A batch is published before its first int3 and withdrawn after its last sync; a table with
 *     a new trap is published before the trap's int3 is written, one without it after the byte
 *     is back and synced.
 * R4. poke_view.generation goes up after each publish and before the first int3. Neither site nor
 *     changed byte, but another generation than at entry: run the pc again; only else is the
 *     int3 that of others. (The other order fails in tests/model/poke.pml.)
 * R5. All writers of text have poke_lock, with signals blocked, SIGTRAP and faults excepted.
 */
#ifndef CODE_POKE_POKE_H
#define CODE_POKE_POKE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include <trapline/code.h>

/* Why a call failed, for trapline_explain(), and at which site. */
struct code_problem {
	const char *why;
	size_t site;
};

int poke_commit(const struct trapline_poke_site *sites, size_t n, uint32_t flags, uint32_t writers,
		struct code_problem *problem);
/* One change whose entries are planned and compared. Lock held, and 0 or errors as above. */
struct change;
int poke_run(struct change *change, uint32_t flags);
/*
 * Single stores are asked for, and none of the entries can be one: exchange pages. 0 or
 * -EOPNOTSUPP.
 */
int poke_exchange_all(struct change *change);
int poke_set_log(trapline_code_log log, void *arg, struct code_problem *problem);
void poke_read_stats(struct trapline_code_stats *stats);

/* Register with membarrier, once. 0, or -EOPNOTSUPP. */
int poke_start(struct code_problem *problem);

/* 1: this processor fetches what one store wrote as a whole. */
int poke_stores_are_promised(void);

/* 1: in a foreign process, whose mappings shall be as they were. */
extern int poke_keeps_mappings;
/* What it states, kept. Tests set it, to go the ways of other processors. */
enum poke_promise {
	PROMISE_UNKNOWN,
	PROMISE_NONE,
	PROMISE_STORES
};
extern enum poke_promise poke_promise;

/* Around fork(): see pthread_atfork(3). */
void poke_before_fork(void);
void poke_after_fork_in_parent(void);
void poke_after_fork_in_child(void);

/*
 * Beside the public flags: the site is that of a probe, and its jump may end behind it, in text
 * that stays.
 */
#define POKE_OF_PROBE (1u << 31)
/* With TRAPLINE_POKE_SINGLE_STORE: threads may see the old bytes some time longer. */
#define POKE_UNSYNCED (1u << 30)

#endif
