/* SPDX-License-Identifier: MIT */
/* flow_locate.c - addresses become locations, which mean something after the process has ended. */
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "flow/flow_locate.h"
#include "flow/flow_record.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "search/search_locate.h"
#include "trap/arch.h"
#include "trap/stack.h"

static void flow_locate_stack(struct flow_stack *stack)
{
	for (uint32_t i = 0; i < stack->count && i < FLOW_FRAMES; i++)
		stack->frames[i] = search_locate(flow_region->files, FLOW_FILES, stack->frames[i]);
}

int flow_is_called_by_libc(const ucontext_t *context)
{
	uint64_t frames[2];

	return stack_unwind(arch_pc(context), frames, 2) == 2 &&
	       frames[1] - flow_libc_start < flow_libc_end - flow_libc_start;
}

void flow_stack_of(const ucontext_t *context, struct flow_stack *out)
{
	uint64_t frames[FLOW_FRAMES];

	out->tid = (int32_t)sys_gettid();
	out->count = stack_unwind(arch_pc(context), frames, FLOW_FRAMES);
	/* The outermost frame has no caller. */
	if (out->count > 1 && !frames[out->count - 1])
		out->count--;
	memcpy(out->frames, frames, out->count * sizeof(frames[0]));
	flow_locate_stack(out);
}

void flow_stack_behind(const struct flow_moment *m, struct flow_stack *out)
{
	out->tid = (int32_t)sys_gettid();
	out->frames[0] = m->pc;
	out->count = 1 + stack_unwind(m->back, out->frames + 1, FLOW_FRAMES - 1);
	if (out->count > 2 && !out->frames[out->count - 1])
		out->count--;
	flow_locate_stack(out);
}

void flow_record_pending(struct flow_thread *t)
{
	for (uint32_t i = 0; i < t->sources_pending; i++) {
		struct flow_source *row = &flow_region->sources[t->pending_sources[i]];

		flow_locate_stack(&row->stack);
		atomic_set(&row->ready, 1u);
	}
	for (uint32_t i = 0; i < t->steps_pending; i++) {
		struct flow_step *step = &flow_region->steps[t->pending_steps[i]];

		flow_locate_stack(&step->stack);
		atomic_set(&step->ready, 1u);
	}
	for (uint32_t i = 0; i < t->records_pending; i++) {
		struct flow_record *r = &flow_region->records[t->pending_records[i]];

		flow_locate_stack(&r->stack);
		atomic_set(&r->ready, 1u);
	}
	t->sources_pending = t->steps_pending = t->records_pending = 0;
}
