/* SPDX-License-Identifier: MIT */
/*
 * agent_trace.c - see agent_trace.h.
 *
 * In a hit the context has the signal mask of the program, by a jump as by a signal
 * (guest/own_stack.c). In the window, the function has the bytes that it had before its probe.
 */
#include "agent/agent_trace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/window/window_trace.h"
#include "event/event.h"

static struct {
	struct probe_region *region;
	struct window_trace *trace;
	uint8_t text[INSN_LENGTH_MAX + 1]; /* of the function, before its probe */
	uint32_t text_bytes;
	uint32_t is_off;
	uint32_t has_begun;
} tracing;

int agent_trace_prepare(struct probe_region *region)
{
	if (!tracing.trace) {
		void *memory = memory_map(sizeof(struct window_trace));

		if (memory_failed(memory))
			return memory_error(memory);
		tracing.trace = memory;
	}
	/* A thread may still be in the window of the run before. */
	if (atomic_get(&tracing.has_begun) && tracing.region &&
	    atomic_get(&tracing.region->trace.state) == TRACE_RUNS)
		return -EBUSY;
	ssize_t got =
		sys_read_memory(sys_getpid(), region->sites[0], tracing.text, sizeof(tracing.text));
	tracing.text_bytes = got > 0 ? (uint32_t)got : 0;
	tracing.region = region;
	atomic_set(&tracing.is_off, 0u);
	atomic_set(&tracing.has_begun, 0u);
	return 0;
}

TRAP_PATH static int begin_window(ucontext_t *context, uint64_t function)
{
	greg_t *gregs = context->uc_mcontext.gregs;
	struct window_request request = { .may_block = 1 };
	struct window_trace *trace = tracing.trace;

	memset(trace, 0, sizeof(*trace) - sizeof(trace->frames));
	trace->head = &tracing.region->trace;
	trace->nodes = tracing.region->nodes;
	trace->most_nodes = TRACE_NODES_MAX;
	trace->depth = tracing.region->trace_depth;
	trace->is_off = &tracing.is_off;
	request.deadline_ns = clock_now_ns() + tracing.region->trace_ns;
	window_trace_begin(trace, function, (uint64_t)gregs[REG_RSP], &request);
	request.text_at = function;
	request.text_bytes = tracing.text_bytes;
	memcpy(request.text, tracing.text, sizeof(request.text));
	return window_enter_context(&request, context);
}

TRAP_PATH void agent_trace_hit(const struct trapline_hit *hit)
{
	uint32_t none = 0;

	if (!atomic_cas(&tracing.has_begun, &none, 1u))
		return;
	const int err = begin_window((ucontext_t *)(uintptr_t)hit->context, hit->ip);
	if (!err)
		return;
	tracing.region->trace.error = err;
	atomic_set(&tracing.region->trace.state, (uint32_t)TRACE_DONE);
}

void agent_trace_end(void)
{
	atomic_set(&tracing.is_off, 1u);
}

int agent_trace_give(void)
{
	int err = window_areas_give();

	if (!err && tracing.trace)
		memory_unmap(tracing.trace, sizeof(*tracing.trace));
	if (err)
		return err;
	tracing.trace = NULL;
	tracing.region = NULL;
	return 0;
}
