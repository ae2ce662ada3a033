/* SPDX-License-Identifier: MIT */
/* poke_priv.h - the structures behind poke.h: x86-64. */
#ifndef POKE_PRIV_H
#define POKE_PRIV_H

#include "base/atomic.h"
#include "code/poke/poke.h"

#define INT3 0xcc
#define SITE_MAX TRAPLINE_POKE_LEN_MAX

/*
 * How a thread gets past one instruction without the text at its place. Made beforehand, so that
 * the handler decodes nothing.
 */
enum step_kind {
	STEP_NONE,	  /* not possible */
	STEP_JUMP,	  /* pc := target; a nop is a jump behind itself, a copy a jump to it */
	STEP_CALL,	  /* push next, pc := target */
	STEP_RETURN,	  /* pop the pc, drop imm bytes */
	STEP_CONDITIONAL, /* target if the condition holds, else next */
	STEP_LOOP,	  /* loop, loope, loopne, jrcxz: condition is the opcode */
	STEP_JUMP_REG,	  /* condition is the register's number in the instruction */
	STEP_CALL_REG,
	STEP_JUMP_MEMORY, /* as STEP_*_REG, but of the word that base, index and target name */
	STEP_CALL_MEMORY,
	STEP_AGAIN, /* an int3 of the new bytes: run the pc again and let it be what it is */
};

struct step {
	uint8_t kind;
	uint8_t condition;
	uint8_t is_copy; /* STEP_JUMP: to a copy of the instruction */
	uint8_t base;	 /* DWARF number or INSN_NO_REG */
	uint8_t index;
	uint8_t scale;
	uint8_t length; /* of the instruction */
	uint16_t imm;
	uint64_t target; /* or displacement */
};

struct poke_entry {
	uint64_t address;
	uint32_t len;
	uint32_t site;	    /* index as the caller counts */
	uint8_t before[16]; /* behind len: 0 */
	uint8_t after[16];
	struct step step_before;
	struct step step_after;
};

struct poke_batch {
	size_t count;
	size_t bytes;  /* of this mapping */
	int committed; /* 0: who traps runs what was before */
	int is_long;   /* more than first bytes differ */
	int is_stranded;
	struct poke_batch *next;     /* in poke_view.stranded */
	struct poke_entry entries[]; /* sorted by address */
};

/* One trap that stays. Rows belong to their set; the table points at them. */
struct trap_row {
	uint64_t address;
	uint64_t hits;
	uint64_t nested;
	struct trapline_traps *set;
	uint32_t index;
	uint8_t len;
	uint8_t is_gone;
	uint8_t is_resting; /* without its int3 for now: see traps_switch() */
	uint8_t bytes[16];  /* what was there, the whole instruction */
	struct step step;
};

struct trapline_traps {
	trapline_trap_callback callback;
	void *arg;
	uint32_t running; /* threads inside the callback, or about to be */
	uint32_t writers;
	size_t count;
	size_t bytes; /* of this mapping */
	int is_off;   /* the traps are gone, a callback was still running */
	struct trap_row rows[];
};

/* All traps by address: open addressing, a power of two, at most half full. */
struct trap_table {
	size_t mask;
	size_t count;
	size_t bytes; /* of this mapping */
	struct trap_row *rows[];
};

struct poke_view {
	struct poke_batch *batch;
	struct poke_batch *stranded; /* batches that could not be finished; never withdrawn */
	struct trap_table *traps;
	uint64_t generation;
};
extern struct poke_view poke_view;
extern struct trapline_code_stats poke_stats;

/*
 * Every address that an int3 was ever put at, as a bit in its page's map: an int3 that has gone is
 * ours only there. Pages are never forgotten. Open addressing; page 0 is free.
 */
#define HISTORY_PAGES 65536u
#define HISTORY_WORDS (4096u / 64)
struct history_page {
	uint64_t page;
	uint64_t *bits;
};
extern struct history_page poke_history[HISTORY_PAGES];
static inline size_t history_place(uint64_t page)
{
	return (page * 0x9e3779b97f4a7c15u >> 40) % HISTORY_PAGES;
}
/* Note the sites of a batch, before it is published. 0, -ENOMEM, or -ENOSPC: too many pages. */
int history_add(const struct poke_batch *batch);

/* ---- quiesce.c: who is in the handler ---- */

/*
 * Sleepable RCU with two sides: who enters counts on the side that is current; who waits turns
 * the side twice and each time waits until the one left is empty. Striped, so that threads on
 * different stacks do not share a line.
 */
#define QUIESCE_STRIPES 16
struct quiesce_stripe {
	uint64_t entered[2];
	uint64_t left[2];
} __attribute__((aligned(64)));
extern struct quiesce_stripe quiesce_stripes[QUIESCE_STRIPES];
extern uint32_t quiesce_side;

struct quiesce_ticket {
	uint32_t stripe;
	uint32_t side;
};

static inline struct quiesce_ticket quiesce_enter(void)
{
	struct quiesce_ticket in = {
		(uint32_t)((uintptr_t)__builtin_frame_address(0) >> 14) % QUIESCE_STRIPES,
		atomic_get(&quiesce_side) & 1,
	};

	atomic_add(&quiesce_stripes[in.stripe].entered[in.side], 1);
	return in;
}

static inline void quiesce_leave(struct quiesce_ticket in)
{
	atomic_add(&quiesce_stripes[in.stripe].left[in.side], 1);
}

/* 0: everyone who was inside has left since the call. -EAGAIN: not yet, memory must wait. */
int quiesce_wait(void);
void quiesce_reset(void);

/* ---- step_plan.c, step_take.c: how an instruction is passed ---- */

/*
 * Plan the step past the instruction(s) of len bytes at address. bytes are the instructions.
 * 0, or -EOPNOTSUPP, -EINVAL (not one instruction where one is asked for), -ENOSPC with *why.
 */
enum step_rule {
	STEP_ONE,     /* exactly one instruction of len bytes, or one that never falls through */
	STEP_FIRST,   /* the same, or several */
	STEP_UNASKED, /* as the caller says: nobody comes by */
};
int step_plan(uint64_t address, const uint8_t *bytes, size_t len, enum step_rule rule,
	      struct step *out, const char **why);
/* Length of the one instruction at bytes, or -errno. */
int step_length(const uint8_t *bytes, size_t available);
/* 1: the bytes are as STEP_ONE wants them, whether or not they can be passed. */
int step_is_one(uint64_t address, const uint8_t *bytes, size_t len);
extern const char step_why_several[];
/* In the handler: pc and registers as after the instruction. */
void step_take(const struct step *step, uint64_t address, ucontext_t *context);

/* 1: what returns elsewhere than it was called from would fault. */
int step_has_shadow_stack(void);

/* ---- slot.c: copies of instructions, never freed ---- */

/* The instructions of len bytes as if at address, somewhere within reach, with a jump behind. */
int slot_copy(uint64_t address, const uint8_t *bytes, size_t len, uint64_t *out, const char **why);

/* ---- slot_origin.c ---- */
#define SLOT_BYTES 64u
#define SLOT_ARENA_BYTES (256u << 10)
#define SLOT_ARENAS 1024
struct slot_arena {
	uint64_t start;
	uint32_t used;
};
extern struct slot_arena slot_arenas[SLOT_ARENAS]; /* never given back */
extern uint32_t slot_arena_count;

/* ---- region.c: memory mapped twice ---- */

/* The alias of [address, address + len), writable until region_seal(), or NULL. */
uint8_t *region_alias(uint64_t address, size_t len);
void region_seal(void);
/* 1: a forked child that could not get a copy of its own. It must not be written. */
int region_is_lost(uint64_t address);
/* What the handler knows of the regions. */
#define REGION_MAX 256
struct region_range {
	uint64_t start;
	uint64_t bytes;
};
extern struct region_range region_ranges[REGION_MAX];
extern int region_is_forking;
void region_before_fork(void);
void region_after_fork_in_parent(void);
void region_after_fork_in_child(void);
/* Map bytes somewhere free within reach of near (0: anywhere). Address or -errno. */
int64_t region_find(uint64_t near, size_t bytes, int protection, int flags, int fd);

/* ---- poke.c ---- */

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
/*
 * Beside the public flags: the site is that of a probe, and its jump may end behind it, in text that
 * stays.
 */
#define POKE_OF_PROBE (1u << 31)

/* ---- poke_trap.c ---- */
int poke_is_in_callback(void);
struct trapline_traps *poke_running_set(void);

/* ---- traps.c ---- */
/* -EBUSY: a thread has SIGTRAP blocked, and has had for a while. */
int traps_check_masks(struct code_problem *problem);
struct trap_row *traps_find(const struct trap_table *table, uint64_t address);
/* 1: a trap stands on one of the bytes. */
int traps_overlap(uint64_t address, size_t len);
void traps_after_fork_in_child(void);
/* 1: the text is as the row left it. */
int trap_row_is_in_place(const struct trap_row *row);
/* From what is there to the trap, or back. */
void trap_row_entry(struct poke_entry *entry, const struct trap_row *row, int is_removal);

#endif
