/* SPDX-License-Identifier: MIT */
/*
 * patch_gate.h - a thread enters a function that is being replaced: old or new?
 *
 *	old function:	jmp stub	in place of its first instruction; see code/probe
 *	stub:		jmp *word	to the old function, to the new one, or to the gate
 *
 * Words lead to gates only while a patch changes. Then one word decides for all functions, the
 * phase of the patch. A thread that has none of the functions that are left on its stack is
 * outside. Once outside, it stays so: each way in leads through a gate.
 *
 * Rules:
 * G1. The phase has a number in its upper bits that no other change of any patch has. What was
 *     found out about a thread counts for that number alone.
 * G2. A gate counts itself into users of its site before it inspects the patch of the site. The
 *     thread that ends a patch takes it from its sites, and waits for users before it frees the
 *     memory.
 * G3. A change ends by a compare-and-swap of the phase: by the thread that patches, or by one that
 *     has waited in a gate past the deadline, and goes back for all.
 */
#ifndef PATCH_PATCH_GATE_H
#define PATCH_PATCH_GATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <trapline/tools.h>

#include "base/tasks.h"
#include "trap/probe_gate.h"

#define PATCH_KIND(phase) ((phase)&3u)
#define PATCH_NUMBER_STEP 4u

struct trapline_patch;

/* The location of a jump. Never freed. */
struct patch_site {
	struct probe_gate gate; /* first: see probe_gate.h */
	uint64_t address;
	uint64_t *word;
	uint64_t stub;
	uint64_t stub_end;
	uint64_t resume; /* the old function */
	uint64_t to_gate;
	uint32_t users;
	uint32_t index; /* in its patch */
	struct trapline_patch *patch;
	uint32_t number; /* of the probe */
	uint32_t is_open;
	struct trapline_traps *traps; /* instead of a jump */
};

/* Return addresses in it are those of a function: from < address <= to. */
struct patch_range {
	uint64_t from;
	uint64_t to;
	/* a thread that is here is inside, too; a word on a stack may point here. 0: none */
	uint64_t entry;
	uint32_t function;
};

struct patch_map {
	uint64_t start;
	uint64_t end;
};
#define PATCH_MAPS_MAX 4095u
struct patch_maps {
	size_t count;
	struct patch_map rows[PATCH_MAPS_MAX];
};

/* What is known of a thread. */
struct patch_mark {
	uint32_t tid;	     /* 0: the row is free */
	uint32_t outside_in; /* the phase in which it was found outside */
	uint32_t inside;     /* else, what it was last seen inside of, + 1 */
};

struct patch_side {
	struct patch_range *ranges;
	size_t count;
};

struct trapline_patch {
	uint32_t phase; /* a number, and enum trapline_patch_phase; a futex */
	uint32_t consistency;
	uint64_t deadline_ns;
	struct trapline *target;
	size_t count;
	struct patch_site **sites;
	uint64_t *new_addresses;
	const char **names;
	struct patch_side old_side;
	struct patch_side new_side;
	/* Where stacks end. Filled before the phase is one of change. */
	struct patch_maps *maps;
	struct patch_mark *marks;
	uint32_t mark_mask;
	/*
	 * Threads that have reported themselves; a futex. The thread that waits for them is woken
	 * at due.
	 */
	uint32_t arrivals;
	uint32_t arrivals_due;
	struct task_list known; /* read before the gates was; empty: not so */
	uint64_t restorer;	/* where a signal handler returns to */
	pid_t pid;
	uint64_t decided;
	uint64_t waits;
	uint64_t longest_wait_ns;
	uint64_t longest_held_ns;
	uint64_t ended_ns; /* the last change; set before its phase */
	/* The state of the last wait for threads. */
	uint32_t pending;
	pid_t pending_tid;
	uint32_t pending_function;
	int32_t pending_syscall;
	/* What belongs to whom calls. */
	void (*after)(void *arg);
	void *arg;
	int is_after_due;
	struct trapline_patch *next;
};

/* the functions of struct probe_gate */
uint64_t patch_gate_ask(struct probe_gate *gate, ucontext_t *context);
uint64_t patch_gate_take(struct probe_gate *gate, ucontext_t *context);

/* What to look for: the functions that are to be left in this phase. */
const struct patch_side *patch_left(const struct trapline_patch *patch, uint32_t phase);

/* The index of the function that a stack is inside of, or one of these. */
#define PATCH_OUTSIDE (-1)
#define PATCH_UNSURE (-2)
/* The calling thread's, which was interrupted there; NULL: it was not. */
int patch_look_at_self(const struct trapline_patch *patch, uint32_t phase,
		       const ucontext_t *context);
/* The function that a thread at pc is inside of, or PATCH_OUTSIDE. */
int patch_function_at(const struct trapline_patch *patch, uint32_t phase, uint64_t pc);
/* Any stack, by each word on it that may be a return address. */
int patch_scan(const struct trapline_patch *patch, uint32_t phase, uint64_t sp,
	       const struct patch_maps *maps);

/* 1: the address is a location on the way into a function that is left, or out of a gate. */
int patch_is_on_the_way(const struct trapline_patch *patch, uint64_t pc);

/*
 * The calling thread runs, and was interrupted there: note what can be found out about it. AS-Safe.
 */
void patch_tick(struct trapline_patch *patch, pid_t tid, const ucontext_t *context);

/* NULL: the table is full. AS-Safe. */
struct patch_mark *patch_mark_of(const struct trapline_patch *patch, pid_t tid);

#endif
