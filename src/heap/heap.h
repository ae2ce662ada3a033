/* SPDX-License-Identifier: MIT */
/*
 * heap.h - the heap error detector in the target: what is before an allocator asks it.
 *
 * Some blocks are sampled, within a budget of time. They are the first one of each calling context,
 * fewer and fewer of its later ones, and of all blocks alike as many as can be. Which ones, is
 * drawn. A sampled block lies in a slot of its own, and ends at a page without access. When it is
 * freed, its pages lose access too, and its slot is used again last. An access that is an error
 * faults in the thread that makes it; SIGSEGV records it with the stacks of access, allocation and
 * free, gives access, and the program continues.
 *
 *	heap_context.c	which blocks	   heap_pool.c	 where they lie
 *	heap_draw.c	the same, by chance  heap_line.c	 one error as JSON
 *	heap_budget.c	how many	   heap_fault.c	 SIGSEGV
 *	heap_block.c	take, give, look   heap_tell.c	 what is recorded of an error
 *	heap_call.c	system calls	   heap_wrong.c	 free() of what is no block
 *	heap_watch.c	what lies beside   heap_copy.c	 copies that leave a block
 *	heap_old.c	blocks that stay   heap_growth.c what stays in use
 *	heap_innocent.c	reads beside that are no error
 *
 * All functions may be called in handlers and by threads at once: no lock is held anywhere, and a
 * thread that dies in the middle costs others one slot.
 */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/heap_region.h"

/* By which function a block is allocated or freed. */
enum heap_family {
	HEAP_OF_MALLOC,
	HEAP_OF_NEW,
	HEAP_OF_NEW_ARRAY,
};

struct heap_request {
	size_t bytes;
	size_t alignment; /* 0: that of malloc() */
	enum heap_family family;
	bool is_zeroed;
	const uint64_t *frame; /* of a function that has a frame pointer: its caller allocates */
};

struct heap_thread {
	uint32_t until;	   /* allocations before the next look */
	uint32_t steps;	   /* between the looks before and after */
	uint32_t most;	   /* steps: few at first, since a thread may live for few */
	uint32_t unpaid;   /* allocations that were not counted yet */
	uint32_t asked;	   /* ... whose context was looked up */
	uint32_t to_drawn; /* allocations until one that is drawn of all; 0: none is yet */
	uint32_t awake;	   /* ... whose context is still looked up in this row */
	uint32_t nap;	   /* ... until the next row */
	uint32_t run;	   /* heap_run, which the numbers above are of */
	uint32_t busy;	   /* in one of Trapline: what is allocated from there is not sampled */
	int32_t tid;	   /* 0: not known yet */
	uint64_t random;   /* heap_draw.c; 0: not begun */
	uint64_t aside_ns; /* of the present sample, and counted elsewhere */
	uint64_t cpu_ns;   /* of the thread, when the present sample began */
};
extern __thread struct heap_thread heap_self __attribute__((tls_model("initial-exec")));

/* The pool: what lies in it is Trapline's. bytes 0: it is not made, and nothing is sampled. */
struct heap_range {
	uintptr_t start;
	size_t bytes;
};
extern struct heap_range heap_range;
/* The program's own code and data, where no block is. */
extern struct heap_range heap_data;
/*
 * Behind it, where the kernel puts what brk(2) asks for: no stack, no data, nothing of Trapline.
 * Most blocks of most programs are there. bytes 0: it is not known.
 */
extern struct heap_range heap_plain;
extern struct heap_region *heap_region;
extern int32_t heap_pid;	/* of the process that samples */
extern uint32_t heap_is_growth; /* blocks have no guards: heap_growth.h */
extern uint32_t heap_is_over;	/* heap_stop() was called */
extern uint32_t heap_run;	/* how often heap_start_again() was */

static inline bool heap_has(const void *p)
{
	return (uintptr_t)p - heap_range.start < heap_range.bytes;
}

/* Maps the pool, takes SIGSEGV. 0, or -errno and nothing has changed. Not in a handler. */
int heap_start(struct heap_region *region);
/* heap_block.c: before the first block. */
void heap_block_start(void);
/* In a child: its blocks are copies, until it has its own. */
void heap_block_forked(void);
/* In a child, by fork(2): it has a copy of the blocks, and a budget of its own. */
void heap_forked(void);
/* After heap_stop(): once more, for another command. The region before may still be counted in. */
int heap_start_again(struct heap_region *region);
/* In a child of a process that ran before: nothing is sampled, and what was is known by free(). */
void heap_forked_alone(void);
/* NULL: nothing. In a child of a process that ran before it looks whether the search has ended. */
extern void (*heap_before_sample)(void);
extern uint64_t heap_live; /* sampled blocks of this process that are in use */

/*
 * No block is sampled from now on, none has guards, and no system call is made for them. AS-Safe.
 */
void heap_stop(void);
/*
 * The process ends: damages of blocks that are still in use are reported. AS-Safe. Not of a vfork
 * child.
 */
void heap_end(void);

/* Bytes that had the pattern around a block. */
bool heap_is_damaged(const void *p, size_t bytes);

/* The fewest bytes of a block that is sampled in any case, where growth is searched. */
#define HEAP_LARGE_BYTES ((size_t)256 << 10)

/* It is one of all blocks alike, no matter what its context. */
#define HEAP_DRAWN (1u << 31)

/*
 * Is a block sampled that is allocated here? 0: the allocator shall give it; else how many of its
 * context have been, or HEAP_DRAWN. It is what each allocation pays: most pass without a look.
 */
uint32_t heap_look(const uint64_t *frame);
/* true: this one passes without a look. */
static inline bool heap_passes(void)
{
	if (__builtin_expect(!heap_self.until, 0))
		return false;
	heap_self.until--;
	return true;
}
static inline uint32_t heap_wants(const uint64_t *frame)
{
	return heap_passes() ? 0 : heap_look(frame);
}
/* A block with guards, the nth sample of its context; NULL: the allocator shall give it. */
void *heap_take_nth(const struct heap_request *request, uint32_t nth);
/* Both. */
void *heap_take(const struct heap_request *request);
/* heap_has(p): it is freed, or a wrong free is reported. */
void heap_give(void *p, enum heap_family family, const uint64_t *frame);
/* The size that was asked for; 0: it is not the start of a block that is in use. */
size_t heap_size(const void *p);

/*
 * Not heap_has(p), and free(p) is certain to be an error: reports it. false: it may be a block of
 * the allocator. heap_may_be_wrong() asks first, and costs next to nothing.
 */
bool heap_is_wrong(void *p, const uint64_t *frame);

#define HEAP_STACK_BYTES ((uintptr_t)64 << 20) /* no stack is larger, for these two */
#define HEAP_LEAST_ALIGNMENT 8u		       /* of what any allocator gives */

/* free(p) is for the allocator for certain. */
static inline bool heap_is_plain(const void *p)
{
	return (uintptr_t)p - heap_plain.start < heap_plain.bytes &&
	       ((uintptr_t)p & (HEAP_LEAST_ALIGNMENT - 1)) == 0;
}

static inline bool heap_may_be_wrong(const void *p, const uint64_t *frame)
{
	return (uintptr_t)p - (uintptr_t)frame < HEAP_STACK_BYTES ||
	       (uintptr_t)p - heap_data.start < heap_data.bytes ||
	       ((uintptr_t)p & (HEAP_LEAST_ALIGNMENT - 1)) != 0;
}

/*
 * Memory that a system call reads or writes. The part of [p, p + bytes) that is an error is given
 * access, so that the call does as it would without us. Returns how many bytes at p were not an
 * error; `bytes`: all.
 */
size_t heap_open_for_call(const void *p, size_t bytes);
/*
 * The program changed the access of these pages itself: what faults in blocks there is for its
 * handler.
 */
void heap_protected(const void *p, size_t bytes);
/* The call accessed that many bytes: reports what of them was an error. */
void heap_report_call(const void *p, size_t fine, size_t bytes, bool is_write,
		      const uint64_t *frame);

#endif
