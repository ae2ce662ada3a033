/* SPDX-License-Identifier: MIT */
/* race_json.h - what the JSON lines and the SARIF of races share. */
#ifndef RACE_JSON_H
#define RACE_JSON_H

#include "report/race/race_report.h"
#include "report/race/race_totals.h"

#include <jansson.h>

/* {"NAME": "VALUE"} of the run in which it was seen first; null: as all others. */
json_t *race_json_varied(const struct race_view *v);
/* One of the two accesses of the view's record, which a thread was seen to make. */
json_t *race_json_side(struct race_report *r, const struct race_view *v,
		       const struct race_side *side);
/* The races that are counted at this one (race_group.h), in short. */
json_t *race_json_also(struct race_report *r, const struct race_view *head);
/* The last of the JSON lines. */
json_t *race_summary_object(struct race_report *r, const struct race_totals *t,
			    enum race_grade grade_max);

#endif
