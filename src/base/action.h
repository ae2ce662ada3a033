/* SPDX-License-Identifier: MIT */
/*
 * action.h - an action of a signal, as a whole: it is replaced in one thread while others take it.
 *
 * A copy is never half of one action and half of another. Reading takes no lock, and works in a
 * signal that interrupted a replacement in the same thread.
 *
 * Rules: a slot belongs to the thread that claimed it until it is the current one. Then it belongs
 * to the thread that replaces it, which releases it. The contents of a slot change only while its
 * version is ACTION_BUSY. A version is never used again.
 */
#ifndef BASE_ACTION_H
#define BASE_ACTION_H

#include <signal.h>
#include <stdint.h>

#define ACTION_SLOTS 16u /* replacements at the same time, before one waits */
#define ACTION_WORDS (sizeof(struct sigaction) / sizeof(uint64_t))

struct action_slot {
	uint64_t version;
	uint64_t reset; /* the version whose handler was taken for good: SA_RESETHAND */
	uint32_t is_claimed;
	uint64_t words[ACTION_WORDS]; /* struct sigaction */
};

/* Its start is ACTION_DEFAULT. */
struct action {
	uint64_t current; /* a version, whose lowest bits are the number of its slot */
	uint64_t made;	  /* versions */
	struct action_slot slots[ACTION_SLOTS];
};

/* The first slot is current, and so is claimed. */
#define ACTION_DEFAULT                           \
	{                                        \
		.slots = { { .is_claimed = 1 } } \
	} /* SIG_DFL */

/* A copy; a handler that was reset is SIG_DFL. Returns its version. AS-Safe. */
uint64_t action_read(const struct action *a, struct sigaction *out);

/*
 * For an action with SA_RESETHAND. 1: the caller is to run its handler; 0: another thread does.
 * AS-Safe.
 */
int action_reset(struct action *a, uint64_t version);

/*
 * As sigaction(2): what one call sets, exactly one other call gets as old, which may be NULL.
 * AS-Safe.
 */
void action_replace(struct action *a, const struct sigaction *action, struct sigaction *old);

/* The calling thread is the only one: what others had claimed is free. */
void action_forked(struct action *a);

#endif
