/* SPDX-License-Identifier: MIT */
/* flow_marks.h - the marks of memory. */
#ifndef FLOW_FLOW_MARKS_H
#define FLOW_FLOW_MARKS_H

#include "flow/flow_state.h"

int flow_marks_start(void);
/* Unmaps them: no thread follows any more. */
void flow_marks_give(void);
/* 1: bytes there may have marks. */
int flow_marks_may(uint64_t address, uint64_t bytes);
/* Marks that count, for bytes that can be read now; at most 64. 1: some are set. */
int flow_marks_load(struct flow_thread *t, uint64_t address, uint32_t bytes, flow_mark *out);
void flow_marks_store(struct flow_thread *t, uint64_t address, uint32_t bytes, const flow_mark *in);
void flow_marks_clear(uint64_t address, uint64_t bytes);
/* The memory of whole pages has moved, and its marks do. How many pages have some. */
uint32_t flow_marks_move(struct flow_thread *t, uint64_t from, uint64_t to, uint64_t bytes);
/* The marks of a page; NULL: none. */
flow_mark *flow_marks_page(uint64_t page);
/* Page numbers one after the other, from *at = 0 on; 0: no more. */
uint64_t flow_marks_next(uint32_t *at);
/* The end of a window: computed bytes are kept as they are. */
void flow_marks_settle(struct flow_thread *t);
/*
 * The window continues behind a system call: what it marked counts as before, where it is what it
 * was.
 */
void flow_marks_resume(struct flow_thread *t);
/* What lies there now, for threads that may touch it during the window. */
void flow_marks_report(const struct flow_thread *t);
/*
 * A row that is long enough continues in both directions as far as the bytes of the page (now) are
 * those of the source. They were moved with it, by an instruction just before the window or by one
 * that keeps no marks.
 */
void flow_marks_extend(uint64_t page, const uint8_t *now);
/* Is a byte what it was when it was marked? index: of the byte in its page. */
int flow_marks_equals(uint64_t page, uint32_t index, flow_mark mark, uint8_t byte);
/*
 * Does a mark count? now is the whole page. A mark of an earlier window counts in a row of at least
 * 8 that are what they were, or if it has all of the source. A few bytes can be the same by chance.
 */
int flow_marks_holds(uint64_t page, uint32_t index, const uint8_t *now);

#endif
