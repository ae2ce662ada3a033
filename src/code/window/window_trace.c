/* SPDX-License-Identifier: MIT */
/*
 * window_trace.c - see window_trace.h. Compiled without vector registers, as window_run.c.
 *
 * Where functions begin is read from the tables for unwinding. The kernel's clock is asked twice;
 * in between the processor's counter is read.
 */
#include "base/general_regs.h"

#include "code/window/window_trace.h"

#include <dlfcn.h>
#include <link.h>

#include "base/clock.h"
#include "code/unwind/unwind_index.h"
#include "code/window/window_call.h"

#define NONE UINT32_MAX

/* ---- where functions begin ---- */

/* libc's function may use vector registers. */
static int look_up_start(uint64_t pc)
{
	struct dl_find_object found = { 0 };

	if (_dl_find_object((void *)(uintptr_t)pc, &found) || !found.dlfo_eh_frame)
		return 0;
	const struct unwind_row *row = unwind_index_find(found.dlfo_eh_frame, pc);

	return row && unwind_row_start(found.dlfo_eh_frame, row) == pc;
}

static int is_known(const struct window_trace *t, uint64_t pc)
{
	return t->start_cache[(pc ^ pc >> 10) % WINDOW_TRACE_STARTS] == pc;
}

/* Where vector registers are free. */
static int begins_function(struct window_trace *t, uint64_t pc)
{
	const uint32_t i = (uint32_t)((pc ^ pc >> 10) % WINDOW_TRACE_STARTS);

	if (!is_known(t, pc)) {
		t->is_start[i] = (uint8_t)look_up_start(pc);
		t->start_cache[i] = pc;
	}
	return t->is_start[i];
}

/* Where they are the program's. */
static int begins_function_in_hook(struct window_area *a, struct window_trace *t, uint64_t pc)
{
	if (is_known(t, pc))
		return begins_function(t, pc);
	window_vectors_save(a);
	const int begins = begins_function(t, pc);
	window_vectors_restore(a);
	return begins;
}

/* ---- nodes ---- */

static uint64_t ticks(void)
{
	uint32_t low;
	uint32_t high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static uint64_t insns_so_far(const struct window_area *a)
{
	return a->result.instructions + (uint64_t)(a->slice - a->left);
}

static void push(struct window_trace *t, uint64_t function, uint64_t sp, uint64_t insns,
		 int by_jump)
{
	struct trace_head *head = t->head;
	uint32_t number = NONE;

	if (t->frames_used)
		t->frames[t->frames_used - 1].calls++;
	if (t->frames_used == WINDOW_TRACE_FRAMES) {
		head->limit = TRACE_LIMIT_FRAMES;
		return;
	}
	if (t->depth && t->frames_used > t->depth) {
		head->deeper++;
	} else if (head->nodes == t->most_nodes) {
		head->limit = TRACE_LIMIT_NODES;
	} else {
		number = head->nodes;
		t->nodes[number] = (struct trace_node){
			.function = function,
			.insns_begin = insns,
			.ticks_begin = ticks(),
			.depth = t->frames_used,
			.by_jump = (uint16_t)by_jump,
		};
		__atomic_store_n(&head->nodes, number + 1, __ATOMIC_RELEASE);
	}
	t->frames[t->frames_used++] = (struct window_trace_frame){ .sp = sp, .node = number };
}

static void pop(struct window_trace *t, uint64_t insns, enum trace_end how)
{
	const uint32_t number = t->frames[--t->frames_used].node;

	if (number == NONE)
		return;
	t->nodes[number].insns_end = insns;
	t->nodes[number].ticks_end = ticks();
	t->nodes[number].end = (uint16_t)how;
}

/* Frames whose return address lies below sp are gone. */
static void leave_below(struct window_trace *t, uint64_t sp, uint64_t insns)
{
	while (t->frames_used && t->frames[t->frames_used - 1].sp < sp)
		pop(t, insns, TRACE_LEFT);
}

/* ---- what an instruction does ---- */

/* By the instruction's own bits: four words of conditions, each with its opposite. */
static int is_taken(uint32_t condition, uint64_t flags)
{
	const int carry = flags & 1;
	const int zero = flags >> 6 & 1;
	const int sign = flags >> 7 & 1;
	const int overflow = flags >> 11 & 1;
	const int parity = flags >> 2 & 1;
	const int values[] = { overflow,
			       carry,
			       zero,
			       carry | zero,
			       sign,
			       parity,
			       sign != overflow,
			       zero | (sign != overflow) };

	return values[condition >> 1 & 7] ^ (int)(condition & 1);
}

static uint64_t target_of(const struct window_area *a, const struct window_operand *o)
{
	uint64_t address = (uint64_t)o->displacement;
	uint64_t target = 0;

	if (o->access == 0) /* it is named, or in a register */
		return o->base == INSN_NO_REG ? address : a->regs.r[o->base];
	if (o->base != INSN_NO_REG)
		address += a->regs.r[o->base];
	if (o->scale)
		address += a->regs.r[o->index] * o->scale;
	if (o->segment == INSN_SEGMENT_FS)
		address += a->regs.fs_base;
	return window_read(&target, address, sizeof(target)) == sizeof(target) ? target : 0;
}

static uint32_t trace_choose(struct window_area *a, uint64_t pc, const struct insn *insn,
			     const uint8_t *bytes)
{
	struct window_operand *o = &a->operands[a->operands_used];
	const struct insn_memory *m = &insn->memory[0];

	switch (insn->kind) {
	case INSN_JUMP_CONDITIONAL:
		if (insn->condition >= INSN_CONDITION_LOOPNE)
			return 0;
		break;
	case INSN_JUMP:
	case INSN_JUMP_INDIRECT:
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
	case INSN_RETURN:
		break;
	default:
		return 0;
	}
	*o = (struct window_operand){ .base = INSN_NO_REG, .flags = insn->kind };
	o->size = insn->condition;
	if (insn->kind == INSN_JUMP_INDIRECT || insn->kind == INSN_CALL_INDIRECT) {
		o->base = insn->target_reg;
		if (insn->target_reg == INSN_NO_REG) {
			o->displacement = m->displacement;
			o->base = m->base;
			o->index = m->index;
			o->scale = m->scale;
			o->segment = m->segment;
			o->access = 1;
		}
	} else if (insn->kind != INSN_RETURN) {
		o->displacement = (int64_t)(pc + (uint64_t)insn->target);
		/* Most jumps stay in their function. */
		if (insn->kind != INSN_CALL &&
		    !begins_function(a->request.arg, (uint64_t)o->displacement))
			return 0;
	}
	return a->operands_used++;
}

static void take_jump(struct window_area *a, struct window_trace *t, const struct window_operand *o)
{
	struct window_trace_frame *top = &t->frames[t->frames_used - 1];
	const uint64_t insns = insns_so_far(a);

	if (a->regs.r[INSN_RSP] != top->sp ||
	    (o->flags == INSN_JUMP_CONDITIONAL && !is_taken(o->size, a->regs.flags)))
		return;
	const uint64_t target = target_of(a, o);
	if (!begins_function_in_hook(a, t, target))
		return;
	struct trace_node *node = top->node == NONE ? NULL : &t->nodes[top->node];
	if (node && node->function == target)
		return;
	if (node && o->flags == INSN_JUMP_INDIRECT && !top->calls && top->node &&
	    insns - node->insns_begin <= TRACE_STUB_INSNS)
		node->function = target;
	else
		push(t, target, top->sp, insns, 1);
}

static int trace_before(struct window_area *a, uint64_t pc, uint32_t number)
{
	const struct window_operand *o = &a->operands[number];
	struct window_trace *t = a->request.arg;
	const uint64_t sp = a->regs.r[INSN_RSP];
	const uint64_t insns = insns_so_far(a);

	switch (o->flags) {
	case INSN_RETURN:
		leave_below(t, sp, insns);
		while (t->frames_used && t->frames[t->frames_used - 1].sp == sp)
			pop(t, insns, TRACE_RETURNED);
		break;
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
		leave_below(t, sp - 7, insns);
		if (t->frames_used)
			push(t, target_of(a, o), sp - 8, insns, 0);
		break;
	default:
		take_jump(a, t, o);
	}
	return !t->frames_used || t->head->limit || __atomic_load_n(t->is_off, __ATOMIC_RELAXED);
}

/* ---- begin and end ---- */

static void read_clocks(uint64_t *ns, uint64_t *now_ticks)
{
	*ns = clock_ns(CLOCK_MONOTONIC);
	*now_ticks = ticks();
}

static void trace_ended(struct window_area *a)
{
	struct window_trace *t = a->request.arg;
	struct trace_head *head = t->head;

	read_clocks(&head->end_ns, &head->end_ticks);
	head->reason = a->result.reason;
	head->insns = a->result.instructions;
	head->pc = a->result.pc;
	head->syscall = a->regs.r[INSN_RAX];
	__atomic_store_n(&head->state, (uint32_t)TRACE_DONE, __ATOMIC_RELEASE);
}

void window_trace_begin(struct window_trace *t, uint64_t pc, uint64_t sp,
			struct window_request *request)
{
	request->hooks = (struct window_hooks){
		.choose = trace_choose,
		.before = trace_before,
		.keeps_vectors = 1,
	};
	request->ended = trace_ended;
	request->arg = t;
	read_clocks(&t->head->begin_ns, &t->head->begin_ticks);
	push(t, pc, sp, 0, 0);
	__atomic_store_n(&t->head->state, (uint32_t)TRACE_RUNS, __ATOMIC_RELEASE);
}
