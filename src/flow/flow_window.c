/* SPDX-License-Identifier: MIT */
/* flow_window.c - windows begin where followed bytes are met, within a budget, and end. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "flow/flow_budget.h"
#include "flow/flow_marks.h"
#include "flow/flow_record.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "flow/flow_watch.h"
#include "flow/flow_window.h"
#include "guest/own_thread.h"
#include "guest/stack_call.h"
#include "trap/arch.h"
#include "trap/stack.h"

#define SYSCALL_BYTES 2u
#define INSTRUCTIONS_MAX 2000000000u

static struct flow_thread *threads;

/* Belongs to the area of a window, whose cache has the numbers of its forms. */
struct flow_thread *flow_thread_take(void)
{
	struct window_area *area;

	if (window_take(&area))
		return NULL;
	struct flow_thread *t = flow_own && flow_own->area == area ? flow_own :
								     atomic_get(&threads);
	while (t && t->area != area)
		t = t->next;
	if (!t) {
		t = memory_map_sparse(sizeof(*t));
		if (memory_failed(t))
			return NULL;
		t->area = area;
		t->next = atomic_get(&threads);
		while (!atomic_cas(&threads, &t->next, t))
			;
	}
	const int32_t tid = (int32_t)sys_gettid();
	if (t->tid != tid) {
		flow_regs_forget(t);
		t->suspended_pc = t->sink_sp = 0;
		t->sink_site = NULL;
		t->sources_pending = t->steps_pending = t->records_pending = 0;
	}
	t->tid = tid;
	flow_own = t;
	return t;
}

void flow_threads_wipe(void)
{
	for (struct flow_thread *t = atomic_get(&threads); t; t = t->next) {
		memset(t->page, 0, sizeof(t->page));
		memset(t->words, 0, sizeof(t->words));
	}
}

void flow_threads_give(void)
{
	struct flow_thread *next;

	for (struct flow_thread *t = atomic_swap(&threads, NULL); t; t = next) {
		next = t->next;
		memory_unmap(t, sizeof(*t));
	}
}

/* ---- the calls that the thread is in ---- */

/*
 * The unwinder states the return addresses; where they lie is found on the stack, one after the
 * other.
 */
static void find_calls(struct flow_thread *t, const ucontext_t *context)
{
	const uint64_t *words = t->words;
	uint64_t frames[FLOW_FRAMES + 1];
	const uint64_t sp = arch_sp(context);
	const uint32_t count = stack_unwind(arch_pc(context), frames, FLOW_FRAMES + 1);
	struct flow_call found[FLOW_FRAMES];
	uint32_t n = 0;
	size_t at = 0;
	ssize_t got = 0;

	for (size_t bytes = sizeof(t->words); got <= 0 && bytes >= 256; bytes /= 2)
		got = sys_read_memory(sys_getpid(), sp, t->words, bytes);
	for (uint32_t i = 1; i < count && frames[i] && got > 0; i++) {
		while (at < (size_t)got / 8 && words[at] != frames[i])
			at++;
		if (at == (size_t)got / 8)
			break;
		found[n++] = (struct flow_call){ frames[i], sp + 8 * at++ };
	}
	t->calls = 0;
	while (n)
		t->call[t->calls++] = found[--n];
}

static int may_begin(uint64_t *most_ns)
{
	const struct flow_settings *set = &flow_region->settings;
	const int64_t left = flow_budget_left();

	*most_ns = set->window_ns;
	if (left > 0 && (uint64_t)left < *most_ns)
		*most_ns = (uint64_t)left;
	return left > 0;
}

/* ---- begin and end ---- */

static void count_end(const struct flow_thread *t, const struct window_result *r)
{
	flow_count(FLOW_INSTRUCTIONS, r->instructions);
	flow_count(FLOW_TRANSLATED, r->translated);
	switch (r->reason) {
	case WINDOW_TIME:
	case WINDOW_BUDGET:
		flow_count(FLOW_CUT_TIME, 1);
		break;
	case WINDOW_INSTRUCTION:
	case WINDOW_UNREADABLE:
	case WINDOW_RESTARTABLE:
	case WINDOW_FAULT:
		flow_count(FLOW_CUT_INSTRUCTION, 1);
		break;
	case WINDOW_SYSTEM_CALL:
	case WINDOW_BLOCKING:
	case WINDOW_SIGNAL:
		flow_count(FLOW_CUT_CALL, 1);
		break;
	default:
		break;
	}
}

static void close_window(void *arg)
{
	struct window_area *area = arg;
	struct flow_thread *t = area->request.arg;
	const struct window_result *r = &area->result;

	const struct flow_moment m = {
		.thread = t, .regs = area->regs.r, .pc = r->pc, .has_ended = 1
	};

	flow_source_variables(&m);
	flow_marks_settle(t);
	flow_record_pending(t);
	count_end(t, r);
	t->suspended_pc = 0;
	if (r->reason == WINDOW_BLOCKING) {
		t->suspended_pc = r->pc + SYSCALL_BYTES;
		t->suspended_sp = area->regs.r[INSN_RSP];
	} else {
		flow_regs_forget(t);
	}
	flow_watch_aim(t->watch_rests);
	flow_spend(FLOW_WINDOW_NS, clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->began_ns);
}

void flow_on_own_stack(const struct window_area *area, void (*call)(void *), void *arg)
{
	stack_call((void *)(uintptr_t)area->stack_top, WINDOW_STACK_BYTES, call, arg);
}

static void ended(struct window_area *area)
{
	flow_on_own_stack(area, close_window, area);
}

int flow_window_begin(struct flow_thread *t, ucontext_t *context)
{
	struct window_request request = { .instructions = INSTRUCTIONS_MAX, .arg = t };
	uint64_t most_ns;

	request.hooks = (struct window_hooks){
		.choose = flow_choose,
		.before = flow_step,
		.keeps_vectors = 1,
	};
	if (!may_begin(&most_ns)) {
		flow_count(FLOW_LOST_BUDGET, 1);
		return 0;
	}
	request.ended = ended;
	t->began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	request.deadline_ns = clock_ns(CLOCK_MONOTONIC) + most_ns;
	t->skip_pc = arch_pc(context);
	find_calls(t, context);
	request.owns_watch = flow_watch_owns;
	t->watch_rests = flow_watch_rest();
	if (!t->watch_rests) {
		flow_marks_report(t);
		flow_watch_aim(0);
	}
	if (window_enter_context(&request, context)) {
		flow_count(FLOW_LOST_WINDOW, 1);
		flow_watch_aim(t->watch_rests);
		return 0;
	}
	flow_count(FLOW_WINDOWS, 1);
	flow_follows();
	return 1;
}
