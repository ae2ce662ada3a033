/* SPDX-License-Identifier: MIT */
/*
 * own_stack.c - see own_stack.h. Leaves the vector registers alone: they are the program's.
 *
 * Rules: 1. A row is its thread's from the compare-and-exchange of owner on, and stays in the list
 * for ever. 2. A thread that takes a row from RESTS to IN_USE, by a compare-and-exchange, may use
 * its memory, and puts it back. A thread that takes it from RESTS to GONE unmaps it.
 */
#include "base/general_regs.h"

#include "guest/own_stack.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/shared_signal.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/window/window.h"
#include "trap/probe_entry.h"

#define STACK_BYTES (64u << 10)
#define MAPPED_BYTES (STACK_BYTES + PAGE_BYTES) /* with a page without access below it */
#define ROWS (PAGE_BYTES / sizeof(struct own_stack))

enum {
	GONE,
	RESTS,
	IN_USE
};

struct own_stack {
	struct own_stack *next;
	uint64_t memory;
	uint32_t state;
	uint64_t owner; /* process and thread: a child by vfork() has this memory, too */
};

static struct own_stack *own_stacks;
static __thread struct own_stack *own_row __attribute__((tls_model("initial-exec")));

TRAP_PATH static uint64_t map_stack(void)
{
	uint8_t *at = (void *)sys6(SYS_mmap, 0, MAPPED_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory_failed(at))
		return 0;
	sys3(SYS_mprotect, at, PAGE_BYTES, PROT_NONE);
	return (uint64_t)(uintptr_t)at;
}

TRAP_PATH static uint64_t own_number(void)
{
	return (uint64_t)(uint32_t)sys_getpid() << 32 | (uint32_t)sys_gettid();
}

/* 1: no thread has the row, or one that has ended. */
TRAP_PATH static int is_left(uint64_t owner, uint64_t caller)
{
	return !owner || owner == caller ||
	       sys_tgkill((pid_t)(owner >> 32), (pid_t)(uint32_t)owner, 0) == -ESRCH;
}

TRAP_PATH static struct own_stack *find_row(uint64_t caller)
{
	for (struct own_stack *s = atomic_get(&own_stacks); s; s = s->next) {
		uint64_t owner = atomic_get(&s->owner);

		if (!is_left(owner, caller) || !atomic_cas(&s->owner, &owner, caller))
			continue;
		/* The thread before ended in a callback. */
		if (atomic_get(&s->state) == IN_USE)
			atomic_set(&s->state, (uint32_t)RESTS);
		return s;
	}
	return NULL;
}

/* A page of rows; the first one is the caller's. */
TRAP_PATH static struct own_stack *make_rows(uint64_t caller)
{
	struct own_stack *rows = memory_map(PAGE_BYTES);

	if (memory_failed(rows))
		return NULL;
	rows[0].owner = caller;
	for (uint32_t i = 0; i < ROWS; i++) {
		rows[i].next = atomic_get(&own_stacks);
		while (!atomic_cas(&own_stacks, &rows[i].next, &rows[i]))
			;
	}
	return rows;
}

TRAP_PATH static struct own_stack *row_of_thread(void)
{
	const uint64_t caller = own_number();
	struct own_stack *s = own_row;

	if (s && atomic_get(&s->owner) == caller)
		return s;
	s = find_row(caller);
	own_row = s ? s : make_rows(caller);
	return own_row;
}

/* 1: the thread may use it. */
TRAP_PATH static int take_row(struct own_stack *s)
{
	uint32_t state = RESTS;

	if (atomic_cas(&s->state, &state, (uint32_t)IN_USE))
		return 1;
	if (state != GONE)
		return 0; /* it is there already */
	s->memory = map_stack();
	if (!s->memory)
		return 0;
	atomic_set(&s->state, (uint32_t)IN_USE);
	return 1;
}

TRAP_PATH static struct own_stack **lowest_word(uint64_t top)
{
	return (struct own_stack **)(uintptr_t)(top - STACK_BYTES);
}

TRAP_PATH static uint64_t own_stack_take(ucontext_t *context)
{
	const uint64_t blocked = WINDOW_BLOCKED;
	struct own_stack *s;
	stack_t alternate;

	/*
	 * What the program blocks stays so: a thread may wait for it, and here it has no handler of
	 * Trapline.
	 */
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &context->uc_sigmask, sizeof(blocked));
	/* A fault of Trapline would begin at its top again, over the handler that is there. */
	if (sys2(SYS_sigaltstack, NULL, &alternate) || alternate.ss_flags & SS_ONSTACK)
		return 0;
	s = row_of_thread();
	if (!s || !take_row(s))
		return 0;
	/* Threads that were made without libc may share their thread-local variables. */
	*lowest_word(s->memory + MAPPED_BYTES) = s;
	return s->memory + MAPPED_BYTES;
}

/* The mask is the context's: a window that begins has changed it. */
TRAP_PATH static void own_stack_give(ucontext_t *context, uint64_t top)
{
	uint64_t mask;

	if (top)
		atomic_set(&(*lowest_word(top))->state, (uint32_t)RESTS);
	__builtin_memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	shared_signal_leave(mask);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &context->uc_sigmask, NULL, sizeof(uint64_t));
}

void own_stacks_prepare(void)
{
	atomic_set(&trap_other_stack.give, own_stack_give);
	atomic_set(&trap_other_stack.take, own_stack_take);
}

void own_stacks_end(void)
{
	for (struct own_stack *s = atomic_get(&own_stacks); s; s = s->next) {
		const uint64_t memory = s->memory;
		uint32_t state = RESTS;

		/* From here on the thread maps another one. */
		if (atomic_cas(&s->state, &state, (uint32_t)GONE))
			memory_unmap((void *)(uintptr_t)memory, MAPPED_BYTES);
	}
}
