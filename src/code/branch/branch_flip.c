/* SPDX-License-Identifier: MIT */
/*
 * branch_flip.c - many branches at once between their two instructions.
 *
 * Only the first byte differs, so one store of one byte is the whole change, and one sync is
 * enough. Where the processor does not promise that a core fetches such a store whole, changed
 * pages replace the old ones. While a code log is on, and where that is not possible, an int3 is
 * there between the two syncs. The step past it is known without decoding: a test whose flags are
 * not inspected is a jump behind itself.
 */
#include "code/branch/branch_flip.h"

#include <errno.h>

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
		out->target += (uint64_t)(int64_t)row->distance;
}

static void fill(struct poke_batch *batch, const struct branch_row *rows, size_t n, int on)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		const struct branch_row *row = &rows[i];
		struct poke_entry *entry = &batch->entries[count];

		if (!is_due(row, on))
			continue;
		entry->address = row->address;
		entry->len = 1;
		entry->site = (uint32_t)i;
		entry->before[0] = row->is_jump ? BRANCH_JUMP : BRANCH_TEST;
		entry->after[0] = row->is_jump ? BRANCH_TEST : BRANCH_JUMP;
		for (size_t b = 1; b < sizeof(entry->before); b++)
			entry->before[b] = entry->after[b] = 0;
		plan(row, row->is_jump, &entry->step_before);
		plan(row, !row->is_jump, &entry->step_after);
		count++;
	}
}

static int flip_locked(const struct branch_row *rows, size_t n, int on, uint32_t flags,
		       struct code_problem *problem)
{
	struct change change;
	int err = change_begin(&change, branch_flips_due(rows, n, on), 0, problem);

	if (err)
		return err;
	fill(change.batch, rows, n, on);
	err = change_sort(&change);
	if (!err)
		err = change_compare(&change, NULL);
	if (!err && flags && !poke_stores_are_promised())
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
