/* SPDX-License-Identifier: MIT */
/* poke.c - changing the bytes at many sites under running threads: the protocol of poke.h. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/sys.h"
#include "code/log/code_stream.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_store.h"
#include "code/poke/poke_view.h"
#include "code/poke/reserved.h"
#include "code/poke/restartable.h"
#include "code/poke/text.h"
#include "code/poke/traps.h"
#include "code/step/step.h"
#include "code/step/step_plan.h"
#include "record/code_layout.h"

static int refuse(struct change *change, const struct poke_entry *entry, int err, const char *why)
{
	change->problem->site = entry->site;
	change->problem->why = why;
	return err;
}

int poke_exchange_all(struct change *change)
{
	change->text.writers &= TRAPLINE_WRITE_EXCHANGE;
	change->problem->why = change->text.writers ?
				       "a code log is on: after an exchange of pages, old and new "
				       "code look the same" :
				       "single stores to code are not promised here, and an "
				       "exchange of pages is not among the writers";
	return change->text.writers && !poke_log_is_on() ? 0 : -EOPNOTSUPP;
}

/* What cannot be stored is made by copies of pages that replace all. */
static int check_stores(struct change *change, const struct poke_entry *entry, uint32_t flags)
{
	if (poke_can_store(entry, flags) || change->text.writers == TRAPLINE_WRITE_EXCHANGE)
		return 0;
	change->problem->site = entry->site;
	return poke_exchange_all(change);
}

/*
 * A jump of a probe whose last bytes are the instructions that follow: a step past the whole of it.
 * bytes has room for as much.
 */
static size_t complete(const struct poke_entry *entry, uint8_t *bytes)
{
	if (entry->len >= CODE_JUMP_BYTES || bytes[0] != 0xe9 ||
	    text_read(entry->address + entry->len, bytes + entry->len,
		      CODE_JUMP_BYTES - entry->len))
		return entry->len;
	return CODE_JUMP_BYTES;
}

static size_t take_side(const struct poke_entry *entry, const uint8_t *side, uint32_t flags,
			uint8_t *bytes)
{
	memcpy(bytes, side, sizeof(entry->before));
	return flags & POKE_OF_PROBE ? complete(entry, bytes) : entry->len;
}

static int plan_side(const struct poke_entry *entry, const uint8_t *side, enum step_rule rule,
		     uint32_t flags, struct step *out, const char **why)
{
	uint8_t bytes[sizeof(entry->before)];
	size_t len = take_side(entry, side, flags, bytes);

	return step_plan(entry->address, bytes, len, rule, out, why);
}

static int is_one(const struct poke_entry *entry, uint32_t flags)
{
	uint8_t bytes[sizeof(entry->before)];
	size_t len = take_side(entry, entry->before, flags, bytes);

	return step_is_one(entry->address, bytes, len);
}

/* What a thread does at each site in the meantime. */
static int plan_entry(struct change *change, struct poke_entry *entry, uint32_t flags)
{
	enum step_rule before = flags & TRAPLINE_POKE_QUIESCENT ? STEP_UNASKED : STEP_ONE;
	const char *why = NULL;
	int err;

	if (traps_overlap(entry->address, entry->len))
		return refuse(change, entry, -EBUSY, "a site has a trap");
	why = flags & POKE_OF_PROBE ? NULL : reserved_why(entry->address, entry->len);
	if (why)
		return refuse(change, entry, -EBUSY, why);
	if (flags & (TRAPLINE_POKE_SPIN | TRAPLINE_POKE_SINGLE_STORE)) {
		err = check_stores(change, entry, flags);
		if (err || before == STEP_UNASKED)
			return err;
		return is_one(entry, flags) ? 0 : refuse(change, entry, -EINVAL, step_why_several);
	}
	if (change_is_needed_by_handler(change, entry->address, entry->len))
		return refuse(change, entry, -EINVAL,
			      "the SIGTRAP handler itself runs this instruction");
	if (restartable_has(entry->address, entry->len))
		return refuse(change, entry, -EOPNOTSUPP, restartable_why);
	err = plan_side(entry, entry->before, before, flags, &entry->step_before, &why);
	if (!err)
		err = plan_side(entry, entry->after, STEP_FIRST, flags, &entry->step_after, &why);
	return err ? refuse(change, entry, err, why) : 0;
}

/*
 * The first eight bytes as one word, put together in a register: read back from smaller stores they
 * would wait for those. All of them are zero behind len.
 */
static uint64_t take_bytes(uint8_t *to, const uint8_t *from, size_t len)
{
	uint64_t word = 0;
	uint64_t rest = 0;

	if (len >= 8) {
		memcpy(&word, from, 8);
		for (size_t i = 8; i < len; i++)
			rest |= (uint64_t)from[i] << (i - 8) * 8;
	} else if (len >= 4) {
		uint32_t low;
		uint32_t high; /* overlaps low, with the same bytes */

		memcpy(&low, from, 4);
		memcpy(&high, from + len - 4, 4);
		word = low | (uint64_t)high << (len - 4) * 8;
	} else {
		for (size_t i = 0; i < len; i++)
			word |= (uint64_t)from[i] << i * 8;
	}
	memcpy(to, &word, 8);
	memcpy(to + 8, &rest, 8);
	return word;
}

static int take_sites(struct change *change, const struct trapline_poke_site *sites)
{
	struct poke_batch *batch = change->batch;

	for (size_t i = 0; i < batch->count; i++) {
		struct poke_entry *entry = &batch->entries[i];

		entry->address = sites[i].address;
		entry->len = (uint32_t)sites[i].len;
		entry->site = (uint32_t)i;
		if (sites[i].len < 1 || sites[i].len > SITE_MAX || !sites[i].expect ||
		    !sites[i].bytes)
			return refuse(change, entry, -EINVAL,
				      "a site has 1 to 15 bytes, expected and new ones");
		if ((entry->address | entry->len) % CODE_ALIGN)
			return refuse(change, entry, -EINVAL, "a site is whole words of 4 bytes");
		uint64_t before = take_bytes(entry->before, sites[i].expect, sites[i].len);
		uint64_t after = take_bytes(entry->after, sites[i].bytes, sites[i].len);
		/* What is longer than a word is not inspected: one sync more at worst. */
		batch->is_long |= (before ^ after) >> TRAP_BYTES * 8 || entry->len > 8;
	}
	return 0;
}

static int prepare(struct change *change, const struct trapline_poke_site *sites, uint32_t flags)
{
	int err = take_sites(change, sites);

	if (!err)
		err = change_sort(change);
	if (!err)
		err = change_compare(change, NULL);
	if (err == -EBUSY)
		counter_add(&poke_stats.refused, 1);
	for (size_t i = 0; i < change->batch->count && !err; i++)
		err = plan_entry(change, &change->batch->entries[i], flags);
	return err;
}

/* In this order (R4). */
static void publish(struct poke_batch *batch)
{
	atomic_set(&poke_view.batch, batch);
	atomic_add(&poke_view.generation, 1u);
}

static int sync_or_say(struct change *change)
{
	int err = poke_sync();

	if (err)
		change->problem->why = "membarrier() stopped working in this process";
	return err ? -EOPNOTSUPP : 0;
}

/* Still trapped, and text or membarrier refuse: the handler keeps the batch. */
static int strand(struct change *change)
{
	struct poke_batch *batch = change->batch;

	for (size_t i = 0; i < change->text.span_count; i++)
		if (change->text.spans[i].is_failed)
			counter_add(&poke_stats.stranded,
				    change->text.spans[i].end - change->text.spans[i].first);
	batch->is_stranded = 1;
	batch->next = atomic_get(&poke_view.stranded);
	atomic_set(&poke_view.stranded, batch);
	atomic_set(&poke_view.batch, NULL);
	poke_report(change, TRAPLINE_CODE_STRANDED);
	return -EIO;
}

static int undo(struct change *change, enum text_phase back, int err)
{
	int is_back = !change_write(change, back);

	poke_sync();
	counter_add(&poke_stats.rolled_back, 1);
	poke_report(change, is_back ? TRAPLINE_CODE_UNDONE : TRAPLINE_CODE_STRANDED);
	return err;
}

static int run_trapped(struct change *change)
{
	int is_long = change->batch->is_long;
	int err = change_note(change);

	if (err)
		return err;
	publish(change->batch);
	err = change_write(change, TEXT_INT3);
	if (!err)
		err = sync_or_say(change);
	if (err)
		return undo(change, TEXT_BACK, err);
	atomic_set(&change->batch->committed, 1);
	poke_report(change, TRAPLINE_CODE_TRAP);
	poke_report(change, TRAPLINE_CODE_OPEN);
	err = is_long ? change_write(change, TEXT_TAIL) : 0;
	/* Without the sync a first byte could meet a tail fetched before. */
	if (!err && is_long)
		err = sync_or_say(change);
	if (!err)
		err = change_write(change, TEXT_FIRST);
	/* Without a log nothing waits for the last int3 to be out of sight: see poke.h. */
	if (!err && poke_log_is_on())
		err = sync_or_say(change);
	return err ? strand(change) : 0;
}

/*
 * A thread that spins for ever under a real-time policy must not keep the CPU from the one that
 * would release it.
 */
static int raise_priority(struct sched_param *param)
{
	struct sched_param most = { .sched_priority = sched_get_priority_max(SCHED_FIFO) };
	int policy = (int)sys1(SYS_sched_getscheduler, 0);

	sys2(SYS_sched_getparam, 0, param);
	sys3(SYS_sched_setscheduler, 0, SCHED_FIFO, &most);
	return policy;
}

static int run_spin(struct change *change)
{
	struct sched_param param = { 0 };
	int policy = raise_priority(&param);
	int err = change_write(change, TEXT_SPIN);

	if (!err)
		err = sync_or_say(change);
	if (err) {
		undo(change, TEXT_SPIN_BACK, err);
		goto out_priority;
	}
	poke_report(change, TRAPLINE_CODE_TRAP);
	poke_report(change, TRAPLINE_CODE_OPEN);
	err = change_write(change, TEXT_SPIN_TAIL);
	if (!err)
		err = sync_or_say(change);
	if (!err)
		err = change_write(change, TEXT_SPIN_FIRST);
	if (!err)
		err = sync_or_say(change);
	if (err)
		poke_report(change, TRAPLINE_CODE_STRANDED);
out_priority:
	sys3(SYS_sched_setscheduler, 0, policy, &param);
	return err;
}

static void swap_sides(struct poke_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct poke_entry *entry = &batch->entries[i];

		for (size_t b = 0; b < sizeof(entry->before); b++) {
			uint8_t byte = entry->before[b];
			entry->before[b] = entry->after[b];
			entry->after[b] = byte;
		}
	}
}

/* Nothing is between old and new. A span that fails has not changed, and the others change back. */
static int run_single(struct change *change, uint32_t flags)
{
	poke_report(change, TRAPLINE_CODE_OPEN);
	int err = change_write(change, TEXT_WHOLE);

	if (!err)
		return flags & POKE_UNSYNCED ? 0 : sync_or_say(change);
	swap_sides(change->batch);
	return undo(change, TEXT_WHOLE, err);
}

/* Without a mapping that can be stored to, nothing was written. */
static int run_spin_or_exchange(struct change *change)
{
	int err = run_spin(change);

	if (err != -EOPNOTSUPP || poke_exchange_all(change))
		return err;
	for (size_t i = 0; i < change->text.span_count; i++) {
		change->text.spans[i].is_failed = 0;
		change->text.spans[i].writer = 0;
	}
	return run_single(change, 0);
}

static void count_done(const struct change *change)
{
	uint64_t sites[TRAPLINE_WRITE_EXCHANGE + 1] = { 0 };

	for (size_t i = 0; i < change->text.span_count; i++)
		sites[change->text.spans[i].writer] +=
			change->text.spans[i].end - change->text.spans[i].first;
	counter_add(&poke_stats.batches, 1);
	counter_add(&poke_stats.sites, change->batch->count);
	counter_add(&poke_stats.by_alias, sites[TRAPLINE_WRITE_ALIAS]);
	counter_add(&poke_stats.by_mem, sites[TRAPLINE_WRITE_MEM]);
	counter_add(&poke_stats.by_mprotect, sites[TRAPLINE_WRITE_MPROTECT]);
	counter_add(&poke_stats.by_exchange, sites[TRAPLINE_WRITE_EXCHANGE]);
}

int poke_run(struct change *change, uint32_t flags)
{
	int is_exchange = flags & (TRAPLINE_POKE_SPIN | TRAPLINE_POKE_SINGLE_STORE) &&
			  change->text.writers == TRAPLINE_WRITE_EXCHANGE;
	int err;

	change->form = flags & TRAPLINE_POKE_SPIN ? CODE_FORM_SPIN : TRAP_FORM;
	poke_report(change, TRAPLINE_CODE_BEGIN);
	if (flags & TRAPLINE_POKE_SINGLE_STORE || is_exchange)
		err = run_single(change, flags);
	else if (flags & TRAPLINE_POKE_SPIN)
		err = run_spin_or_exchange(change);
	else
		err = run_trapped(change);
	if (err)
		return err;
	poke_report(change, TRAPLINE_CODE_DONE);
	count_done(change);
	return 0;
}

int poke_commit(const struct trapline_poke_site *sites, size_t n, uint32_t flags, uint32_t writers,
		struct code_problem *problem)
{
	struct restartable *sequences = restartable_look();
	struct change change;

	code_stream_objects();
	int err = poke_lock_take(problem);

	if (err) {
		restartable_drop(sequences);
		return err;
	}
	restartable_take(sequences);
	if (flags & TRAPLINE_POKE_SINGLE_STORE && poke_log_is_on()) {
		problem->why =
			"a code log is on: after single stores, old and new code look the same";
		err = -EOPNOTSUPP;
		goto out_lock;
	}
	err = change_begin(&change, n, writers, problem);
	if (err)
		goto out_lock;
	err = prepare(&change, sites, flags);
	if (!err)
		err = poke_run(&change, flags);
	change_end(&change);
out_lock:
	poke_lock_give();
	return err;
}

/* Member by member: the handlers continue counting. */
void poke_read_stats(struct trapline_code_stats *out)
{
	const uint64_t *from = &poke_stats.batches;
	uint64_t *to = &out->batches;
	size_t n = (sizeof(*out) - offsetof(struct trapline_code_stats, batches)) / sizeof(*to);

	for (size_t i = 0; i < n; i++)
		to[i] = counter_get(&from[i]);
}
