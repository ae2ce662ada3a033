/* SPDX-License-Identifier: MIT */
/* flow_record.c - what was found becomes a record. One like it that is there is counted. */
#include "base/general_regs.h"

#include "flow/flow_record.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/sys.h"
#include "flow/flow_calls.h"
#include "flow/flow_locate.h"
#include "flow/flow_open.h"
#include "flow/flow_peek.h"
#include "flow/flow_state.h"

#include <time.h>

#define HASH (2 * FLOW_RECORDS)

static uint32_t hash[HASH]; /* number of a record + 1 */
static uint64_t hashes[FLOW_RECORDS];

static uint64_t identity(const struct flow_moment *m, const struct flow_wish *w)
{
	const char *path = w->open && w->open->path[0] == '/' ? w->open->path : "";
	uint64_t back = m->back;
	uint64_t h = hash_step(1 + (uint64_t)w->kind, (uint64_t)w->grade);

	if (w->kind == FLOW_RESIDUE)
		h = hash_step(h, w->address);
	else if (!back)
		flow_peek(m, &back, m->regs[INSN_RSP], sizeof(back));
	h = hash_step(hash_step(h, back), w->source);
	/* Each file is a flow of its own. Sockets and pipes are as many as a server has clients. */
	for (; *path; path++)
		h = hash_step(h, (uint64_t)(uint8_t)*path);
	return hash_step(hash_step(h, w->step), (uint64_t)(uintptr_t)w->name) | 1;
}

/* 1: there is one like it. */
static int is_known(uint64_t h, uint64_t bytes)
{
	for (uint32_t i = (uint32_t)(h >> 32) % HASH, n = 0; n < HASH; n++, i = (i + 1) % HASH) {
		const uint32_t number = atomic_get(&hash[i]);

		if (!number)
			return 0;
		if (hashes[number - 1] != h)
			continue;
		counter_add(&flow_region->records[number - 1].count, 1u);
		return 1;
	}
	return 0;
}

static void remember(uint64_t h, uint32_t number)
{
	hashes[number] = h;
	for (uint32_t i = (uint32_t)(h >> 32) % HASH, n = 0; n < HASH; n++, i = (i + 1) % HASH) {
		uint32_t none = 0;

		if (atomic_cas(&hash[i], &none, number + 1))
			return;
	}
}

static int is_native(const struct flow_moment *m)
{
	return m->context || m->back || m->has_ended;
}

static void fill(struct flow_record *r, const struct flow_moment *m, const struct flow_wish *w)
{
	r->kind = (uint8_t)w->kind;
	r->grade = (uint8_t)w->grade;
	r->memory = (uint8_t)w->memory;
	r->was_native = (uint8_t)is_native(m);
	r->pid = sys_getpid();
	r->fd = w->fd;
	r->source = w->source;
	r->step = w->step;
	r->count = 1;
	r->time_ns = clock_ns(CLOCK_MONOTONIC);
	r->bytes = w->bytes;
	r->offset = w->offset;
	r->address = w->address;
	r->block = w->block;
	r->block_size = w->block_size;
	flow_copy_name(r->name, w->name, sizeof(r->name));
	if (w->open) {
		r->open = *w->open;
		flow_open_hide(w->source, &r->open);
	}
}

static uint32_t take_number(void)
{
	uint32_t used = atomic_get(&flow_region->records_used);

	do {
		if (used >= FLOW_RECORDS)
			return FLOW_RECORDS;
	} while (!atomic_cas(&flow_region->records_used, &used, used + 1));
	return used;
}

/* No thread is at a sink: the function that stored the bytes there is the one. */
static void set_last_stack(struct flow_record *r)
{
	const struct flow_step *step = &flow_region->steps[r->step % FLOW_STEPS];

	r->stack = r->step && atomic_get(&step->ready) ? step->stack :
							 flow_region->sources[r->source].stack;
}

void flow_record_flow(const struct flow_moment *m, const struct flow_wish *wish)
{
	const uint64_t h = identity(m, wish);
	const uint64_t limit = flow_region->settings.limit;

	if (is_known(h, wish->bytes))
		return;
	if (limit && wish->kind != FLOW_RESIDUE &&
	    atomic_get(&flow_region->records_used) >= limit) {
		atomic_set(&flow_region->run.stop, 1u);
		return;
	}
	const int has_room = is_native(m) || wish->kind == FLOW_RESIDUE ||
			     m->thread->records_pending < FLOW_PENDING;
	const uint32_t number = has_room ? take_number() : FLOW_RECORDS;
	if (number >= FLOW_RECORDS) {
		flow_count(FLOW_LOST_RECORDS, 1);
		return;
	}
	struct flow_record *r = &flow_region->records[number];
	fill(r, m, wish);
	remember(h, number);
	if (is_native(m)) {
		if (m->has_ended)
			set_last_stack(r);
		else if (m->back)
			flow_stack_behind(m, &r->stack);
		else
			flow_stack_of(m->context, &r->stack);
		atomic_set(&r->ready, 1u);
	} else if (wish->kind == FLOW_RESIDUE) {
		atomic_set(&r->ready, 1u);
	} else {
		flow_calls_stack(m->thread, m->pc, m->regs[INSN_RSP], &r->stack);
		m->thread->pending_records[m->thread->records_pending++] = number;
	}
}
