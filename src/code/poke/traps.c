/* SPDX-License-Identifier: MIT */
/*
 * traps.c - int3 that stay, and the table the handler finds them in.
 *
 * The table is published before the first int3 and replaced after the last byte is back, so that a
 * thread that traps always finds its row. If the text of a row was unloaded, or changed by other
 * code, this is noticed when its set is removed, or when its address is asked for again. Such a row
 * is only forgotten.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/hash.h"
#include "base/lines.h"
#include "base/memory.h"
#include "base/own_thread_name.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "code/log/code_stream.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_trap.h"
#include "code/poke/poke_view.h"
#include "code/poke/reserved.h"
#include "code/poke/restartable.h"
#include "code/poke/text.h"
#include "code/poke/traps.h"
#include "code/step/step.h"
#include "code/step/step_plan.h"
#include "record/code_layout.h"

#define MASK_TRIES 50
#define MASK_TRIES_RUNNABLE 2000
#define MASK_NAP_NS 1000000
#define WAIT_STEP_NS 50000
#define WAIT_STEPS 40000 /* 2 s and more */

/* ---- the table ---- */

static size_t traps_place_of(uint64_t address, size_t mask)
{
	return (address * HASH_MIX >> 20) & mask;
}

static void table_put(struct trap_table *table, struct trap_row *row)
{
	size_t at = traps_place_of(row->address, table->mask);

	while (table->rows[at])
		at = (at + 1) & table->mask;
	table->rows[at] = row;
	table->count++;
}

/* The present one without gone rows and without a set, with another one. NULL: no memory. */
static struct trap_table *table_with(struct trapline_traps *more,
				     const struct trapline_traps *without)
{
	const struct trap_table *old = poke_view.traps;
	size_t n = (old ? old->count : 0) + (more ? more->count : 0);
	size_t entries = 64;

	while (entries < n * 2 + 2)
		entries *= 2;
	size_t bytes = sizeof(struct trap_table) + entries * sizeof(struct trap_row *);
	struct trap_table *table = memory_map(bytes);
	if (memory_failed(table))
		return NULL;
	table->mask = entries - 1;
	table->bytes = bytes;
	for (size_t i = 0; old && i <= old->mask; i++)
		if (old->rows[i] && !old->rows[i]->is_gone && old->rows[i]->set != without)
			table_put(table, old->rows[i]);
	for (size_t i = 0; more && i < more->count; i++)
		if (!more->rows[i].is_gone)
			table_put(table, &more->rows[i]);
	return table;
}

static struct trap_table *table_publish(struct trap_table *table)
{
	struct trap_table *old = poke_view.traps;

	/* In this order (R4). */
	atomic_set(&poke_view.traps, table);
	atomic_add(&poke_view.generation, 1u);
	return old;
}

int trap_row_is_in_place(const struct trap_row *row)
{
	uint8_t now[SITE_MAX];

	return !text_read(row->address, now, row->len) &&
	       !memcmp(now, row->is_resting ? row->bytes : trap_code, TRAP_BYTES) &&
	       !memcmp(now + TRAP_BYTES, row->bytes + TRAP_BYTES, row->len - TRAP_BYTES);
}

static void forget(struct trap_row *row)
{
	row->is_gone = 1;
	counter_add(&poke_stats.gone, 1);
}

int traps_overlap(uint64_t address, size_t len)
{
	const struct trap_table *table = poke_view.traps;

	for (size_t i = 0; table && i < len; i++) {
		struct trap_row *row = traps_find(table, address + i);

		if (!row || row->is_gone)
			continue;
		if (trap_row_is_in_place(row))
			return 1;
		forget(row);
	}
	return 0;
}

/* ---- where a trap may be ---- */

struct masks {
	int blocked; /* threads that have SIGTRAP blocked */
	int waiting; /* of those, others than the caller that run, or would if a CPU were free */
};

/* A thread of Trapline does nothing that could reach a trap while it has the signal blocked. */
static int read_mask(void *arg, pid_t tid)
{
	struct masks *masks = arg;
	struct lines status;
	char path[64];
	char name[32] = "";
	unsigned long long mask = 0;
	char state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	if (lines_open(&status, path))
		return 0; /* it has ended */
	for (char *line; (line = lines_next(&status));) {
		if (sscanf(line, "SigBlk: %llx", &mask) == 1)
			break;
		sscanf(line, "Name: %31s", name);
		sscanf(line, "State: %c", &state);
	}
	lines_close(&status);
	if (!((mask >> (SIGTRAP - 1)) & 1) || (own_thread_has_name(name) && tid != sys_getpid()))
		return 0;
	masks->blocked++;
	masks->waiting += state == 'R' && tid != sys_gettid();
	return 0;
}

/* 0 or -EACCES. */
static int read_masks(struct masks *masks)
{
	struct task_names names;
	int saved = errno;

	*masks = (struct masks){ 0 };
	int err = tasks_each(sys_getpid(), &names, read_mask, masks);
	errno = saved;
	return err ? -EACCES : 0;
}

/*
 * A thread that begins or ends has all signals blocked until it has run for some microseconds. On a
 * busy machine it waits longer than that for a CPU, and is runnable except for moments (a lock on
 * the memory map). So the looks that found no such thread are counted.
 */
static int wait_for_masks(struct masks *masks)
{
	const struct timespec nap = { 0, MASK_NAP_NS };
	int err = read_masks(masks);
	int looks_asleep = 0;

	for (int i = 0; !err && masks->blocked && i < MASK_TRIES_RUNNABLE; i++) {
		looks_asleep += !masks->waiting;
		if (looks_asleep > MASK_TRIES)
			break;
		sys_nap(&nap);
		err = read_masks(masks);
	}
	return err;
}

int traps_check_masks(struct code_problem *problem)
{
	struct masks masks;
	int err = wait_for_masks(&masks);

	if (err)
		problem->why = "the signal masks of the threads cannot be read in /proc";
	else if (masks.blocked)
		problem->why =
			"a thread has SIGTRAP blocked and would be killed by a trap: unblock it, "
			"or keep it away from the code";
	return err ? err : masks.blocked ? -EBUSY : 0;
}

int traps_wait_for_callbacks(const struct trapline_traps *set)
{
	for (int i = 0; atomic_get(&set->running); i++) {
		struct timespec step = { 0, WAIT_STEP_NS };

		if (i == WAIT_STEPS)
			return -EBUSY;
		sys_nap(&step);
	}
	return 0;
}

/* ---- set ---- */

#define NO_PAGE 1u /* where no page begins */

/* The page that was asked for last; under the lock, during one change. */
static struct {
	uint64_t at; /* NO_PAGE: none */
	uint8_t bytes[PAGE_BYTES];
} page;

/* Returns how many bytes are there, at most as an instruction has; or -EFAULT. */
static int read_instruction(uint64_t address, uint8_t *out)
{
	uint64_t in_page = address & (PAGE_BYTES - 1);
	uint64_t to_page_end = PAGE_BYTES - in_page;

	if (to_page_end < SITE_MAX) {
		/* The page behind may not be there. */
		if (!text_read(address, out, SITE_MAX))
			return SITE_MAX;
		return text_read(address, out, to_page_end) ? -EFAULT : (int)to_page_end;
	}
	if (page.at != address - in_page) {
		page.at = NO_PAGE;
		if (text_read(address - in_page, page.bytes, PAGE_BYTES))
			return -EFAULT;
		page.at = address - in_page;
	}
	memcpy(out, page.bytes + in_page, SITE_MAX);
	return SITE_MAX;
}

static int fill_row(struct change *change, struct trapline_traps *set, size_t i, uint64_t address)
{
	struct code_problem *problem = change->problem;
	struct trap_row *row = &set->rows[i];
	const char *why = NULL;

	problem->site = i;
	row->address = address;
	row->set = set;
	row->index = (uint32_t)i;
	int n = read_instruction(address, row->bytes);
	if (n < 0) {
		problem->why = "an address is not mapped";
		return -EFAULT;
	}
	if (traps_overlap(address, 1)) {
		problem->why = "a trap is there already";
		return -EBUSY;
	}
	problem->why = reserved_why(address, 1);
	if (problem->why)
		return -EBUSY;
	if (trap_is(row->bytes)) {
		problem->why =
			"an int3 is there already: a debugger's breakpoint, or another patcher's";
		return -EBUSY;
	}
	int length = step_length(row->bytes, (size_t)n);
	if (length < 0 || change_is_needed_by_handler(change, address, (size_t)length)) {
		problem->why = length < 0 ? "no instruction begins at an address" :
					    "the SIGTRAP handler itself runs this instruction";
		return -EINVAL;
	}
	row->len = (uint8_t)length;
	if (restartable_has(address, row->len)) {
		problem->why = restartable_why;
		return -EOPNOTSUPP;
	}
	int err = step_plan(address, row->bytes, row->len, STEP_ONE, &row->step, &why);
	if (!err && step_is_in_exclusive(address)) {
		why = "between an exclusive load and its store, which a trap would fail each time";
		err = -EOPNOTSUPP;
	}
	if (!err && row->step.kind == STEP_AGAIN)
		err = -EOPNOTSUPP;
	problem->why = err && !why ? "the instruction raises a signal itself" : why;
	return err;
}

void trap_row_entry(struct poke_entry *entry, const struct trap_row *row, int is_removal)
{
	entry->address = row->address;
	entry->len = row->len;
	entry->site = row->index;
	memcpy(entry->before, row->bytes, sizeof(row->bytes));
	memset(entry->before + row->len, 0, sizeof(entry->before) - row->len);
	memcpy(entry->after, entry->before, sizeof(entry->after));
	memcpy(is_removal ? entry->before : entry->after, trap_code, TRAP_BYTES);
}

static int write_traps(struct change *change, struct trapline_traps *set)
{
	int err = change_note(change);

	if (err)
		return err;
	struct trap_table *table = table_with(set, NULL);
	if (!table) {
		change->problem->why = "no memory for the table of traps";
		return -ENOMEM;
	}
	struct trap_table *old = table_publish(table);
	change->form = CODE_FORM_DIRECT;
	poke_report(change, TRAPLINE_CODE_BEGIN);
	err = change_write(change, TEXT_INT3);
	if (!err && poke_sync()) {
		change->problem->why = "membarrier() stopped working in this process";
		err = -EOPNOTSUPP;
	}
	if (!err) {
		poke_report(change, TRAPLINE_CODE_DONE);
		poke_retire(old, old ? old->bytes : 0);
		return 0;
	}
	int is_back = !change_write(change, TEXT_BACK);
	poke_sync();
	poke_report(change, is_back ? TRAPLINE_CODE_UNDONE : TRAPLINE_CODE_STRANDED);
	counter_add(&poke_stats.rolled_back, 1);
	table_publish(old);
	poke_retire(table, table->bytes);
	return err;
}

static int fill_rows(struct change *change, struct trapline_traps *set, const uint64_t *addresses)
{
	size_t n = 0;
	int err = 0;

	page.at = NO_PAGE;
	for (size_t i = 0; i < set->count; i++) {
		err = fill_row(change, set, i, addresses[i]);
		int is_left_out = set->is_most && (err == -EOPNOTSUPP || err == -EINVAL);

		if (err && !is_left_out)
			return err;
		if (is_left_out)
			set->rows[i].is_gone = 1;
		else
			trap_row_entry(&change->batch->entries[n++], &set->rows[i], 0);
	}
	if (!n)
		return err;
	change->batch->count = n;
	change->problem->why = NULL;
	return 0;
}

static int set_locked(struct trapline_traps *set, const uint64_t *addresses,
		      struct code_problem *problem)
{
	struct change change;
	int err = change_begin(&change, set->count, set->writers, problem);

	if (err)
		return err;
	err = fill_rows(&change, set, addresses);
	if (!err)
		err = change_sort(&change);
	if (!err)
		err = change_compare(&change, NULL);
	if (!err)
		err = write_traps(&change, set);
	change_end(&change);
	return err;
}

/* All sets, for fork. */
#define SETS_MAX 4096
static struct trapline_traps *sets[SETS_MAX];
static size_t sets_end; /* no row behind it was ever used: a forked child need not read them */

static int note_set(struct trapline_traps *from, struct trapline_traps *to)
{
	for (size_t i = 0; i < SETS_MAX; i++) {
		if (sets[i] != from)
			continue;
		sets[i] = to;
		sets_end = i < sets_end ? sets_end : i + 1;
		return 0;
	}
	return -ENOSPC;
}

static int set_traps(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
		     int is_most, struct trapline_traps **out, struct code_problem *problem)
{
	size_t bytes = sizeof(struct trapline_traps) + n * sizeof(struct trap_row);
	int err = opts->flags & TRAPLINE_TRAPS_ANY_MASK ? 0 : traps_check_masks(problem);

	if (err)
		return err;
	struct restartable *sequences = restartable_look();
	code_stream_objects();
	struct trapline_traps *set = n > SIZE_MAX / sizeof(struct trap_row) / 2 ? (void *)-1L :
										  memory_map(bytes);
	if (memory_failed(set)) {
		problem->why = "no memory for the traps";
		restartable_drop(sequences);
		return -ENOMEM;
	}
	set->callback = opts->callback;
	set->arg = opts->arg;
	set->writers = opts->writers;
	set->count = n;
	set->bytes = bytes;
	set->is_most = is_most;
	err = poke_lock_take(problem);
	if (err) {
		restartable_drop(sequences);
		goto out_memory;
	}
	restartable_take(sequences);
	err = note_set(NULL, set);
	if (err) {
		problem->why = "too many sets of traps";
		goto out_lock;
	}
	err = set_locked(set, addresses, problem);
	if (err) {
		/* A thread may have come by before it was undone; else the set is lost. */
		if (!poke_quiesce() && !traps_wait_for_callbacks(set)) {
			note_set(set, NULL);
			memory_unmap(set, bytes);
		}
		poke_lock_give();
		return err;
	}
	poke_lock_give();
	*out = set;
	return 0;

out_lock:
	poke_lock_give();
out_memory:
	memory_unmap(set, bytes);
	return err;
}

int traps_set(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
	      struct trapline_traps **out, struct code_problem *problem)
{
	return set_traps(addresses, n, opts, 0, out, problem);
}

int traps_set_most(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
		   struct trapline_traps **out, struct code_problem *problem)
{
	return set_traps(addresses, n, opts, 1, out, problem);
}

int traps_hits(const struct trapline_traps *traps, size_t index, uint64_t *nested, uint64_t *out)
{
	if (index >= traps->count)
		return -EINVAL;
	if (nested)
		*nested = counter_get(&traps->rows[index].nested);
	*out = counter_get(&traps->rows[index].hits);
	return 0;
}

/* ---- remove ---- */

static void leave_alone(struct poke_entry *entry)
{
	/* Its bytes are now others': written back as they are found, that is, not at all. */
	entry->len = 0;
}

/* Entries only of rows that are still in place. */
static void keep_entries(struct poke_batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->count; i++)
		if (batch->entries[i].len)
			batch->entries[n++] = batch->entries[i];
	batch->count = n;
}

static void fill_removal(struct poke_batch *batch, struct trapline_traps *set)
{
	for (size_t i = 0; i < set->count; i++) {
		trap_row_entry(&batch->entries[i], &set->rows[i], 1);
		if (set->rows[i].is_gone) {
			batch->entries[i].len = 0;
			continue;
		}
		if (trap_row_is_in_place(&set->rows[i])) {
			if (set->rows[i].is_resting)
				leave_alone(&batch->entries[i]);
			continue;
		}
		forget(&set->rows[i]);
		leave_alone(&batch->entries[i]);
	}
	keep_entries(batch);
}

static int remove_int3(struct change *change, struct trapline_traps *set)
{
	fill_removal(change->batch, set);
	int err = change_sort(change);
	if (!err)
		err = change_compare(change, NULL);
	if (err)
		return err;
	change->form = CODE_FORM_DIRECT;
	poke_report(change, TRAPLINE_CODE_BEGIN);
	err = change_write(change, TEXT_FIRST);
	/* Not finished: rows and table stay, so that traps that are still there work on. */
	if (err) {
		poke_report(change, TRAPLINE_CODE_STRANDED);
		return err;
	}
	poke_sync();
	poke_report(change, TRAPLINE_CODE_DONE);
	return 0;
}

static int take_off(struct trapline_traps *set, struct code_problem *problem)
{
	struct change change;
	struct trap_table *table = table_with(NULL, set);

	if (!table) {
		problem->why = "no memory for the table of traps";
		return -ENOMEM;
	}
	int err = change_begin(&change, set->count, set->writers, problem);
	if (err) {
		memory_unmap(table, table->bytes);
		return err;
	}
	err = remove_int3(&change, set);
	change_end(&change);
	if (err) {
		memory_unmap(table, table->bytes);
		return err;
	}
	struct trap_table *old = table_publish(table);
	poke_retire(old, old ? old->bytes : 0);
	set->is_off = 1;
	return 0;
}

int traps_remove(struct trapline_traps *set, struct code_problem *problem)
{
	int err = poke_lock_take(problem);

	if (err)
		return err;
	if (!set->is_off)
		err = take_off(set, problem);
	/* In this order: a thread that is still in the handler may be about to run the callback. */
	int in_use = err ? 0 : poke_quiesce();
	poke_lock_give();
	if (err)
		return err;
	if (in_use || traps_wait_for_callbacks(set)) {
		problem->why = "a callback has not returned for 2 s, or a debugger has stopped a "
			       "thread in the handler; the traps are gone, remove the set again "
			       "to free it";
		return -EBUSY;
	}
	err = poke_lock_take(problem);
	if (err)
		return err;
	note_set(set, NULL);
	memory_unmap(set, set->bytes);
	poke_lock_give();
	return 0;
}

/* The threads whose callbacks were running are not here. */
AT_FORK void traps_after_fork_in_child(void)
{
	for (size_t i = 0; i < sets_end; i++)
		if (sets[i])
			atomic_set_if_other(&sets[i]->running, sets[i] == poke_running_set());
}
