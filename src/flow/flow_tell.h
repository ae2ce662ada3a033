/* SPDX-License-Identifier: MIT */
/* flow_tell.h - what was found becomes records. */
#ifndef FLOW_FLOW_TELL_H
#define FLOW_FLOW_TELL_H

#include "flow/flow.h"

int flow_tell_start(void);
uint64_t flow_place_of(uint64_t address);
void flow_places_of(struct flow_stack *stack);
/* Does a function of libc call the one that the thread is in? */
int flow_is_called_by_libc(const ucontext_t *context);
/* The stack of a signal handler. */
void flow_stack_of(const ucontext_t *context, struct flow_stack *out);
struct flow_wish {
	enum flow_kind kind;
	enum flow_grade grade;
	enum flow_memory memory;
	uint32_t source;
	uint32_t step;
	int fd;
	uint64_t bytes;
	uint64_t offset;
	uint64_t address;
	uint64_t block;
	uint64_t block_size;
	const char *name;
};
void flow_tell_pending(struct flow_thread *t);

/* ---- flow_record.c ---- */

void flow_tell_record(const struct flow_moment *m, const struct flow_wish *wish);
void flow_count(enum flow_counter counter, uint64_t n);
void flow_copy_name(char *to, const char *from, size_t n);

/* ---- flow_residue.c ---- */

void flow_residue(void);

#endif
