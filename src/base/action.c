/* SPDX-License-Identifier: MIT */
/* action.c - see action.h. */
#include "base/action.h"
#include "base/trap_path.h"

#include <string.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/sys.h"

#define ACTION_BUSY UINT64_MAX
/*
 * A copy fails only if 15 replacements were made in the meantime. After so many in a row the last
 * one is taken.
 */
#define TRIES 100000u

_Static_assert(sizeof(struct sigaction) % sizeof(uint64_t) == 0, "it is copied in words");
_Static_assert((ACTION_SLOTS & (ACTION_SLOTS - 1)) == 0, "its number is a part of a version");

TRAP_PATH static int copy(const struct action_slot *slot, uint64_t version, uint64_t *words)
{
	if (atomic_get(&slot->version) != version)
		return 0;
	for (unsigned int i = 0; i < ACTION_WORDS; i++)
		words[i] = atomic_get(&slot->words[i]);
	return atomic_get(&slot->version) == version;
}

TRAP_PATH uint64_t action_read(const struct action *a, struct sigaction *out)
{
	uint64_t words[ACTION_WORDS] = { 0 };
	uint64_t version = 0;
	int is_whole = 0;

	for (unsigned int i = 0; i < TRIES && !is_whole; i++) {
		version = atomic_get(&a->current);
		is_whole = copy(&a->slots[version % ACTION_SLOTS], version, words);
	}
	memcpy(out, words, sizeof(*out));
	if (version && atomic_get(&a->slots[version % ACTION_SLOTS].reset) == version)
		out->sa_handler = SIG_DFL;
	return version;
}

TRAP_PATH int action_reset(struct action *a, uint64_t version)
{
	uint64_t *reset = &a->slots[version % ACTION_SLOTS].reset;
	uint64_t before = atomic_get(reset);

	/* Later ones have the slot: the action was replaced after the signal had come. */
	while (before < version)
		if (atomic_cas(reset, &before, version))
			return 1;
	return before != version;
}

/* The caller alone has it then. */
static unsigned int claim(struct action *a, uint64_t number)
{
	for (;; number++) {
		unsigned int slot = (unsigned int)(number % ACTION_SLOTS);
		uint32_t is_free = 0;

		if (atomic_cas(&a->slots[slot].is_claimed, &is_free, 1u))
			return slot;
		if (slot == ACTION_SLOTS - 1)
			sys_sched_yield();
	}
}

static void store(struct action_slot *slot, uint64_t version, const struct sigaction *action)
{
	uint64_t words[ACTION_WORDS];

	memcpy(words, action, sizeof(words));
	atomic_set(&slot->version, ACTION_BUSY);
	for (unsigned int i = 0; i < ACTION_WORDS; i++)
		atomic_set(&slot->words[i], words[i]);
	atomic_set(&slot->version, version);
}

void action_replace(struct action *a, const struct sigaction *action, struct sigaction *old)
{
	uint64_t number = atomic_add(&a->made, 1u) + 1;
	unsigned int slot = claim(a, number);
	uint64_t version = number * ACTION_SLOTS + slot;

	store(&a->slots[slot], version, action);
	uint64_t before = atomic_swap(&a->current, version);
	struct action_slot *left = &a->slots[before % ACTION_SLOTS];
	if (old) {
		memcpy(old, left->words, sizeof(*old));
		if (before && atomic_get(&left->reset) == before)
			old->sa_handler = SIG_DFL;
	}
	atomic_set(&left->is_claimed, 0u);
}

AT_FORK void action_forked(struct action *a)
{
	for (unsigned int i = 0; i < ACTION_SLOTS; i++)
		atomic_set_if_other(&a->slots[i].is_claimed,
				    (uint32_t)(i == a->current % ACTION_SLOTS));
}
