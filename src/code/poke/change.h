/* SPDX-License-Identifier: MIT */
/* change.h - one change of text, step by step: what a poke and a set of traps share. */
#ifndef CODE_POKE_CHANGE_H
#define CODE_POKE_CHANGE_H

#include "code/poke/text.h"

/* One change, from entries to bytes. Lock held. */
struct change {
	struct poke_batch *batch;
	struct text text;
	struct code_problem *problem;
	uint64_t number;
	uint64_t restorer; /* libc's return trampoline of signals, or the kernel's object */
	uint64_t restorer_bytes;
	uint8_t form; /* enum code_form */
};
/* Where a handler of SIGTRAP returns to: libc's code. AS-Safe. */
uint64_t change_find_restorer(void);
/* Room for n entries. 0 or -ENOMEM. */
int change_begin(struct change *change, size_t n, uint32_t writers, struct code_problem *problem);
/* 1: the SIGTRAP handler runs these bytes itself, so no int3 may be there. */
int change_is_needed_by_handler(const struct change *change, uint64_t address, size_t len);
/* Sort the entries, refuse what overlaps. */
int change_sort(struct change *change);
/*
 * The entries' bytes against the text. *differ, when not NULL: called for those that differ, which
 * is not an error then.
 */
int change_compare(struct change *change, void (*differ)(struct poke_entry *entry));
/* Before the first int3: see history.c. */
int change_note(struct change *change);
int change_write(struct change *change, enum text_phase phase);
/* Withdraws the batch where it was published and waits for the handlers. */
void change_end(struct change *change);
/* Wait until no handler inspects what was withdrawn before, for 2 s at most. 0 or -EBUSY. */
int poke_quiesce(void);
/* Unmap once no handler can inspect it. */
void poke_retire(void *memory, size_t bytes);
void poke_report(const struct change *change, enum trapline_code_stage stage);

/*
 * All but faults and traps, which must come through: the thread may run trapped code. What was
 * blocked before.
 */
uint64_t poke_block_signals(void);
void poke_restore_signals(uint64_t before);
/* Take the lock (R5). 0, -EDEADLK, -EPERM. */
int poke_lock_take(struct code_problem *problem);
void poke_lock_give(void);
int poke_sync(void);
int poke_log_is_on(void);
/* The number of this process, without a system call. Lock held. */
pid_t poke_pid(void);
/* Since the process began; a forked child counts on from its parent. */
uint64_t poke_changes_begun(void);

#endif
