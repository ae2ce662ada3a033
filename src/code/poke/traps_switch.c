/* SPDX-License-Identifier: MIT */
/*
 * traps_switch.c - traps of a set that rest: their int3 is taken away and put back, a thousand at
 * once, while the handler continues knowing them.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "code/mem.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_view.h"
#include "code/poke/text.h"
#include "code/poke/traps.h"
#include "code/poke/traps_switch.h"
#include "record/code_layout.h"

/* Entries of the rows that are not yet so. */
static size_t take_rows(struct poke_batch *batch, const struct trapline_traps *set,
			const uint32_t *rows, size_t n, int on)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		const struct trap_row *row = &set->rows[rows[i]];

		if (row->is_gone || row->is_resting != on || !trap_row_is_in_place(row))
			continue;
		trap_row_entry(&batch->entries[count++], row, !on);
	}
	return count;
}

static void note_rows(const struct poke_batch *batch, struct trapline_traps *set, int on)
{
	for (size_t i = 0; i < batch->count; i++)
		set->rows[batch->entries[i].site].is_resting = (uint8_t)!on;
}

static int write_rows(struct change *change, int on)
{
	int err = change_sort(change);

	if (!err)
		err = change_compare(change, NULL);
	if (err)
		return err;
	change->form = CODE_FORM_DIRECT;
	poke_report(change, TRAPLINE_CODE_BEGIN);
	err = change_write(change, on ? TEXT_INT3 : TEXT_FIRST);
	if (err) {
		/* As it was: what is neither is noticed by its bytes, and left alone. */
		int is_back = !change_write(change, on ? TEXT_BACK : TEXT_INT3);
		poke_sync();
		poke_report(change, is_back ? TRAPLINE_CODE_UNDONE : TRAPLINE_CODE_STRANDED);
		return err;
	}
	poke_sync();
	poke_report(change, TRAPLINE_CODE_DONE);
	return 0;
}

int traps_switch(struct trapline_traps *set, const uint32_t *rows, size_t n, int on,
		 struct code_problem *problem)
{
	struct change change;
	int err = poke_lock_take(problem);

	if (err)
		return err;
	if (set->is_off || n > set->count) {
		problem->why = "no such rows";
		err = -EINVAL;
		goto out_lock;
	}
	err = change_begin(&change, n, set->writers, problem);
	if (err)
		goto out_lock;
	change.batch->count = take_rows(change.batch, set, rows, n, on);
	if (change.batch->count)
		err = write_rows(&change, on);
	if (!err)
		note_rows(change.batch, set, on);
	change_end(&change);
out_lock:
	poke_lock_give();
	return err;
}

int traps_rest_all(struct trapline_traps *set)
{
	int fd = mem_open_plain();

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < set->count && !set->is_off; i++) {
		struct trap_row *row = &set->rows[i];

		if (row->is_gone || row->is_resting || !trap_row_is_in_place(row))
			continue;
		if (sys_of_fd(SYS_pwrite64, fd, row->bytes, TRAP_BYTES, row->address, 0) ==
		    TRAP_BYTES)
			row->is_resting = 1;
	}
	sys_close(fd);
	return 0;
}
