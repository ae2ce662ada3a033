/* SPDX-License-Identifier: MIT */
/*
 * race_judge.h - the grade of a race: how certain is it that the race was not intended?
 *
 * The two accesses were certainly concurrent: one thread was stalled before its access
 * when the other made its own. But on x86-64 an atomic load or store of a word is a plain
 * mov. So grade A is for what an atomic mov cannot be (unaligned, several words, a
 * read-modify-write without LOCK). Grade C is for signs of intent. The rest is grade B.
 *
 * The record alone gives a grade. A reader that has symbols and sources adds evidence.
 */
#ifndef RECORD_RACE_JUDGE_H
#define RECORD_RACE_JUDGE_H

#include "record/race_region.h"

/* A: certainly a race. B: a race, unless both sides are meant to be atomic. C: likely meant. */
enum race_grade {
	RACE_GRADE_A,
	RACE_GRADE_B,
	RACE_GRADE_C
};

struct race_judgement {
	enum race_grade grade;
	const char *why; /* in a few words */
};

/* What the record does not state. The functions give a reason, or NULL: nothing speaks for it. */
struct race_evidence {
	/* Both sides are meant to be atomic. */
	const char *(*intent)(void *arg);
	/* ... although one of them is an update without LOCK. */
	const char *(*update_intent)(void *arg);
	/* The code belongs to a lock, a queue or a guard. */
	const char *(*library)(void *arg);
	/* A plain store may be right beside a locked instruction. */
	const char *(*store_excuse)(void *arg);
	/* 1: stores of the value that is there already are not a mistake here. */
	int (*is_habit)(void *arg, const struct race_side *stores);
	/* 1: both sides update it in several instructions. */
	int (*loses_update)(void *arg);
};

/* evidence: NULL, there is none. */
struct race_judgement race_judge(const struct race_record *record,
				 const struct race_evidence *evidence, void *arg);
/*
 * A race of grade B becomes C if a locked instruction was seen on the same memory, by the table of
 * sites. That may happen after the record was made.
 */
struct race_judgement race_judge_again(struct race_judgement before,
				       const struct race_region *region,
				       const struct race_record *record);

/* A read-modify-write without LOCK. Only the second side of a race can be a locked instruction. */
int race_is_plain_rmw(const struct race_side *side);

#endif
