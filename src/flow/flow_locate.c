/* SPDX-License-Identifier: MIT */
/* flow_locate.c - addresses become locations, which mean something after the process has ended. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "flow/flow_locate.h"
#include "flow/flow_record.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "trap/arch.h"
#include "trap/stack.h"

static char program_path[496];

int flow_locate_start(void)
{
	long n = sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program_path,
		      sizeof(program_path) - 1);

	program_path[n > 0 ? n : 0] = '\0';
	stack_warm_up();
	return 0;
}

uint64_t flow_locate(uint64_t address)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)address, &object))
		return address & FILE_PLACE_MASK;
	const struct link_map *map = object.dlfo_link_map;
	const char *path = map->l_name && *map->l_name ? map->l_name : program_path;
	int file = file_table_add(flow_region->files, FLOW_FILES, path);

	if (file <= 0)
		return address & FILE_PLACE_MASK;
	return (uint64_t)file << FILE_PLACE_BITS | ((address - map->l_addr) & FILE_PLACE_MASK);
}

void flow_locate_stack(struct flow_stack *stack)
{
	for (uint32_t i = 0; i < stack->count && i < FLOW_FRAMES; i++)
		stack->frames[i] = flow_locate(stack->frames[i]);
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
