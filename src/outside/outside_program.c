/* SPDX-License-Identifier: MIT */
/*
 * outside_program.c - the BPF program at a site.
 *
 * It runs in the thread, with interrupts on. While it waits, its CPU is occupied. Its loops end by
 * the clock, and by the kernel's own limit of such loops (BPF_MAY_GOTO, Linux commit 011832b97b31,
 * v6.9).
 */
#include "outside/outside_program.h"

#include "event/arch_regs.h"
#include "event/uprobe/uprobe_filter.h"
#include "outside/outside_emit.h"

#include <errno.h>
#include <stdlib.h>

#define OWN_STACK_BYTES 65536
#define RED_ZONE_BYTES 256
#define ADDRESS_BITS 47
#define ADDRESS_LEAST 65536
#define MAY_GOTO (BPF_JMP | 0xe0)
#define HOT_HITS 48
#define TRAP_NS 60000
#define OTHERS_NS 60000
#define COLD_HITS 4
#define CALM_SHIFT 3 /* the chance of a stall falls with an eighth of the hits */

/* TRAP: the row that the cookie states. The same file can be mapped once more, elsewhere. */
static void emit_trap(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, R1, CONTEXT);
	ebpf_call(p, BPF_FUNC_get_attach_cookie);
	uint32_t is_row = ebpf_jump_imm(p, BPF_JLT, R0, OUTSIDE_SITES);
	outside_emit_end(p);
	ebpf_land(p, is_row);
	ebpf_alu_imm(p, BPF_MUL, R0, sizeof(struct outside_trap));
	ebpf_load_map_value(p, TRAP, maps->traps_fd, 0);
	ebpf_alu(p, BPF_ADD, TRAP, R0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(place));
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	uint32_t is_there = ebpf_jump(p, BPF_JEQ, R1, R2);
	outside_emit_end(p);
	ebpf_land(p, is_there);
}

/* Where the thread is, for its access in the copy of the instruction. */
static void emit_note_site(struct ebpf *p, const struct outside_maps *maps)
{
	outside_emit_note(p, maps, 1);
	uint32_t no_memory = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(place));
	ebpf_store(p, BPF_DW, R0, 0, R1);
	ebpf_land(p, no_memory);
}

/* Too many hits end the turn: the command takes the traps away. */
static void emit_count_hit(struct ebpf *p, const struct outside_maps *maps)
{
	outside_emit_count(p, OUTSIDE_COUNT_HITS);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, SHARED, SHARED_AT(turn_hits), R1);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(most_hits));
	uint32_t more = ebpf_jump(p, BPF_JNE, R1, R2);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 0);
	outside_emit_wake(p, maps);
	ebpf_land(p, more);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, TRAP, TRAP_AT(hits), R1);
	ebpf_store(p, BPF_DW, R10, AT_WORD, R1);
}

/* AT_UNTIL: how long ago a thread of the process was last seen on another CPU. */
static void emit_see_others(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_get_smp_processor_id);
	ebpf_store(p, BPF_DW, R10, AT_STATE, R0);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_STATE);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(last_cpu));
	uint32_t is_same = ebpf_jump(p, BPF_JEQ, R1, R2);
	ebpf_load_mem(p, BPF_DW, R3, SHARED, SHARED_AT(last_ns));
	ebpf_store(p, BPF_DW, SHARED, SHARED_AT(other_ns), R3);
	ebpf_store(p, BPF_DW, SHARED, SHARED_AT(last_cpu), R1);
	ebpf_land(p, is_same);
	ebpf_store(p, BPF_DW, SHARED, SHARED_AT(last_ns), R0);
	ebpf_load_mem(p, BPF_DW, R3, SHARED, SHARED_AT(other_ns));
	ebpf_alu(p, BPF_SUB, R0, R3);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
}

/*
 * A stall occupies the CPU, so it meets only what runs on another one. Where threads come often and
 * none was seen elsewhere lately, most of the stalls would meet no thread.
 */
static void emit_end_if_alone(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_UNTIL);
	uint32_t has_others = ebpf_jump_imm(p, BPF_JLT, R1, OTHERS_NS);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(hits));
	uint32_t is_cold = ebpf_jump_imm(p, BPF_JLT, R1, COLD_HITS);
	ebpf_call(p, BPF_FUNC_get_prandom_u32);
	ebpf_alu_imm(p, BPF_AND, R0, 7);
	outside_emit_end_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_SKIPPED);
	ebpf_land(p, has_others);
	ebpf_land(p, is_cold);
}

/* A probe that stalls no thread is of no use: the turn ends. */
static void emit_end_if_spent(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(credit_ns));
	uint32_t has_credit = ebpf_jump_imm(p, BPF_JSGT, R1, 0);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_XCHG, SHARED, SHARED_AT(is_spent), R1);
	uint32_t is_known = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	outside_emit_wake(p, maps);
	ebpf_land(p, is_known);
	outside_emit_count(p, OUTSIDE_COUNT_EARLY);
	outside_emit_end(p);
	ebpf_land(p, has_credit);
}

/*
 * By chance, and less often the more threads came: a fixed rhythm could agree with that of threads
 * that alternate. AT_WORD has the hits of the site.
 */
static void emit_draw(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_open));
	outside_emit_end_if(p, BPF_JEQ, R1, 0, OUTSIDE_COUNT_EARLY);
	emit_end_if_spent(p, maps);
	ebpf_call(p, BPF_FUNC_get_prandom_u32);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	ebpf_alu_imm(p, BPF_RSH, R1, CALM_SHIFT);
	ebpf_load_mem(p, BPF_DW, R2, TRAP, TRAP_AT(calm));
	ebpf_alu(p, BPF_ADD, R1, R2);
	ebpf_alu(p, BPF_MOD, R0, R1);
	outside_emit_end_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_SKIPPED);
	emit_end_if_alone(p);
}

/* R0: the value of the register that a member of the trap names. */
static void emit_register(struct ebpf *p, int16_t member)
{
	ebpf_load_mem(p, BPF_DW, R1, TRAP, member);
	uint32_t is_one = ebpf_jump_imm(p, BPF_JLE, R1, OUTSIDE_NO_REG);
	outside_emit_end(p);
	ebpf_land(p, is_one);
	ebpf_alu_imm(p, BPF_LSH, R1, 3);
	ebpf_mov(p, R2, R10);
	ebpf_alu(p, BPF_ADD, R2, R1);
	ebpf_load_mem(p, BPF_DW, R0, R2, AT_REGS);
}

static void emit_address(struct ebpf *p)
{
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[i]);
		ebpf_store(p, BPF_DW, R10, (int16_t)(AT_REGS + 8 * i), R1);
	}
	ebpf_store_imm(p, BPF_DW, R10, AT_REGS + 8 * RECORD_REGS, 0);
	emit_register(p, TRAP_AT(index));
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(shift));
	ebpf_alu_imm(p, BPF_AND, R1, 7);
	ebpf_alu(p, BPF_LSH, R0, R1);
	ebpf_store(p, BPF_DW, R10, AT_ADDRESS, R0);
	emit_register(p, TRAP_AT(base));
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_ADDRESS);
	ebpf_alu(p, BPF_ADD, R0, R1);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(displacement));
	ebpf_alu(p, BPF_ADD, R0, R1);
	ebpf_store(p, BPF_DW, R10, AT_ADDRESS, R0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(skew));
	ebpf_alu(p, BPF_ADD, R0, R1);
	ebpf_store(p, BPF_DW, R10, AT_PART, R0);
	outside_emit_end_if(p, BPF_JLT, R0, ADDRESS_LEAST, OUTSIDE_COUNT_NO_ADDRESS);
	ebpf_mov(p, R1, R0);
	ebpf_alu_imm(p, BPF_RSH, R1, ADDRESS_BITS);
	outside_emit_end_if(p, BPF_JNE, R1, 0, OUTSIDE_COUNT_NO_ADDRESS);
}

/* Near the stack pointer is the thread's own memory, mostly. */
static void emit_end_if_own_stack(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(is_escaped));
	uint32_t is_escaped = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_PART);
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu(p, BPF_SUB, R1, R2);
	ebpf_alu_imm(p, BPF_ADD, R1, RED_ZONE_BYTES);
	uint32_t is_far = ebpf_jump_imm(p, BPF_JGE, R1, OWN_STACK_BYTES + RED_ZONE_BYTES);
	ebpf_call(p, BPF_FUNC_get_prandom_u32);
	ebpf_alu_imm(p, BPF_AND, R0, 7);
	outside_emit_end_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_STACK);
	ebpf_land(p, is_far);
	ebpf_land(p, is_escaped);
}

/* AT_LEN: the largest aligned piece that begins there and is part of the access. */
static void emit_length(struct ebpf *p)
{
	ebpf_store_imm(p, BPF_DW, R10, AT_LEN, 1);
	ebpf_load_mem(p, BPF_DW, R2, TRAP, TRAP_AT(size));
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(skew));
	ebpf_alu(p, BPF_SUB, R2, R1);
	for (int32_t len = 2; len <= 8; len *= 2) {
		ebpf_load_mem(p, BPF_DW, R1, R10, AT_PART);
		ebpf_alu_imm(p, BPF_AND, R1, len - 1);
		uint32_t is_odd = ebpf_jump_imm(p, BPF_JNE, R1, 0);
		uint32_t is_short = ebpf_jump_imm(p, BPF_JLT, R2, len);
		ebpf_store_imm(p, BPF_DW, R10, AT_LEN, len);
		ebpf_land(p, is_odd);
		ebpf_land(p, is_short);
	}
}

static void emit_copy(struct ebpf *p, int16_t frame, int16_t to)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, frame);
	ebpf_store(p, BPF_DW, SLOT, to, R1);
}

/* A jump, to be landed, that is taken where the two accesses have no byte in common. */
static uint32_t emit_overlap(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(part));
	ebpf_load_mem(p, BPF_DW, R2, R10, AT_ADDRESS);
	ebpf_load_mem(p, BPF_DW, R3, TRAP, TRAP_AT(size));
	ebpf_mov(p, R4, R1);
	ebpf_alu(p, BPF_SUB, R4, R2);
	uint32_t is_within = ebpf_jump(p, BPF_JLT, R4, R3);
	ebpf_load_mem(p, BPF_DW, R3, SLOT, SLOT_AT(part_len));
	ebpf_alu(p, BPF_SUB, R2, R1);
	uint32_t apart = ebpf_jump(p, BPF_JGE, R2, R3);
	ebpf_land(p, is_within);
	return apart;
}

static void emit_second_at_site(struct ebpf *p)
{
	ebpf_mov(p, R1, CONTEXT);
	ebpf_call(p, BPF_FUNC_get_attach_cookie);
	ebpf_alu_imm(p, BPF_ADD, R0, 1);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(second.site), R0);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_ADDRESS);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(second.address), R1);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(place));
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(second.note), R1);
	ebpf_mov(p, TRAP, SLOT);
	ebpf_alu_imm(p, BPF_ADD, TRAP, SLOT_AT(second));
	outside_emit_side(p, TRAP);
	outside_emit_side_ends(p, TRAP);
}

/*
 * Where no debug register works: another thread is stalled before its access to the same bytes,
 * and this one is about to make its own.
 */
static void emit_meet(struct ebpf *p)
{
	uint32_t goes_on[6];
	uint32_t n = 0;

	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_by_sites));
	goes_on[n++] = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	goes_on[n++] = ebpf_jump_imm(p, BPF_JNE, R1, OUTSIDE_OPEN);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(ids));
	ebpf_load_mem(p, BPF_DW, R2, R10, AT_IDS);
	goes_on[n++] = ebpf_jump(p, BPF_JEQ, R1, R2);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(writes));
	ebpf_load_mem(p, BPF_DW, R2, TRAP, TRAP_AT(writes));
	ebpf_alu(p, BPF_OR, R1, R2);
	goes_on[n++] = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	goes_on[n++] = emit_overlap(p);
	outside_emit_exchange(p, OUTSIDE_OPEN, OUTSIDE_HIT);
	goes_on[n++] = ebpf_jump_imm(p, BPF_JNE, R0, OUTSIDE_OPEN);
	outside_emit_count(p, OUTSIDE_COUNT_WATCH_HITS);
	emit_second_at_site(p);
	outside_emit_end(p);
	while (n--)
		ebpf_land(p, goes_on[n]);
}

static void emit_ask(struct ebpf *p, const struct outside_maps *maps)
{
	outside_emit_exchange(p, OUTSIDE_FREE, OUTSIDE_TAKEN);
	outside_emit_end_if(p, BPF_JNE, R0, OUTSIDE_FREE, OUTSIDE_COUNT_BUSY);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, R10, AT_BEGAN, R0);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(asked_ns), R0);
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(arm_ns));
	ebpf_alu(p, BPF_ADD, R0, R1);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
	ebpf_mov(p, R1, CONTEXT);
	ebpf_call(p, BPF_FUNC_get_attach_cookie);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(site), R0);
	emit_copy(p, AT_IDS, SLOT_AT(ids));
	emit_copy(p, AT_ADDRESS, SLOT_AT(address));
	emit_copy(p, AT_PART, SLOT_AT(part));
	emit_copy(p, AT_LEN, SLOT_AT(part_len));
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(writes));
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(writes), R1);
	ebpf_store_imm(p, BPF_DW, SLOT, SLOT_AT(first.is_whole), 0);
	ebpf_store_imm(p, BPF_DW, SLOT, SLOT_AT(second.is_whole), 0);
	ebpf_store_imm(p, BPF_DW, SLOT, SLOT_AT(second.site), 0);
	uint32_t unknown = outside_emit_value(p);
	uint32_t known = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, unknown);
	outside_emit_exchange(p, OUTSIDE_TAKEN, OUTSIDE_FREE);
	outside_emit_count(p, OUTSIDE_COUNT_NO_ADDRESS);
	outside_emit_end(p);
	ebpf_land(p, known);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_by_sites));
	uint32_t is_watched = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	outside_emit_exchange(p, OUTSIDE_TAKEN, OUTSIDE_ARMED);
	uint32_t is_ready = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, is_watched);
	outside_emit_exchange(p, OUTSIDE_TAKEN, OUTSIDE_ASKED);
	outside_emit_wake(p, maps);
	ebpf_land(p, is_ready);
}

/* Until the state is another one than any of [first, last], or the time is over. */
static void emit_wait(struct ebpf *p, enum outside_state first, enum outside_state last)
{
	uint32_t begin = p->count;

	ebpf_emit(p, MAY_GOTO, 0, 0, 0, 0);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_UNTIL);
	uint32_t is_over = ebpf_jump(p, BPF_JGE, R0, R1);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	uint32_t is_before = ebpf_jump_imm(p, BPF_JLT, R1, (int32_t)first);
	uint32_t is_after = ebpf_jump_imm(p, BPF_JGT, R1, (int32_t)last);
	uint32_t again = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land_at(p, again, begin);
	ebpf_land(p, begin);
	ebpf_land(p, is_over);
	ebpf_land(p, is_before);
	ebpf_land(p, is_after);
}

/* The budget pays for the time of the stall. */
static void emit_pay(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_BEGAN);
	ebpf_alu(p, BPF_SUB, R0, R1);
	ebpf_mov(p, R1, R0);
	ebpf_atomic(p, BPF_ADD, SHARED, COUNT_AT(OUTSIDE_COUNT_HELD_NS), R1);
	ebpf_mov_imm(p, R1, 0);
	ebpf_alu(p, BPF_SUB, R1, R0);
	ebpf_atomic(p, BPF_ADD, SHARED, SHARED_AT(credit_ns), R1);
}

/* The command did not come in time, or comes just now: it finds that, and frees the slot. */
static void emit_end_unless_armed(struct ebpf *p, const struct outside_maps *maps)
{
	outside_emit_exchange(p, OUTSIDE_ASKED, OUTSIDE_LEFT);
	uint32_t left = ebpf_jump_imm(p, BPF_JEQ, R0, OUTSIDE_ASKED);
	outside_emit_exchange(p, OUTSIDE_ARMING, OUTSIDE_LEFT);
	uint32_t is_armed = ebpf_jump_imm(p, BPF_JNE, R0, OUTSIDE_ARMING);
	ebpf_land(p, left);
	outside_emit_count(p, OUTSIDE_COUNT_UNARMED);
	emit_pay(p);
	outside_emit_wake(p, maps);
	outside_emit_end(p);
	ebpf_land(p, is_armed);
}

/* What comes often also meets others soon. R0: now; R1: until when. */
static void emit_shorten_if_hot(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R2, TRAP, TRAP_AT(hits));
	uint32_t is_cold = ebpf_jump_imm(p, BPF_JLT, R2, HOT_HITS);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(hot_ns));
	ebpf_alu(p, BPF_ADD, R0, R2);
	uint32_t is_shorter = ebpf_jump(p, BPF_JGE, R0, R1);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
	ebpf_land(p, is_shorter);
	ebpf_land(p, is_cold);
}

/*
 * The value before is that after the watch was put on all CPUs. What came between two reads has
 * changed it before the stall, unless its trap has come already.
 */
static void emit_open(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(open_ns), R0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(hold_ns));
	ebpf_load_mem(p, BPF_DW, R2, R10, AT_BEGAN);
	ebpf_alu(p, BPF_ADD, R1, R2);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R1);
	ebpf_mov(p, R3, R0);
	ebpf_alu(p, BPF_SUB, R3, R2);
	ebpf_atomic(p, BPF_ADD, SHARED, COUNT_AT(OUTSIDE_COUNT_ARM_NS), R3);
	emit_shorten_if_hot(p);
	uint32_t unknown = outside_emit_value(p);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	ebpf_land(p, unknown);
	outside_emit_exchange(p, OUTSIDE_ARMED, OUTSIDE_OPEN);
	unknown = outside_emit_value(p);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	uint32_t is_hit = ebpf_jump_imm(p, BPF_JNE, R1, OUTSIDE_OPEN);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	ebpf_land(p, is_hit);
	ebpf_land(p, unknown);
	outside_emit_count(p, OUTSIDE_COUNT_STALLS);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, TRAP, TRAP_AT(stalls), R1);
}

/* A change whose trap has not come yet: it takes some microseconds from the access to here. */
static void emit_wait_for_trap(struct ebpf *p)
{
	uint32_t unknown = outside_emit_value(p);

	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	uint32_t is_same = ebpf_jump(p, BPF_JEQ, R0, R1);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_alu_imm(p, BPF_ADD, R0, TRAP_NS);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
	emit_wait(p, OUTSIDE_OPEN, OUTSIDE_OPEN);
	ebpf_land(p, is_same);
	ebpf_land(p, unknown);
}

/* The other thread is at its site: its access follows when the kernel has stepped over it. */
static void emit_wait_for_step(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	uint32_t is_alone = ebpf_jump_imm(p, BPF_JNE, R1, OUTSIDE_HIT);
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_by_sites));
	uint32_t is_watched = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_alu_imm(p, BPF_ADD, R0, TRAP_NS);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
	uint32_t begin = p->count;
	ebpf_emit(p, MAY_GOTO, 0, 0, 0, 0);
	uint32_t unknown = outside_emit_value(p);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	uint32_t is_done = ebpf_jump(p, BPF_JNE, R0, R1);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_UNTIL);
	uint32_t is_over = ebpf_jump(p, BPF_JGE, R0, R1);
	uint32_t again = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land_at(p, again, begin);
	ebpf_land(p, begin);
	ebpf_land(p, unknown);
	ebpf_land(p, is_done);
	ebpf_land(p, is_over);
	ebpf_land(p, is_watched);
	ebpf_land(p, is_alone);
}

/* Without a watch, and if nothing happened, there is nothing for the command to do. */
static void emit_free_if_still(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_by_sites));
	uint32_t is_watched = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	ebpf_load_mem(p, BPF_DW, R2, SLOT, SLOT_AT(after));
	uint32_t is_changed = ebpf_jump(p, BPF_JNE, R1, R2);
	outside_emit_exchange(p, OUTSIDE_OVER, OUTSIDE_FREE);
	uint32_t is_hit = ebpf_jump_imm(p, BPF_JNE, R0, OUTSIDE_OVER);
	outside_emit_end(p);
	ebpf_land(p, is_hit);
	ebpf_land(p, is_changed);
	ebpf_land(p, is_watched);
}

static void emit_close(struct ebpf *p, const struct outside_maps *maps)
{
	outside_emit_exchange(p, OUTSIDE_OPEN, OUTSIDE_OVER);
	ebpf_store(p, BPF_DW, R10, AT_STATE, R0);
	uint32_t unknown = outside_emit_value(p);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(after), R0);
	ebpf_land(p, unknown);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_STATE);
	uint32_t is_alone = ebpf_jump_imm(p, BPF_JEQ, R1, OUTSIDE_OPEN);
	ebpf_mov(p, TRAP, SLOT);
	ebpf_alu_imm(p, BPF_ADD, TRAP, SLOT_AT(first));
	outside_emit_side(p, TRAP);
	ebpf_land(p, is_alone);
	emit_pay(p);
	emit_free_if_still(p);
	ebpf_mov(p, TRAP, SLOT);
	ebpf_alu_imm(p, BPF_ADD, TRAP, SLOT_AT(first));
	outside_emit_side_ends(p, TRAP);
	outside_emit_wake(p, maps);
}

static void emit_site(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, CONTEXT, R1);
	outside_emit_process(p, maps);
	ebpf_load_map_value(p, SHARED, maps->shared_fd, 0);
	ebpf_load_map_value(p, SLOT, maps->shared_fd, (uint32_t)SHARED_AT(slot));
	emit_trap(p, maps);
	emit_note_site(p, maps);
	emit_count_hit(p, maps);
	emit_see_others(p);
	emit_address(p);
	emit_meet(p);
	emit_draw(p, maps);
	emit_end_if_own_stack(p);
	emit_length(p);
	emit_ask(p, maps);
	emit_wait(p, OUTSIDE_ASKED, OUTSIDE_ARMING);
	emit_end_unless_armed(p, maps);
	emit_open(p);
	emit_wait(p, OUTSIDE_OPEN, OUTSIDE_OPEN);
	emit_wait_for_trap(p);
	emit_wait_for_step(p);
	emit_close(p, maps);
	outside_emit_end(p);
}

int outside_load_site(const struct outside_maps *maps, char *log, uint32_t log_size)
{
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	emit_site(p, maps);
	p->attach_type = UPROBE_MULTI_ATTACH;
	int fd = ebpf_load(p, BPF_PROG_TYPE_KPROBE, log, log_size);
	free(p);
	return fd;
}
