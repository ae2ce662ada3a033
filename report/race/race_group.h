/* SPDX-License-Identifier: MIT */
/*
 * race_group.h - one variable, one report: races of one variable between the same two functions,
 * or between threads that began in the same two, are reported once.
 *
 * The race that is reported is the head. The others keep their fingerprints, for baselines and
 * suppressions, and are counted at the head. A name is the same variable, no matter what its part,
 * and so are blocks that the same stack allocated. Without these, it is the same address in the
 * same process. In another process it is the same offset in the page, for the same two functions.
 */
#ifndef RACE_GROUP_H
#define RACE_GROUP_H

#include "report/race/race_report.h"

/*
 * Marks a race as reported. True: under a head that was reported before, of the same grade or a
 * better one.
 */
bool race_group_join(struct race_report *r, struct race_view *v, enum race_grade grade_max);
/* For reports that are written at the end: the heads are the races of the best grades. */
void race_group_all(struct race_report *r, enum race_grade grade_max);
/* After grades have changed: no race is counted at one that is not shown any more. */
void race_group_release(struct race_report *r, enum race_grade grade_max);
/* How many races are counted at a head. *times: how often those and the head were caught. */
size_t race_group_others(struct race_report *r, const struct race_view *head, uint64_t *times);

#endif
