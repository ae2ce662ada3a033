/* SPDX-License-Identifier: MIT */
/* heap_tell.h - an error becomes a record: addresses, stacks and registers, as they are now. */
#ifndef HEAP_TELL_H
#define HEAP_TELL_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "heap/heap_pool.h"
#include "heap/heap_stacks.h"
#include "record/heap_region.h"

struct heap_error {
	enum heap_kind kind;
	enum heap_grade grade;
	enum heap_access access;
	enum heap_memory memory;
	uintptr_t address;
	size_t bytes;		      /* 0: the instruction has it */
	const struct heap_slot *slot; /* NULL: no sampled block */
	const ucontext_t *context;    /* of the access; NULL: not by a fault */
	const uint64_t *frame; /* the caller of the function with it did it; NULL: not known */
	/* the stack, where neither of both is; the first is behind a call */
	const uint64_t *frames;
	uint32_t frame_count;
	const char *message; /* of the allocator, a line; NULL: none */
	uint64_t ip;	     /* of the access; 0: that of the context */
	bool in_system_call;
	bool is_done; /* the access was made: it cannot be made to fault again */
};

/* 0 or -errno. Not in a handler. */
int heap_tell_start(void);
void heap_tell_forked(void);

/*
 * Records an error, unless one like it was recorded. Then the program continues, or ends if it
 * shall.
 */
void heap_tell(const struct heap_error *error);

/* The moment that it is, for a slot. */
/* For a record: the moment of an event. */
struct heap_moment;
void heap_tell_moment(struct heap_moment *m, const struct heap_slot_event *event);
void heap_tell_event(struct heap_slot_event *event, const uint64_t *frame);

#endif
