/* SPDX-License-Identifier: MIT */
/* heap_growth_priv.h - what the formats of growth share. */
#ifndef REPORT_HEAP_GROWTH_PRIV_H
#define REPORT_HEAP_GROWTH_PRIV_H

#include "report/heap/heap_growth.h"

struct heap_growth {
	struct heap_growth_row *rows;
	size_t count;
	struct heap_growth_row all; /* without a stack */
};

/* 19 of 20 runs are within this distance of the estimate. */
double heap_growth_error(double variance);

void heap_growth_text(struct heap_report *r, const struct heap_growth *g, FILE *f);
void heap_growth_json(struct heap_report *r, const struct heap_growth *g, FILE *f);
void heap_growth_folded(struct heap_report *r, const struct heap_growth *g, FILE *f);
/* profile.proto of pprof, not compressed. 0 or -ENOMEM. */
int heap_growth_pprof(struct heap_report *r, const struct heap_growth *g, FILE *f);

#endif
