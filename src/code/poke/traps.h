/* SPDX-License-Identifier: MIT */
/* traps.h - int3 that stay. */
#ifndef CODE_POKE_TRAPS_H
#define CODE_POKE_TRAPS_H

#include "code/poke/poke.h"

struct poke_entry;
struct trap_row;
struct trap_table;

int traps_set(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
	      struct trapline_traps **out, struct code_problem *problem);
/* The same; sites that refuse a trap are left out, unless all do. */
int traps_set_most(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
		   struct trapline_traps **out, struct code_problem *problem);
int traps_hits(const struct trapline_traps *traps, size_t index, uint64_t *nested, uint64_t *out);
int traps_remove(struct trapline_traps *traps, struct code_problem *problem);
/* Until no thread is in a callback of the set. 0; -EBUSY: one has been for 2 s. AS-Safe. */
int traps_wait_for_callbacks(const struct trapline_traps *traps);
/* -EBUSY: a thread has SIGTRAP blocked, and has had for a while. */
int traps_check_masks(struct code_problem *problem);
struct trap_row *traps_find(const struct trap_table *table, uint64_t address);
/* 1: a trap is on one of the bytes. */
int traps_overlap(uint64_t address, size_t len);
void traps_after_fork_in_child(void);
/* 1: the text is as the row left it. */
int trap_row_is_in_place(const struct trap_row *row);
/* From what is there to the trap, or back. */
void trap_row_entry(struct poke_entry *entry, const struct trap_row *row, int is_removal);

#endif
