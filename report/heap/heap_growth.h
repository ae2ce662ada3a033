/* SPDX-License-Identifier: MIT */
/* heap_growth.h - which stacks allocated what is in use at the end of a run, and what grows. */
#ifndef REPORT_HEAP_GROWTH_H
#define REPORT_HEAP_GROWTH_H

#include "report/heap/heap_report.h"

enum heap_growth_format {
	HEAP_GROWTH_TEXT,
	HEAP_GROWTH_FOLDED,
	HEAP_GROWTH_PPROF,
	HEAP_GROWTH_JSON,
};

/* 0 or -EINVAL: there is no such format. */
int heap_growth_format(const char *name, enum heap_growth_format *out);

/* All rows of the region, those of equal stacks as one, the largest first. 0 or -ENOMEM. */
int heap_growth_print(struct heap_report *r, const struct heap_region *region,
		      enum heap_growth_format format, FILE *f);

#endif
