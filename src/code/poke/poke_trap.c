/* SPDX-License-Identifier: MIT */
/*
 * poke_trap.c - what an int3 means: the part of poke.h that runs inside SIGTRAP.
 *
 * Calls nothing outside the trap path: any libc function may itself be under a trap.
 */
#include "base/general_regs.h"

#include <errno.h>

#include "base/after_fork.h"
#include "base/frame.h"
#include "base/hash.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/log/code_emit.h"
#include "code/poke/history.h"
#include "code/poke/poke_trap.h"
#include "code/poke/poke_view.h"
#include "code/poke/quiesce.h"
#include "code/poke/region.h"
#include "code/poke/traps.h"
#include "code/step/step.h"
#include "code/step/step_take.h"

#define AGAIN_NAP_NS 20000

struct poke_view poke_view;
struct trapline_code_stats poke_stats;
struct region_range region_ranges[REGION_MAX];
AFTER_FORK int region_is_forking;
void (*poke_before_callback)(const ucontext_t *context);
void (*poke_after_callback)(const ucontext_t *context);
struct history_page poke_history[HISTORY_PAGES];

struct poke_thread {
	const void *frame;	    /* of the handler that runs a callback; NULL: none */
	struct trapline_traps *set; /* whose callback that is */
};
static __thread struct poke_thread self __attribute__((tls_model("initial-exec")));

/* What the handler takes along when it leaves the published structures. */
struct found {
	struct step step;
	struct trapline_traps *set; /* its callback shall run */
	uint32_t index;
	uint32_t is_of_batch;
};

int poke_is_in_callback(void)
{
	return self.set != NULL;
}

struct trapline_traps *poke_running_set(void)
{
	return self.set;
}

TRAP_PATH static const struct poke_entry *find_entry(const struct poke_batch *batch,
						     uint64_t address)
{
	size_t low = 0;
	size_t high = batch->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (batch->entries[middle].address == address)
			return &batch->entries[middle];
		if (batch->entries[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

TRAP_PATH struct trap_row *traps_find(const struct trap_table *table, uint64_t address)
{
	size_t at = (address * HASH_MIX >> 20) & table->mask;

	while (table->rows[at] && table->rows[at]->address != address)
		at = (at + 1) & table->mask;
	return table->rows[at];
}

/* By member: a structure copied as a whole may become a call of memcpy(). */
TRAP_PATH static void take_along(struct found *found, const struct step *step)
{
	found->step.kind = step->kind;
	found->step.condition = step->condition;
	found->step.is_copy = step->is_copy;
	found->step.base = step->base;
	found->step.index = step->index;
	found->step.scale = step->scale;
	found->step.length = step->length;
	found->step.imm = step->imm;
	found->step.target = step->target;
	found->set = NULL;
	found->index = 0;
	found->is_of_batch = 0;
}

TRAP_PATH static int find_in_batch(uint64_t address, struct found *found)
{
	const struct poke_batch *batch = atomic_get(&poke_view.batch);
	const struct poke_entry *entry = batch ? find_entry(batch, address) : NULL;

	if (!entry) {
		batch = atomic_get(&poke_view.stranded);
		for (; batch && !entry; batch = entry ? batch : batch->next)
			entry = find_entry(batch, address);
	}
	if (!entry)
		return 0;
	take_along(found, atomic_get(&batch->committed) ? &entry->step_after : &entry->step_before);
	found->is_of_batch = 1;
	counter_add(&poke_stats.emulated, 1);
	if (found->step.is_copy)
		counter_add(&poke_stats.copied, 1);
	return 1;
}

TRAP_PATH static int find_in_table(uint64_t address, int is_nested, struct found *found)
{
	const struct trap_table *table = atomic_get(&poke_view.traps);
	struct trap_row *row = table ? traps_find(table, address) : NULL;

	if (!row)
		return 0;
	take_along(found, &row->step);
	counter_add(&poke_stats.trap_passes, 1);
	counter_add(&row->hits, 1);
	if (!row->set || !row->set->callback)
		return 1;
	if (is_nested) {
		counter_add(&row->nested, 1);
		counter_add(&poke_stats.trap_nested, 1);
		return 1;
	}
	/*
	 * Counted while the row is still published: the thread that removes the set waits for it.
	 */
	atomic_add(&row->set->running, 1u);
	found->set = row->set;
	found->index = row->index;
	return 1;
}

/* 1: the context continues elsewhere, by the callback's wish. */
TRAP_PATH static int run_callback(struct found *found, uint64_t address, ucontext_t *context)
{
	struct trapline_traps *set = found->set;
	struct trapline_trap_hit hit = {
		.size = sizeof(hit),
		.traps = set,
		.arg = set->arg,
		.index = found->index,
		.address = address,
		.context = context,
	};

	self.frame = __builtin_frame_address(0);
	self.set = set;
	void (*before)(const ucontext_t *) = atomic_get(&poke_before_callback);
	void (*after)(const ucontext_t *) = atomic_get(&poke_after_callback);

	if (before)
		before(context);
	set->callback(&hit);
	if (after)
		after(context);
	self.set = NULL;
	self.frame = NULL;
	atomic_add(&set->running, -1u);
	return trap_pc(context) != address;
}

/* Memory that a new child may still share with its parent, which may be changing it. */
TRAP_PATH static int is_shared_region(uint64_t address)
{
	if (!atomic_get(&region_is_forking))
		return 0;
	for (size_t i = 0; i < REGION_MAX; i++)
		if (address - region_ranges[i].start < region_ranges[i].bytes)
			return 1;
	return 0;
}

TRAP_PATH static int had_int3(uint64_t address)
{
	size_t at = history_place(address / 4096);

	while (atomic_get(&poke_history[at].page) && poke_history[at].page != address / 4096)
		at = (at + 1) % HISTORY_PAGES;
	return poke_history[at].page &&
	       atomic_get(&poke_history[at].bits[address % 4096 / 64]) >> address % 64 & 1;
}

/* Unreadable: unmapped since, and the fault is the program's to see. */
TRAP_PATH static int has_int3(uint64_t address)
{
	return trap_is_at(address);
}

/* Neither a site nor a trap, but it was one. 1: run the pc again. */
TRAP_PATH static int is_orphan(uint64_t address, uint64_t generation)
{
	int is_gone;

	if (is_shared_region(address))
		is_gone = 1;
	else
		is_gone = had_int3(address) &&
			  (!has_int3(address) || atomic_get(&poke_view.generation) != generation);
	counter_add(&poke_stats.orphans, (uint64_t)is_gone);
	return is_gone;
}

TRAP_PATH int poke_was_put_back(const ucontext_t *context)
{
	uint64_t pc = trap_pc(context);

	if (!atomic_get(&poke_view.generation))
		return 0; /* nothing was ever changed */
	if (!TRAP_BEHIND || !had_int3(pc) || has_int3(pc - TRAP_BEHIND)) {
		counter_add(&poke_stats.foreign, 1);
		return 0;
	}
	counter_add(&poke_stats.orphans, 1);
	code_emit_hit(pc - TRAP_BEHIND, pc, 1);
	return 1;
}

TRAP_PATH int poke_is_nested(const ucontext_t *context)
{
	return self.frame && frame_is_inside(self.frame, context);
}

TRAP_PATH int poke_on_int3(ucontext_t *context)
{
	uint64_t generation = atomic_get(&poke_view.generation);
	uint64_t address = trap_pc(context) - TRAP_BEHIND;
	struct found found;

	if (!generation)
		return 0; /* nothing was ever changed */
	int is_nested = poke_is_nested(context);
	struct quiesce_ticket inside = quiesce_enter();
	int is_ours = find_in_batch(address, &found) || find_in_table(address, is_nested, &found);
	quiesce_leave(inside);

	if (!is_ours && !is_orphan(address, generation))
		return 0;
	trap_set_pc(context, address);
	if (!is_ours)
		code_emit_hit(address, address, 1);
	if (!is_ours || (found.set && run_callback(&found, address, context)))
		return 1;
	if (found.step.kind == STEP_AGAIN) {
		/*
		 * Asleep, so that the thread that changes the code gets the CPU, no matter what its
		 * priority.
		 */
		struct timespec nap = { 0, AGAIN_NAP_NS };

		sys_nap(&nap);
		code_emit_hit(address, address, 1);
		return 1;
	}
	step_take(&found.step, address, context);
	if (found.is_of_batch)
		code_emit_hit(address, trap_pc(context), 0);
	return 1;
}
