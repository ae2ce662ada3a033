/* SPDX-License-Identifier: MIT */
/* race_grade.h - what the files that grade a race share. */
#ifndef RACE_GRADE_H
#define RACE_GRADE_H

#include "code/insn/insn.h"
#include "report/code/source.h"
#include "report/files/files.h"
#include "report/race/race_report.h"

/* Decodes the instruction at an offset in code[]; 0: done. */
int race_decode_at(const struct race_side *side, size_t at, struct insn *out);
/* How the variable is declared that both touched. */
enum files_meant race_meant_by_place(struct race_report *r, const struct race_record *record);
/* race_update.c: two updates in several instructions, or one and a store: one of both is lost. */
bool race_loses_update(const struct race_record *record);
/* The instruction contains the value; also true if that is unknown. */
bool race_stores_constant(const struct race_side *side);
enum source_says race_source_says(struct race_report *r, const struct race_access_place *a);

/*
 * race_grade_locked.c: why a plain store beside a locked instruction may be right. NULL: by all
 * that can be read it is a plain assignment of a program that counts on no lock.
 */
const char *race_store_excuse(struct race_report *r, const struct race_view *v);

#endif
