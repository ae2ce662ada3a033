/* SPDX-License-Identifier: MIT */
/*
 * race_judge.c - see race_judge.h.
 *
 * Beside a locked instruction: an update without LOCK has read the value before the locked
 * one changed it, or overwrites that change. One of the two updates is lost, no matter what was
 * intended. A plain store is usually correct, because a lock is released that way. It is a
 * mistake only if its source is a plain assignment and nothing there refers to locks. A
 * plain load is also how an atomic load is compiled.
 */
#include "record/race_judge.h"

#include "base/atomic.h"

#define NO_SYMBOLS "a plain store, which may be atomic, beside a locked instruction"

static struct race_judgement judge_as(enum race_grade grade, const char *why)
{
	return (struct race_judgement){ grade, why };
}

static const char *ask(const char *(*reason)(void *arg), void *arg)
{
	return reason ? reason(arg) : NULL;
}

int race_is_plain_rmw(const struct race_side *side)
{
	return side->access == RACE_READ_WRITE && side->flags & RACE_DECODED &&
	       !(side->flags & (RACE_BLOCK | RACE_LOCKED));
}

/* One atomic mov touches 1, 2, 4 or 8 bytes, aligned. */
static int is_no_word(const struct race_side *side)
{
	if (!(side->flags & RACE_DECODED))
		return 0;
	if (side->flags & (RACE_BLOCK | RACE_VECTOR) || side->size > 8)
		return 1;
	return side->size && (side->size & (side->size - 1) || side->address % side->size);
}

/* Different bytes on each side. */
static int is_mixed(const struct race_record *record)
{
	const struct race_side *a = &record->first;
	const struct race_side *b = &record->second;

	if (!(a->flags & RACE_DECODED) || !(b->flags & RACE_DECODED))
		return 0;
	return a->address != b->address || a->size != b->size;
}

/*
 * The side that stored the value that was there already, or was about to; NULL: neither.
 * If the other side stores another value, the order decides which one stays.
 */
static const struct race_side *who_stores_same(const struct race_record *record)
{
	const struct race_side *first = &record->first;

	if (record->flags & RACE_CHANGED)
		return NULL;
	if (record->second.access & RACE_WRITE)
		return first->flags & RACE_STORES_OTHER ? NULL : &record->second;
	return first->flags & RACE_STORES_SAME ? first : NULL;
}

static struct race_judgement judge_locked(const struct race_record *record,
					  const struct race_evidence *e, void *arg)
{
	const struct race_side *first = &record->first;
	const char *why;

	if (!(first->access & RACE_WRITE))
		return judge_as(RACE_GRADE_C, "a plain load beside a locked instruction");
	if (!(record->flags & RACE_CHANGED) || is_mixed(record))
		return judge_as(RACE_GRADE_C,
				"the locked instruction changed other bytes or nothing");
	why = ask(e->library, arg);
	if (why)
		return judge_as(RACE_GRADE_C, why);
	if (race_is_plain_rmw(first))
		return judge_as(RACE_GRADE_A,
				"read-modify-write without LOCK beside one with LOCK");
	why = e->store_excuse ? e->store_excuse(arg) : NO_SYMBOLS;
	if (why)
		return judge_as(RACE_GRADE_C, why);
	return judge_as(RACE_GRADE_B, "a plain assignment beside a locked instruction");
}

/* Plain accesses of one and the same word. */
static struct race_judgement judge_words(const struct race_record *record,
					 const struct race_evidence *e, void *arg)
{
	const struct race_side *stores = who_stores_same(record);

	if (stores && (!e->is_habit || e->is_habit(arg, stores)))
		return judge_as(RACE_GRADE_C, "the value stayed the same");
	if (stores)
		return judge_as(RACE_GRADE_B, "plain accesses; the value was the same this time");
	if (record->flags & RACE_UNKNOWN_ORIGIN)
		return judge_as(RACE_GRADE_B, "the value changed during the stall");
	if (e->loses_update && e->loses_update(arg))
		return judge_as(RACE_GRADE_B, "plain aligned accesses; an update can be lost");
	return judge_as(RACE_GRADE_B, "plain aligned accesses");
}

struct race_judgement race_judge(const struct race_record *record,
				 const struct race_evidence *evidence, void *arg)
{
	static const struct race_evidence none;
	const struct race_evidence *e = evidence ? evidence : &none;
	const struct race_side *first = &record->first;
	const struct race_side *second = &record->second;
	int no_words = is_no_word(first) + is_no_word(second);
	int is_unknown = (record->flags & RACE_UNKNOWN_ORIGIN) != 0;
	const char *why;

	if (second->flags & RACE_LOCKED)
		return judge_locked(record, e, arg);
	if (race_is_plain_rmw(first) || race_is_plain_rmw(second)) {
		why = ask(e->update_intent, arg);
		return why ? judge_as(RACE_GRADE_C, why) :
			     judge_as(RACE_GRADE_A, "read-modify-write without LOCK");
	}
	if (is_unknown && record->flags & RACE_SHARED_MAPPING)
		return judge_as(RACE_GRADE_C, "memory shared with other processes");
	why = record->flags & RACE_ATOMIC_SEEN ? "a locked instruction accesses it too" :
						 ask(e->intent, arg);
	if (why && no_words < 2)
		return judge_as(RACE_GRADE_C, why);
	if (no_words)
		return judge_as(is_unknown ? RACE_GRADE_B : RACE_GRADE_A,
				"an unaligned or multi-word access");
	if (is_mixed(record))
		return judge_as(is_unknown ? RACE_GRADE_B : RACE_GRADE_A,
				"the accesses overlap only in part");
	return judge_words(record, e, arg);
}

static int met_atomics(const struct race_region *region, uint64_t place)
{
	/* The table is only read; the function that looks up writes nothing either. */
	const struct race_site *site =
		race_find_site((struct race_region *)(uintptr_t)region, place);

	return site && atomic_get(&site->is_atomic);
}

static uint64_t place_of(const struct race_side *side)
{
	uint32_t at = race_first_frame(side);

	return at < side->frame_count && at < RACE_FRAMES ? side->frames[at] : 0;
}

struct race_judgement race_judge_again(struct race_judgement before,
				       const struct race_region *region,
				       const struct race_record *record)
{
	/* Beside a locked instruction that was known before, another states no more. */
	if (before.grade != RACE_GRADE_B || record->second.flags & RACE_LOCKED ||
	    !(met_atomics(region, place_of(&record->first)) ||
	      met_atomics(region, place_of(&record->second)) || met_atomics(region, record->place)))
		return before;
	return judge_as(RACE_GRADE_C, "a locked instruction accesses it too");
}
