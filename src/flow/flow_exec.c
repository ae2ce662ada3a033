/* SPDX-License-Identifier: MIT */
/*
 * flow_exec.c - what a program gets that the process starts or becomes.
 *
 * A trap in execve(2) would kill the child of posix_spawn(3). Trapline has functions of its own
 * before those of libc, and they report the environment. They report arguments too where no trap
 * does.
 *
 * The child of vfork(2) has the memory of its parent: what this needs is mapped for the one call.
 */
#include "flow/flow_exec.h"

#include "base/atomic.h"
#include "base/memory.h"
#include "code/window/window.h"
#include "flow/flow_residue.h"
#include "flow/flow_sink.h"
#include "flow/flow_state.h"
#include "guest/exec_begins.h"

static int is_in_window(void)
{
	const struct window_area *area = window_own();

	return area && area->is_active != WINDOW_IDLE;
}

static void on_exec(const struct exec_call *call)
{
	const uint64_t back = (uint64_t)(uintptr_t)call->back;
	const uint64_t regs[INSN_RIP + 1] = { 0 };
	/* A function of libc calls this one: it has had a trap of its own. */
	const int is_inner = back - flow_libc_start < flow_libc_end - flow_libc_start;
	struct flow_thread *t;

	if (!atomic_get(&flow_region) || flow_is_over() || !atomic_get(&flow_region->sources_used))
		return;
	t = memory_map_sparse(sizeof(*t));
	if (memory_failed(t)) {
		flow_count(FLOW_LOST_WINDOW, 1);
		return;
	}
	const struct flow_moment m = {
		.thread = t, .regs = regs, .pc = (uint64_t)(uintptr_t)call->function, .back = back
	};
	flow_sink_program(&m, call, !is_inner && !is_in_window());
	memory_unmap(t, sizeof(*t));
	/* The exec may fail: what lies there now is reported all the same. */
	if (call->becomes && flow_has_followed() && sys_getpid() == flow_self)
		flow_residue();
}

void flow_exec_start(void)
{
	__atomic_store_n(&exec_begins, on_exec, __ATOMIC_RELEASE);
}

void flow_exec_end(void)
{
	atomic_set(&exec_begins, NULL);
}
