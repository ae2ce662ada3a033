/* SPDX-License-Identifier: MIT */
/*
 * poke.h - changing text under running threads: what the parts of it share.
 *
 * The protocol, for all sites of a batch at once (as text_poke_bp_batch() in the kernel does it):
 *
 *	publish the batch to the handler
 *	1. first byte := int3			sync: no CPU is inside an old instruction
 *	   commit: from here on who traps is taken past the *new* instruction
 *	2. the other bytes := new		sync: no CPU has fetched the old ones
 *	3. first byte := new			sync: no CPU runs into the int3 any more
 *	withdraw the batch; wait until no handler looks at it
 *
 * sync is membarrier(PRIVATE_EXPEDITED_SYNC_CORE). Two things are different from the kernel:
 * - Old steps until the commit, so that a batch that fails in phase 1 is undone without a trace.
 * - A SIGTRAP may reach the handler long after the int3 has gone: membarrier waits for CPUs, not
 *   for pending signals. The orphan rule: who finds neither site nor int3, at an address that
 *   ever had one of ours, runs the pc again.
 *
 * What the handler reads, and how it may change:
 * R1. The handler enters quiesce (counted in) before it loads poke_view, leaves after the last
 *     look at what it found there. It copies what it needs later.
 * R2. Whoever withdraws memory from poke_view reuses it only after quiesce_wait() said 0.
 * R3. A batch is published before its first int3 and withdrawn after its last sync; a table with
 *     a new trap is published before the trap's int3 is written, one without it after the byte
 *     is back and synced.
 * R4. poke_view.generation goes up after each publish and before the first int3. Neither site nor
 *     changed byte, but another generation than at entry: run the pc again; only else is the
 *     int3 somebody else's. (The other order fails in tests/model/poke.pml.)
 * R5. All writers of text hold poke_lock with signals blocked, SIGTRAP and faults excepted.
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
int traps_set(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
	      struct trapline_traps **out, struct code_problem *problem);
int traps_hits(const struct trapline_traps *traps, size_t index, uint64_t *nested, uint64_t *out);
/*
 * Take the int3 of some rows of a set away (on 0), or put it back. The rows stay in the table, so
 * that this costs no more than the writes and one sync. Rows that are so already, and those whose
 * text is no longer what it was, are left alone. No row twice. Errors: as traps_set().
 */
int traps_switch(struct trapline_traps *set, const uint32_t *rows, size_t n, int on,
		 struct code_problem *problem);
int traps_remove(struct trapline_traps *traps, struct code_problem *problem);
/* Until no thread is in a callback of the set. 0; -EBUSY: one has been for 2 s. AS-Safe. */
int traps_wait_for_callbacks(const struct trapline_traps *traps);
int region_alloc(uint64_t near, size_t bytes, void **out, struct code_problem *problem);
int region_free(void *code);
int region_write(void *code, const void *bytes, size_t n, struct code_problem *problem);
int poke_set_log(trapline_code_log log, void *arg, struct code_problem *problem);
void poke_read_stats(struct trapline_code_stats *stats);

/*
 * A pc inside the copy of an instruction: where it would be without the trap. 0: no copy. In a
 * handler too.
 */
uint64_t slot_origin(uint64_t pc);

/* Register with membarrier, once. 0, or -EOPNOTSUPP. */
int poke_start(struct code_problem *problem);

/* Around fork(): see pthread_atfork(3). */
void poke_before_fork(void);
void poke_after_fork_in_parent(void);
void poke_after_fork_in_child(void);

/* 1: the signal with this context came inside a callback of a trap, in this thread. */
int poke_is_nested(const ucontext_t *context);

/* Called in the handler before a callback of a trap, if not NULL. */
extern void (*poke_before_callback)(const ucontext_t *context);

/* The handler's part. 1: taken care of; 0: not ours. */
int poke_on_int3(ucontext_t *context);

#endif
