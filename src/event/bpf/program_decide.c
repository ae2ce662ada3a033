/* SPDX-License-Identifier: MIT */
/*
 * program_decide.c - whether a hit counts, in the order
 *	duplicate, ordinal, value, condition, limit.
 *
 * What is decided has nothing that could fail in the verifier for one event and not for another.
 */
#include <errno.h>
#include <linux/bpf_perf_event.h>

#include "cond/emit.h"
#include "event/arch_regs.h"
#include "event/bpf/program_amount.h"
#include "event/bpf/program_decide.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_kernel.h"
#include "event/bpf/program_load.h"
#include "event/bpf/program_tracepoint.h"

static int uses_value(const struct condition *c)
{
	return c &&
	       (cond_uses(c, COND_NEW) || cond_uses(c, COND_OLD) || cond_uses(c, COND_CHANGED));
}

static void emit_fault(struct ebpf *p)
{
	program_count(p, CONTROL_AT(condition_faults));
	program_reject(p, CONTROL_AT(rejected_condition));
}

/*
 * The first class that a thread sees owns it. Kept in the task itself: a map of thread ids would
 * answer for a dead thread whose number was given again.
 */
static void emit_reject_duplicate(struct ebpf *p, int storage_fd, uint32_t class, int in_thread)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_load_map(p, R1, storage_fd);
	ebpf_mov(p, R2, R0);
	ebpf_mov_imm(p, R3, 0);
	ebpf_mov_imm(p, R4, BPF_LOCAL_STORAGE_GET_F_CREATE);
	ebpf_call(p, BPF_FUNC_task_storage_get);
	/* No memory for the note: a hit seen twice is better than one not seen. */
	uint32_t no_note = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R0, 0);
	uint32_t owned = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	ebpf_mov_imm(p, R1, (int32_t) class + 1);
	ebpf_store(p, BPF_DW, R0, 0, R1);
	ebpf_land(p, owned);
	uint32_t ours = ebpf_jump_imm(p, BPF_JEQ, R1, (int32_t) class + 1);
	program_reject(p, CONTROL_AT(rejected_duplicate));
	ebpf_land(p, ours);
	if (in_thread) {
		ebpf_load_mem(p, BPF_DW, R1, R0, 8);
		ebpf_alu_imm(p, BPF_ADD, R1, 1);
		ebpf_store(p, BPF_DW, R0, 8, R1);
		ebpf_store(p, BPF_DW, R10, FRAME_HITS_IN_THREAD, R1);
		uint32_t known = ebpf_jump_imm(p, BPF_JA, 0, 0);
		ebpf_land(p, no_note);
		emit_fault(p);
		ebpf_land(p, known);
	} else {
		ebpf_land(p, no_note);
	}
}

/*
 * Take one from the budget; put it back when it was empty. A rejected hit can so reject another
 * that arrives in the same moment as a re-arm, but exactly the budget is ever granted.
 */
static void emit_spend_budget(struct ebpf *p)
{
	ebpf_mov_imm(p, R1, -1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(budget), R1);
	uint32_t granted = ebpf_jump_imm(p, BPF_JSGT, R1, 0);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, CONTROL, CONTROL_AT(budget), R1);
	program_reject(p, CONTROL_AT(rejected_limit));
	ebpf_land(p, granted);
}

/* Below 0 it continues counting: 2^63 hits do not happen. */
static void emit_skip(struct ebpf *p)
{
	ebpf_mov_imm(p, R1, -1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(skip_left), R1);
	uint32_t counts = ebpf_jump_imm(p, BPF_JSLE, R1, 0);

	program_reject(p, CONTROL_AT(rejected_skip));
	ebpf_land(p, counts);
}

#define PLACE_AT(member) ((int16_t)offsetof(struct event_place, member))

/* Finds which of the addresses that a data event has been at lately was hit. */
static void emit_find_place(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	uint32_t found[EVENT_PLACES];

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, PROGRAM_DATA_ADDR_AT);
	ebpf_mov(p, PLACE, CONTROL);
	ebpf_alu_imm(
		p, BPF_ADD, PLACE,
		(int32_t)(CONTROL_AT(places) + part * EVENT_PLACES * sizeof(struct event_place)));
	for (uint32_t i = 0; i < EVENT_PLACES; i++) {
		if (i)
			ebpf_alu_imm(p, BPF_ADD, PLACE, sizeof(struct event_place));
		ebpf_load_mem(p, BPF_DW, R2, PLACE, PLACE_AT(addr));
		found[i] = ebpf_jump(p, BPF_JEQ, R1, R2);
	}
	if (program_keeps_values(ev)) {
		uint32_t by_thread = program_jump_by_thread(p);

		program_reject(p, CONTROL_AT(by_kernel));
		ebpf_land(p, by_thread);
	}
	program_reject(p, CONTROL_AT(lost_late));
	for (uint32_t i = 0; i < EVENT_PLACES; i++)
		ebpf_land(p, found[i]);
	ebpf_load_mem(p, BPF_DW, R1, PLACE, PLACE_AT(len));
	ebpf_store(p, BPF_DW, R10, FRAME_LEN, R1);
}

/* After an exchange while all threads are armed. Unless the location is being armed again. */
static void emit_next_is_known(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R0, R10, FRAME_WHEN);
	ebpf_mov(p, R1, R0);
	ebpf_alu_imm(p, BPF_AND, R1, PLACE_UNKNOWN_ONCE);
	uint32_t known = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	ebpf_mov_imm(p, R1, TRAPLINE_VALUE_AT_HIT);
	ebpf_atomic(p, BPF_CMPXCHG, PLACE, PLACE_AT(when), R1);
	ebpf_land(p, known);
}

/* FRAME_VALUE, FRAME_OLD and FRAME_WHEN of a data event. */
static void emit_read_value(struct ebpf *p, int needed)
{
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_VALUE);
	ebpf_load_mem(p, BPF_DW, R2, R10, FRAME_LEN);
	ebpf_alu_imm(p, BPF_AND, R2, 15); /* for the verifier, as is what follows */
	uint32_t fits = ebpf_jump_imm(p, BPF_JLE, R2, 8);
	ebpf_mov_imm(p, R2, 8);
	ebpf_land(p, fits);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, PROGRAM_DATA_ADDR_AT);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t failed = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	/*
	 * Before the exchange: what it takes out was there when the word stated that it is known.
	 */
	ebpf_load_mem(p, BPF_DW, R1, PLACE, PLACE_AT(when));
	ebpf_store(p, BPF_DW, R10, FRAME_WHEN, R1);
	/* Exchanged, so that the chain old -> new has no gap however many threads write. */
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_VALUE);
	ebpf_atomic(p, BPF_XCHG, PLACE, PLACE_AT(last), R1);
	ebpf_store(p, BPF_DW, R10, FRAME_OLD, R1);
	emit_next_is_known(p);
	if (needed) {
		uint32_t known = ebpf_jump_imm(p, BPF_JA, 0, 0);
		ebpf_land(p, failed);
		emit_fault(p);
		ebpf_land(p, known);
	} else {
		ebpf_land(p, failed);
	}
}

static void emit_keep_value(struct ebpf *p)
{
	uint32_t by_thread = program_jump_by_thread(p);

	program_end_at_piece(p);
	emit_read_value(p, 0);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_VALUE);
	ebpf_load_mem(p, BPF_DW, R2, R10, FRAME_OLD);
	uint32_t same = ebpf_jump(p, BPF_JEQ, R1, R2);
	program_count(p, CONTROL_AT(changed_by_kernel));
	ebpf_land(p, same);
	program_reject(p, CONTROL_AT(by_kernel));
	ebpf_land(p, by_thread);
}

static int emit_condition(struct ebpf *p, const struct trapline_event *ev)
{
	struct arch_caller caller = arch_caller(ev->access == TRAPLINE_EXECUTE);
	struct cond_place place = {
		.context = CONTEXT,
		.control = CONTROL,
		.zero_at = CONTROL_AT(zero),
		.frame_at = FRAME_CONDITION,
		.terms_at = {
			[COND_NEW] = FRAME_VALUE,
			[COND_OLD] = FRAME_OLD,
			[COND_HITS] = FRAME_HITS,
			[COND_HITS_IN_THREAD] = FRAME_HITS_IN_THREAD,
		},
		.addr_at = program_addr_at(ev),
		.regs_at = program_regs_at(ev),
		.ip_reg = ARCH_REG_PC,
		.caller_reg = caller.reg,
		.caller_add = caller.add,
		.caller_in_memory = caller.in_memory,
		.count_at = offsetof(struct event_control, hits),
		.ids = ev->ids,
	};

	for (uint32_t i = 0; i < ev->condition->event_count; i++)
		place.count_maps[i] = ev->condition->events[i]->control_fd;
	int err = cond_emit(p, ev->condition, &place);
	uint32_t holds = ebpf_jump_imm(p, BPF_JEQ, R0, 1);
	uint32_t is_false = ebpf_jump_imm(p, BPF_JEQ, R0, 0);

	program_count(p, CONTROL_AT(condition_faults));
	ebpf_land(p, is_false);
	program_reject(p, CONTROL_AT(rejected_condition));
	ebpf_land(p, holds);
	return err;
}

static void emit_ordinal(struct ebpf *p)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(hits), R1);
	ebpf_alu_imm(p, BPF_ADD, R1, 1);
	ebpf_store(p, BPF_DW, R10, FRAME_HITS, R1);
}

void program_no_value(struct ebpf *p)
{
	ebpf_store_imm(p, BPF_DW, R10, FRAME_VALUE, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_WHEN, TRAPLINE_VALUE_NONE);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_LEN, 0);
}

int program_decide(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class)
{
	const struct condition *c = ev->condition;
	int err = 0;

	int in_thread = c && cond_uses(c, COND_HITS_IN_THREAD);
	/*
	 * A named thread was armed once. Nor may a PMU's interrupt, which cannot be masked, find
	 * that memory must be taken for the note.
	 */
	int may_be_duplicate = !event_is_shared(ev) && ev->scope == TRAPLINE_PROCESS;
	if (may_be_duplicate || in_thread)
		emit_reject_duplicate(p, ev->storage_fd, class, in_thread);
	program_no_value(p);
	if (ev->amount)
		program_end_unless_amount(p, ev);
	if (event_is_data(ev))
		emit_find_place(p, ev, part);
	if (program_sees_kernel(ev))
		program_kernel_hit(p, ev);
	else if (program_keeps_values(ev))
		emit_keep_value(p);
	emit_ordinal(p);
	if (event_is_data(ev))
		emit_read_value(p, uses_value(c));
	if (c)
		err = emit_condition(p, ev);
	if (ev->skip)
		emit_skip(p);
	if (ev->has_limit)
		emit_spend_budget(p);
	return err;
}
