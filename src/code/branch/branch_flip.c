/* SPDX-License-Identifier: MIT */
/*
 * branch_flip.c - many branches at once between their two instructions.
 *
 * One store is the whole change, and one sync is enough: branch_code.h. While a code log is on, and
 * where a store is not possible, a trap is there between the two syncs. The step past it is known
 * without decoding: what does not jump continues behind itself.
 */
#include "code/branch/branch_flip.h"

#include <errno.h>

#include "code/branch/branch_code.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_any_mask.h"
#include "code/poke/poke_view.h"

static int is_due(const struct branch_row *row, int on)
{
	return row->is_jump != (on ^ row->is_inverted);
}

size_t branch_flips_due(const struct branch_row *rows, size_t n, int on)
{
	size_t due = 0;

	for (size_t i = 0; i < n; i++)
		due += (size_t)is_due(&rows[i], on);
	return due;
}

static void plan(const struct branch_row *row, int is_jump, struct step *out)
{
	*out = (struct step){
		.kind = STEP_JUMP,
		.length = BRANCH_BYTES,
		.target = row->address + BRANCH_BYTES,
	};
	if (is_jump)
		out->target = row->target;
}

/* 0: it leads out of reach. */
static int fill_one(struct poke_entry *entry, const struct branch_row *row)
{
	entry->address = row->address;
	entry->len = BRANCH_CHANGED_BYTES;
	for (size_t b = 0; b < sizeof(entry->before); b++)
		entry->before[b] = entry->after[b] = 0;
	plan(row, row->is_jump, &entry->step_before);
	plan(row, !row->is_jump, &entry->step_after);
	return branch_put(entry->before, row->address, row->target, row->is_jump) &&
	       branch_put(entry->after, row->address, row->target, !row->is_jump);
}

static int fill(struct change *change, const struct branch_row *rows, size_t n, int on)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		struct poke_entry *entry = &change->batch->entries[count];

		if (!is_due(&rows[i], on))
			continue;
		entry->site = (uint32_t)i;
		count++;
		if (fill_one(entry, &rows[i]))
			continue;
		change->problem->site = i;
		change->problem->why = "a branch leads further than 128 MiB";
		return -EINVAL;
	}
	return 0;
}

static int flip_locked(const struct branch_row *rows, size_t n, int on, uint32_t flags,
		       struct code_problem *problem)
{
	struct change change;
	int err = change_begin(&change, branch_flips_due(rows, n, on), 0, problem);

	if (err)
		return err;
	err = fill(&change, rows, n, on);
	if (!err)
		err = change_sort(&change);
	if (!err)
		err = change_compare(&change, NULL);
	if (!err && flags && branch_needs_exchange())
		err = poke_exchange_all(&change);
	if (!err)
		err = poke_run(&change, flags);
	change_end(&change);
	return err;
}

static int flip(const struct branch_row *rows, size_t n, int on, uint32_t flags,
		struct code_problem *problem)
{
	int err = poke_lock_take(problem);

	if (err)
		return err;
	/* A reader of the log must know old from new. */
	if (poke_log_is_on())
		flags = 0;
	err = flip_locked(rows, n, on, flags, problem);
	poke_lock_give();
	return err;
}

int branch_flip(struct branch_row *rows, size_t n, int on, struct code_problem *problem)
{
	int err = flip(rows, n, on, TRAPLINE_POKE_SINGLE_STORE, problem);

	if (err == -EOPNOTSUPP)
		err = poke_may_trap(problem) ? -EBUSY : flip(rows, n, on, 0, problem);
	for (size_t i = 0; i < n && (!err || err == -EIO); i++)
		rows[i].is_jump = (uint8_t)(on ^ rows[i].is_inverted);
	return err;
}
