/* SPDX-License-Identifier: MIT */
/*
 * outside_program.c - see outside_program.h.
 *
 * The program at a site runs in the thread, with interrupts on. While it waits, its CPU is
 * occupied. Both loops end by the clock, and by the kernel's own limit of such loops
 * (BPF_MAY_GOTO, Linux commit 011832b97b31, v6.9).
 */
#include "outside/outside_program.h"

#include "base/sys.h"
#include "event/arch_regs.h"
#include "event/uprobe/uprobe_filter.h"
#include "outside/outside_shared.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define CONTEXT R6
#define TRAP R7	  /* at a site: struct outside_trap */
#define SHARED R8 /* struct outside_shared */
#define SLOT R9

/* Below R10. */
enum {
	AT_IDS = -8,
	AT_WORD = -16,
	AT_ADDRESS = -24,
	AT_PART = -32,
	AT_LEN = -40,
	AT_UNTIL = -48,
	AT_BEGAN = -56,
	AT_STACK = -64,
	AT_STATE = -72,
	AT_REGS = -240, /* RECORD_REGS and one that is 0 */
};

#define SHARED_AT(member) ((int16_t)offsetof(struct outside_shared, member))
#define COUNT_AT(which) ((int16_t)(SHARED_AT(counts) + 8 * (which)))
#define SLOT_AT(member) ((int16_t)offsetof(struct outside_slot, member))
#define TRAP_AT(member) ((int16_t)offsetof(struct outside_trap, member))
#define SIDE_AT(member) ((int16_t)offsetof(struct outside_side, member))

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

static void end_program(struct ebpf *p)
{
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

static void outside_count(struct ebpf *p, enum outside_count which)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, SHARED, COUNT_AT(which), R1);
}

/* A jump that is taken: the program counts and ends. */
static void end_counted_if(struct ebpf *p, int op, int dst, int32_t imm, enum outside_count which)
{
	uint32_t ends = ebpf_jump_imm(p, op, dst, imm);
	uint32_t goes_on = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, ends);
	outside_count(p, which);
	end_program(p);
	ebpf_land(p, goes_on);
}

static void end_unless_process(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_current_ids(p, &maps->ids, AT_IDS);
	ebpf_store(p, BPF_DW, R10, AT_IDS, R0);
	ebpf_alu_imm(p, BPF_RSH, R0, 32);
	uint32_t is_ours = ebpf_jump_imm(p, BPF_JEQ, R0, maps->inner_pid);
	end_program(p);
	ebpf_land(p, is_ours);
}

/* R0: 16 bytes of the thread, or NULL. */
static void emit_note(struct ebpf *p, const struct outside_maps *maps, int may_create)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_load_map(p, R1, maps->notes_fd);
	ebpf_mov(p, R2, R0);
	ebpf_mov_imm(p, R3, 0);
	ebpf_mov_imm(p, R4, may_create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	ebpf_call(p, BPF_FUNC_task_storage_get);
}

/* From `from` to `to` in one step; R0 is what was there. */
static void emit_exchange(struct ebpf *p, enum outside_state from, enum outside_state to)
{
	ebpf_mov_imm(p, R0, (int32_t)from);
	ebpf_mov_imm(p, R1, (int32_t)to);
	ebpf_atomic(p, BPF_CMPXCHG, SLOT, SLOT_AT(state), R1);
}

static void emit_wake(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_load_map(p, R1, maps->ring_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, AT_WORD);
	ebpf_mov_imm(p, R3, 8);
	ebpf_mov_imm(p, R4, BPF_RB_FORCE_WAKEUP);
	ebpf_call(p, BPF_FUNC_ringbuf_output);
}

/* R0: the watched bytes. A jump, to be landed, that is taken where they cannot be read. */
static uint32_t emit_value(struct ebpf *p)
{
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, AT_WORD);
	ebpf_mov_imm(p, R2, 8);
	ebpf_load_mem(p, BPF_DW, R3, SLOT, SLOT_AT(part));
	ebpf_alu_imm(p, BPF_AND, R3, -8);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t unknown = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_load_mem(p, BPF_DW, R0, R10, AT_WORD);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(part));
	ebpf_alu_imm(p, BPF_AND, R1, 7);
	ebpf_alu_imm(p, BPF_LSH, R1, 3);
	ebpf_alu(p, BPF_RSH, R0, R1);
	ebpf_load_mem(p, BPF_DW, R2, SLOT, SLOT_AT(part_len));
	ebpf_alu_imm(p, BPF_LSH, R2, 3);
	ebpf_mov_imm(p, R1, 64);
	ebpf_alu(p, BPF_SUB, R1, R2);
	ebpf_alu_imm(p, BPF_AND, R1, 63);
	ebpf_alu(p, BPF_LSH, R0, R1);
	ebpf_alu(p, BPF_RSH, R0, R1);
	return unknown;
}

/* ---- a side ---- */

static void emit_copy_chunk(struct ebpf *p, int side, uint32_t at)
{
	ebpf_mov(p, R1, side);
	ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(offsetof(struct outside_side, stack) + at));
	ebpf_mov_imm(p, R2, RECORD_STACK_CHUNK);
	ebpf_load_mem(p, BPF_DW, R3, R10, AT_STACK);
	ebpf_alu_imm(p, BPF_ADD, R3, (int32_t)at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
}

/* Aligned chunks, so that none lies in two pages, until one is not there. */
static void emit_side_stack(struct ebpf *p, int side)
{
	uint32_t ends[RECORD_STACK_MAX / RECORD_STACK_CHUNK];
	uint32_t n = 0;

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu_imm(p, BPF_AND, R1, -(int32_t)RECORD_STACK_CHUNK);
	ebpf_store(p, BPF_DW, R10, AT_STACK, R1);
	ebpf_store(p, BPF_DW, side, SIDE_AT(stack_at), R1);
	ebpf_store_imm(p, BPF_DW, side, SIDE_AT(stack_len), 0);
	for (uint32_t at = 0; at < RECORD_STACK_MAX; at += RECORD_STACK_CHUNK) {
		emit_copy_chunk(p, side, at);
		ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, side, SIDE_AT(stack_len),
			       (int32_t)(at + RECORD_STACK_CHUNK));
	}
	while (n--)
		ebpf_land(p, ends[n]);
}

/* The register `side` has it, and is one that is kept over calls. */
static void emit_side(struct ebpf *p, int side)
{
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, side, SIDE_AT(time_ns), R0);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_IDS);
	ebpf_store(p, BPF_DW, side, SIDE_AT(pid_tid), R1);
	ebpf_mov(p, R1, side);
	ebpf_alu_imm(p, BPF_ADD, R1, SIDE_AT(thread));
	ebpf_mov_imm(p, R2, 16);
	ebpf_call(p, BPF_FUNC_get_current_comm);
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[i]);
		ebpf_store(p, BPF_DW, side, (int16_t)(SIDE_AT(regs) + 8 * i), R1);
	}
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, ARCH_PT(eflags));
	ebpf_store(p, BPF_DW, side, SIDE_AT(flags), R1);
	emit_side_stack(p, side);
}

static void emit_side_ends(struct ebpf *p, int side)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_mov_imm(p, R0, 0);
	ebpf_atomic(p, BPF_XCHG, side, SIDE_AT(is_whole), R1);
}

/* ---- at a site ---- */

/* TRAP: the row that the cookie states. The same file can be mapped once more, elsewhere. */
static void emit_trap(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, R1, CONTEXT);
	ebpf_call(p, BPF_FUNC_get_attach_cookie);
	uint32_t is_row = ebpf_jump_imm(p, BPF_JLT, R0, OUTSIDE_SITES);
	end_program(p);
	ebpf_land(p, is_row);
	ebpf_alu_imm(p, BPF_MUL, R0, sizeof(struct outside_trap));
	ebpf_load_map_value(p, TRAP, maps->traps_fd, 0);
	ebpf_alu(p, BPF_ADD, TRAP, R0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(place));
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	uint32_t is_there = ebpf_jump(p, BPF_JEQ, R1, R2);
	end_program(p);
	ebpf_land(p, is_there);
}

/* Where the thread is, for its access in the copy of the instruction. */
static void emit_note_site(struct ebpf *p, const struct outside_maps *maps)
{
	emit_note(p, maps, 1);
	uint32_t no_memory = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, TRAP, TRAP_AT(place));
	ebpf_store(p, BPF_DW, R0, 0, R1);
	ebpf_land(p, no_memory);
}

/* Too many hits end the turn: the command takes the traps away. */
static void emit_count_hit(struct ebpf *p, const struct outside_maps *maps)
{
	outside_count(p, OUTSIDE_COUNT_HITS);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, SHARED, SHARED_AT(turn_hits), R1);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(most_hits));
	uint32_t more = ebpf_jump(p, BPF_JNE, R1, R2);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 0);
	emit_wake(p, maps);
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
	end_counted_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_SKIPPED);
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
	emit_wake(p, maps);
	ebpf_land(p, is_known);
	outside_count(p, OUTSIDE_COUNT_EARLY);
	end_program(p);
	ebpf_land(p, has_credit);
}

/*
 * By chance, and less often the more threads came: a fixed rhythm could agree with that of threads
 * that alternate. AT_WORD has the hits of the site.
 */
static void emit_draw(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_load_mem(p, BPF_DW, R1, SHARED, SHARED_AT(is_open));
	end_counted_if(p, BPF_JEQ, R1, 0, OUTSIDE_COUNT_EARLY);
	emit_end_if_spent(p, maps);
	ebpf_call(p, BPF_FUNC_get_prandom_u32);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	ebpf_alu_imm(p, BPF_RSH, R1, CALM_SHIFT);
	ebpf_load_mem(p, BPF_DW, R2, TRAP, TRAP_AT(calm));
	ebpf_alu(p, BPF_ADD, R1, R2);
	ebpf_alu(p, BPF_MOD, R0, R1);
	end_counted_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_SKIPPED);
	emit_end_if_alone(p);
}

/* R0: the value of the register that a member of the trap names. */
static void emit_register(struct ebpf *p, int16_t member)
{
	ebpf_load_mem(p, BPF_DW, R1, TRAP, member);
	uint32_t is_one = ebpf_jump_imm(p, BPF_JLE, R1, OUTSIDE_NO_REG);
	end_program(p);
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
	end_counted_if(p, BPF_JLT, R0, ADDRESS_LEAST, OUTSIDE_COUNT_NO_ADDRESS);
	ebpf_mov(p, R1, R0);
	ebpf_alu_imm(p, BPF_RSH, R1, ADDRESS_BITS);
	end_counted_if(p, BPF_JNE, R1, 0, OUTSIDE_COUNT_NO_ADDRESS);
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
	end_counted_if(p, BPF_JNE, R0, 0, OUTSIDE_COUNT_STACK);
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

static void emit_ask(struct ebpf *p, const struct outside_maps *maps)
{
	emit_exchange(p, OUTSIDE_FREE, OUTSIDE_TAKEN);
	end_counted_if(p, BPF_JNE, R0, OUTSIDE_FREE, OUTSIDE_COUNT_BUSY);
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
	uint32_t unknown = emit_value(p);
	uint32_t known = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, unknown);
	emit_exchange(p, OUTSIDE_TAKEN, OUTSIDE_FREE);
	outside_count(p, OUTSIDE_COUNT_NO_ADDRESS);
	end_program(p);
	ebpf_land(p, known);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	emit_exchange(p, OUTSIDE_TAKEN, OUTSIDE_ASKED);
	emit_wake(p, maps);
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
	emit_exchange(p, OUTSIDE_ASKED, OUTSIDE_LEFT);
	uint32_t left = ebpf_jump_imm(p, BPF_JEQ, R0, OUTSIDE_ASKED);
	emit_exchange(p, OUTSIDE_ARMING, OUTSIDE_LEFT);
	uint32_t is_armed = ebpf_jump_imm(p, BPF_JNE, R0, OUTSIDE_ARMING);
	ebpf_land(p, left);
	outside_count(p, OUTSIDE_COUNT_UNARMED);
	emit_pay(p);
	emit_wake(p, maps);
	end_program(p);
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
	uint32_t unknown = emit_value(p);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	ebpf_land(p, unknown);
	emit_exchange(p, OUTSIDE_ARMED, OUTSIDE_OPEN);
	unknown = emit_value(p);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	uint32_t is_hit = ebpf_jump_imm(p, BPF_JNE, R1, OUTSIDE_OPEN);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(before), R0);
	ebpf_land(p, is_hit);
	ebpf_land(p, unknown);
	outside_count(p, OUTSIDE_COUNT_STALLS);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, TRAP, TRAP_AT(stalls), R1);
}

/* A change whose trap has not come yet: it takes some microseconds from the access to here. */
static void emit_wait_for_trap(struct ebpf *p)
{
	uint32_t unknown = emit_value(p);

	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	uint32_t is_same = ebpf_jump(p, BPF_JEQ, R0, R1);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_alu_imm(p, BPF_ADD, R0, TRAP_NS);
	ebpf_store(p, BPF_DW, R10, AT_UNTIL, R0);
	emit_wait(p, OUTSIDE_OPEN, OUTSIDE_OPEN);
	ebpf_land(p, is_same);
	ebpf_land(p, unknown);
}

static void emit_close(struct ebpf *p, const struct outside_maps *maps)
{
	emit_exchange(p, OUTSIDE_OPEN, OUTSIDE_OVER);
	ebpf_store(p, BPF_DW, R10, AT_STATE, R0);
	uint32_t unknown = emit_value(p);
	ebpf_store(p, BPF_DW, SLOT, SLOT_AT(after), R0);
	ebpf_land(p, unknown);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_STATE);
	uint32_t is_alone = ebpf_jump_imm(p, BPF_JEQ, R1, OUTSIDE_OPEN);
	ebpf_mov(p, TRAP, SLOT);
	ebpf_alu_imm(p, BPF_ADD, TRAP, SLOT_AT(first));
	emit_side(p, TRAP);
	ebpf_land(p, is_alone);
	emit_pay(p);
	ebpf_mov(p, TRAP, SLOT);
	ebpf_alu_imm(p, BPF_ADD, TRAP, SLOT_AT(first));
	emit_side_ends(p, TRAP);
	emit_wake(p, maps);
}

static void emit_site(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, CONTEXT, R1);
	end_unless_process(p, maps);
	ebpf_load_map_value(p, SHARED, maps->shared_fd, 0);
	ebpf_load_map_value(p, SLOT, maps->shared_fd, (uint32_t)SHARED_AT(slot));
	emit_trap(p, maps);
	emit_note_site(p, maps);
	emit_count_hit(p, maps);
	emit_see_others(p);
	emit_draw(p, maps);
	emit_address(p);
	emit_end_if_own_stack(p);
	emit_length(p);
	emit_ask(p, maps);
	emit_wait(p, OUTSIDE_ASKED, OUTSIDE_ARMING);
	emit_end_unless_armed(p, maps);
	emit_open(p);
	emit_wait(p, OUTSIDE_OPEN, OUTSIDE_OPEN);
	emit_wait_for_trap(p);
	emit_close(p, maps);
	end_program(p);
}

/* ---- at the watched bytes ---- */

/* A runtime makes accesses that mean nothing here, and waits by others. */
static void emit_end_if_excluded(struct ebpf *p)
{
	uint32_t ends[OUTSIDE_RANGES];
	uint32_t n = 0;

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_alu_imm(p, BPF_SUB, R1, 1);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(range_count));
	for (uint32_t i = 0; i < OUTSIDE_RANGES; i++) {
		ends[n++] = ebpf_jump_imm(p, BPF_JLE, R2, (int32_t)i);
		ebpf_load_mem(p, BPF_DW, R3, SHARED, (int16_t)(SHARED_AT(ranges) + 16 * i));
		uint32_t is_below = ebpf_jump(p, BPF_JLT, R1, R3);
		ebpf_load_mem(p, BPF_DW, R3, SHARED, (int16_t)(SHARED_AT(ranges) + 16 * i + 8));
		uint32_t is_above = ebpf_jump(p, BPF_JGE, R1, R3);
		outside_count(p, OUTSIDE_COUNT_WATCH_EXCLUDED);
		end_program(p);
		ebpf_land(p, is_below);
		ebpf_land(p, is_above);
	}
	while (n--)
		ebpf_land(p, ends[n]);
}

/* Beside a read only a write counts. It is seen by the value, as race_cpu_events.c has it. */
static void emit_end_if_read_beside_read(struct ebpf *p)
{
	uint32_t unknown = emit_value(p);

	ebpf_store(p, BPF_DW, R10, AT_WORD, R0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(writes));
	uint32_t is_write = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	ebpf_alu(p, BPF_SUB, R0, R1);
	end_counted_if(p, BPF_JEQ, R0, 0, OUTSIDE_COUNT_WATCH_READS);
	ebpf_land(p, is_write);
	ebpf_land(p, unknown);
}

static void emit_watch(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, CONTEXT, R1);
	end_unless_process(p, maps);
	ebpf_load_map_value(p, SHARED, maps->shared_fd, 0);
	ebpf_load_map_value(p, SLOT, maps->shared_fd, (uint32_t)SHARED_AT(slot));
	outside_count(p, OUTSIDE_COUNT_WATCH_HITS);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	end_counted_if(p, BPF_JNE, R1, OUTSIDE_OPEN, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(part));
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, offsetof(struct bpf_perf_event_data, addr));
	ebpf_alu(p, BPF_SUB, R1, R2);
	end_counted_if(p, BPF_JNE, R1, 0, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(ids));
	ebpf_load_mem(p, BPF_DW, R2, R10, AT_IDS);
	ebpf_alu(p, BPF_SUB, R1, R2);
	end_counted_if(p, BPF_JEQ, R1, 0, OUTSIDE_COUNT_WATCH_OWN);
	emit_end_if_excluded(p);
	emit_end_if_read_beside_read(p);
	emit_exchange(p, OUTSIDE_OPEN, OUTSIDE_HIT);
	end_counted_if(p, BPF_JNE, R0, OUTSIDE_OPEN, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_mov(p, R7, SLOT);
	ebpf_alu_imm(p, BPF_ADD, R7, (int32_t)offsetof(struct outside_slot, second));
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	ebpf_store(p, BPF_DW, R7, SIDE_AT(value), R1);
	ebpf_store_imm(p, BPF_DW, R7, SIDE_AT(note), 0);
	emit_note(p, maps, 0);
	uint32_t no_note = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R0, 0);
	ebpf_store(p, BPF_DW, R7, SIDE_AT(note), R1);
	ebpf_land(p, no_note);
	emit_side(p, R7);
	emit_side_ends(p, R7);
	end_program(p);
}

static int load(void (*emit)(struct ebpf *p, const struct outside_maps *maps),
		const struct outside_maps *maps, enum bpf_prog_type type, uint32_t attach,
		char *log, uint32_t log_size)
{
	struct ebpf *p = calloc(1, sizeof(*p));
	int fd = -ENOMEM;

	if (!p)
		return fd;
	emit(p, maps);
	p->attach_type = attach;
	fd = ebpf_load(p, type, log, log_size);
	free(p);
	return fd;
}

int outside_load_site(const struct outside_maps *maps, char *log, uint32_t log_size)
{
	return load(emit_site, maps, BPF_PROG_TYPE_KPROBE, UPROBE_MULTI_ATTACH, log, log_size);
}

int outside_load_watch(const struct outside_maps *maps, char *log, uint32_t log_size)
{
	return load(emit_watch, maps, BPF_PROG_TYPE_PERF_EVENT, 0, log, log_size);
}
