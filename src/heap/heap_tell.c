/* SPDX-License-Identifier: MIT */
/*
 * heap_tell.c - see heap_tell.h.
 *
 * One location of the program may make an error in millions of blocks: what was recorded once is
 * counted from then on.
 */
#include "heap/heap_tell.h"

#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sys.h"
#include "heap/heap.h"
#include "heap/heap_fault.h"
#include "search/search_locate.h"
#include "trap/arch.h"
#include "trap/stack.h"

#define KNOWN 1024u /* a power of two */
#define PROBES 16u

static struct heap_stacks *stacks;
static uint64_t known[KNOWN];
static uint32_t has_known;

int heap_tell_start(void)
{
	stacks = heap_stacks_new(false);
	search_locate_start();
	return stacks ? 0 : -ENOMEM;
}

AT_FORK void heap_tell_forked(void)
{
	if (!has_known)
		return;
	memset(known, 0, sizeof(known));
	has_known = 0;
}

static int32_t own_tid(void)
{
	if (!heap_self.tid)
		heap_self.tid = (int32_t)sys_gettid();
	return heap_self.tid;
}

void heap_tell_event(struct heap_slot_event *event, const uint64_t *frame)
{
	event->time_ns = clock_now_ns();
	event->tid = own_tid();
	event->stack = frame ? heap_stacks_here(stacks, frame) : 0;
	if (frame && !event->stack)
		counter_add(&heap_region->counters[HEAP_LOST_STACKS], 1u);
}

/* ---- what was reported before ---- */

static bool is_known(uint64_t hash)
{
	hash |= 1;
	atomic_set_if_other(&has_known, 1u);
	for (uint32_t n = 0; n < PROBES; n++) {
		uint64_t *row = &known[((hash >> 8) + n) & (KNOWN - 1)];
		uint64_t held = 0;

		if (atomic_cas(row, &held, hash))
			return false;
		if (held == hash)
			return true;
	}
	return false;
}

static uint64_t pc_of(const struct heap_error *e)
{
	return e->ip ? e->ip : arch_pc(e->context);
}

static bool was_told(const struct heap_error *e)
{
	uint64_t hash = hash_step(1 + (uint64_t)e->kind, (uint64_t)e->grade);

	if (e->context)
		hash = hash_step(hash, pc_of(e));
	if (e->frame)
		hash = hash_step(hash, e->frame[1]);
	for (uint32_t i = 0; i < e->frame_count; i++)
		hash = hash_step(hash, e->frames[i]);
	if (e->slot)
		hash = hash_step(hash, e->slot->allocated.stack);
	return is_known(hash);
}

/* ---- locations ---- */

/* A return address is behind its call, which may be the last instruction of its object. */
static void set_frames(struct heap_moment *m, const uint64_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count && frames[i]; i++) {
		m->frames[i] = search_locate(heap_region->files, HEAP_FILES, frames[i]);
		m->frame_count = i + 1;
	}
}

void heap_tell_moment(struct heap_moment *m, const struct heap_slot_event *event)
{
	const struct heap_stack *stack = heap_stacks_get(stacks, event->stack);

	m->time_ns = event->time_ns;
	m->tid = event->tid;
	if (stack)
		set_frames(m, stack->frames, stack->count);
}

static void set_now(struct heap_moment *m, const struct heap_error *e)
{
	uint64_t frames[HEAP_FRAMES];
	struct heap_slot_event now;

	if (e->context) {
		m->time_ns = clock_now_ns();
		m->tid = own_tid();
		uint32_t n = stack_unwind(arch_pc(e->context), frames, HEAP_FRAMES);
		frames[0] = pc_of(e);
		set_frames(m, frames, n);
	} else if (e->frames) {
		m->time_ns = clock_now_ns();
		m->tid = own_tid();
		set_frames(m, e->frames,
			   e->frame_count < HEAP_FRAMES ? e->frame_count : HEAP_FRAMES);
	} else {
		heap_tell_event(&now, e->frame);
		heap_tell_moment(m, &now);
	}
	sys2(SYS_prctl, PR_GET_NAME, m->thread);
}

/* What the command decodes. Copied by the kernel, so that it cannot fault. */
static void set_code(struct heap_record *r, uint64_t ip, const ucontext_t *context)
{
	r->ip = ip;
	for (uint32_t i = 0; i < HEAP_REGS; i++)
		arch_register(context, i, &r->regs[i]);
	for (uint32_t n = HEAP_CODE; n && !r->code_bytes; n--)
		if (sys_read_memory(sys_getpid(), r->ip, r->code, n) == (ssize_t)n)
			r->code_bytes = (uint8_t)n;
}

/* A freed block cannot be read, and neither can the page behind a block. */
static void set_near(struct heap_record *r)
{
	uint64_t from = r->address - HEAP_NEAR / 2;

	if (from < r->block && r->address >= r->block)
		from = r->block;
	uint64_t to_page = PAGE_BYTES - (from & (PAGE_BYTES - 1));
	if (sys_read_memory(sys_getpid(), from, r->near, HEAP_NEAR) == HEAP_NEAR)
		r->near_bytes = HEAP_NEAR;
	else if (to_page < HEAP_NEAR &&
		 sys_read_memory(sys_getpid(), from, r->near, to_page) == (ssize_t)to_page)
		r->near_bytes = (uint8_t)to_page;
	r->near_at = from;
}

static void set_message(struct heap_record *r, const char *text)
{
	size_t n = strcspn(text, "\n");

	if (n > sizeof(r->message) - 1)
		n = sizeof(r->message) - 1;
	memcpy(r->message, text, n);
}

struct in_use {
	uint32_t stack;
	uint32_t count;
};

static void count_if_in_use(struct heap_slot *slot, void *arg)
{
	struct in_use *in_use = arg;

	in_use->count += atomic_get(&slot->state) == HEAP_SLOT_LIVE &&
			 slot->allocated.stack == in_use->stack;
}

static uint32_t count_in_use(uint32_t stack)
{
	struct in_use in_use = { .stack = stack };

	if (stack)
		heap_pool_each(count_if_in_use, &in_use);
	return in_use.count;
}

static void fill(struct heap_record *r, const struct heap_error *e)
{
	const size_t after_ready = offsetof(struct heap_record, pid);

	memset((char *)r + after_ready, 0, sizeof(*r) - after_ready);
	r->pid = sys_getpid();
	r->kind = (uint8_t)e->kind;
	r->grade = (uint8_t)e->grade;
	r->access = (uint8_t)e->access;
	r->memory = (uint8_t)e->memory;
	r->in_system_call = e->in_system_call;
	r->address = e->address;
	r->size = e->bytes;
	if (e->slot) {
		r->block = e->slot->start;
		r->block_size = e->slot->bytes;
		r->in_use = count_in_use(e->slot->allocated.stack);
		heap_tell_moment(&r->alloc, &e->slot->allocated);
		heap_tell_moment(&r->freed, &e->slot->freed);
		if (atomic_get(&e->slot->state) != HEAP_SLOT_FREED)
			set_near(r);
	}
	if (e->context)
		set_code(r, pc_of(e), e->context);
	if (e->message)
		set_message(r, e->message);
	if (e->context || e->frame || e->frames)
		set_now(&r->first, e);
}

static void wake_reader(void)
{
	if (!heap_region->settings.has_reader)
		return;
	atomic_add(&heap_region->told, 1u);
	sys6(SYS_futex, &heap_region->told, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void heap_tell(const struct heap_error *error)
{
	uint64_t sequence;

	counter_add(&heap_region->counters[HEAP_FOUND], 1u);
	if (was_told(error)) {
		counter_add(&heap_region->counters[HEAP_FOUND_AGAIN], 1u);
		return;
	}
	struct heap_record *record = heap_write_begin(heap_region, &sequence);
	if (!record) {
		counter_add(&heap_region->counters[HEAP_LOST_RECORDS], 1u);
		return;
	}
	heap_self.busy++;
	fill(record, error);
	heap_write_end(record, sequence);
	wake_reader();
	heap_self.busy--;
	if (heap_region->settings.does_stop)
		heap_fault_end(error->context && !error->is_done ? SIGSEGV : SIGABRT);
}
