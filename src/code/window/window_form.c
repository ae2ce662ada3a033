/* SPDX-License-Identifier: MIT */
/*
 * window_form.c - one instruction in the cache of a window.
 *
 * Most are the same bytes. An operand relative to the pc gets another distance, or a register that
 * the instruction does not name, when the cache is more than 2 GB away. Branches become exits, an
 * indirect one looks its target up in place. A call leaves the return address of the original.
 */
#include <errno.h>

#include "code/insn/insn_x86_64.h"
#include "code/insn/relocate.h"
#include "code/window/window_call.h"
#include "code/window/window_emit.h"
#include "code/window/window_translate.h"

#define SAVED_FOR_LOOKUP (WINDOW_SAVED_RAX | WINDOW_SAVED_RCX | WINDOW_SAVED_RDX)
#define POPF 0x9d
#define PUSHF 0x9c

/* The first byte that is not a legacy prefix. */
static unsigned int opcode_after_prefixes(const uint8_t *bytes, unsigned int length)
{
	unsigned int at = 0;

	for (; at < length; at++) {
		switch (bytes[at]) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0x66:
		case 0x67:
		case 0xf0:
		case 0xf2:
		case 0xf3:
			continue;
		default:
			return at;
		}
	}
	return at;
}

static int is_popf(const struct insn *insn, const uint8_t *bytes)
{
	return bytes[insn->length - 1] == POPF &&
	       opcode_after_prefixes(bytes, insn->length) + !!insn->rex + 1u == insn->length;
}

static int is_syscall(const uint8_t *bytes, const struct insn *insn)
{
	const uint8_t *end = bytes + insn->length;

	return insn->length >= 2 && end[-2] == 0x0f && end[-1] == 0x05;
}

/* A register of the first eight that it does not name; INSN_NO_REG: none. */
static unsigned int free_register(const struct insn *insn)
{
	static const uint8_t candidates[] = { INSN_RAX, INSN_RDX, INSN_RCX, INSN_RBX,
					      INSN_RSI, INSN_RDI, INSN_RBP };
	const uint64_t used = insn->reads | insn->writes;

	for (unsigned int i = 0; i < sizeof(candidates); i++)
		if (!(used & 1ull << candidates[i]))
			return candidates[i];
	return INSN_NO_REG;
}

int window_form_refuses(const struct insn *insn, const uint8_t *bytes)
{
	const unsigned int never = INSN_NOT_RELOCATABLE | INSN_FAR | INSN_PRIVILEGED;

	if (insn->flags & never || insn->kind == INSN_TRAP)
		return 1;
	if (insn->kind == INSN_SYSCALL)
		return !is_syscall(bytes, insn);
	if (insn->flags & INSN_PC_RELATIVE)
		return insn->address_bytes != 8 || insn->displacement_bytes != 4 ||
		       free_register(insn) == INSN_NO_REG;
	return 0;
}

/* A store by fs may begin a restartable sequence: the next block looks. */
static int may_begin_sequence(const struct insn *insn)
{
	return insn->memory_count && insn->memory[0].segment == INSN_SEGMENT_FS &&
	       insn->memory[0].access & INSN_WRITE && insn->memory[0].size == 8;
}

int window_form_ends(const struct insn *insn, const uint8_t *bytes)
{
	switch (insn->kind) {
	case INSN_JUMP:
	case INSN_JUMP_CONDITIONAL:
	case INSN_JUMP_INDIRECT:
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
	case INSN_RETURN:
	case INSN_SYSCALL:
		return 1;
	default:
		return may_begin_sequence(insn);
	}
}

/* ---- straight on ---- */

/* The operand's base becomes reg, without a distance. */
static void name_register(const struct insn *insn, uint8_t *bytes, unsigned int reg)
{
	const unsigned int at = opcode_after_prefixes(bytes, insn->length);
	uint8_t *modrm = &bytes[insn->modrm_at];

	if (bytes[at] == 0xc4 || bytes[at] == 0x62 || bytes[at] == 0x8f)
		bytes[at + 1] |=
			0x20; /* the inverted bit that extends the base; 8f: XOP only has it */
	else if (insn->rex)
		bytes[at] &= 0xfe;
	*modrm = (uint8_t)((*modrm & 0x38) | 0x80 | emit_number(reg));
	memset(bytes + insn->displacement_at, 0, 4);
}

static void emit_far_operand(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;
	const unsigned int reg = free_register(insn);
	uint8_t copy[INSN_LENGTH_MAX];

	emit_store(a, emit_number(reg), &a->spill_other);
	emit_constant(a, emit_number(reg), b->pc + b->bytes + (uint64_t)insn->target);
	window_mark_add(b, WINDOW_SAVED_OTHER, reg);
	memcpy(copy, bytes, insn->length);
	/* pop 8f /0 has no bit to be set: its modrm follows at once. */
	if (bytes[opcode_after_prefixes(bytes, insn->length)] == 0x8f && insn->opcode_bytes) {
		copy[insn->modrm_at] =
			(uint8_t)((copy[insn->modrm_at] & 0x38) | 0x80 | emit_number(reg));
		memset(copy + insn->displacement_at, 0, 4);
	} else {
		name_register(insn, copy, reg);
	}
	emit(a, copy, insn->length);
	struct window_mark *mark = window_mark_done(b, insn->length);
	mark->saved = WINDOW_SAVED_OTHER;
	mark->other = (uint8_t)reg;
	emit_load(a, emit_number(reg), &a->spill_other);
}

static void emit_plain(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;
	struct insn_copy copy;

	if (is_popf(insn, bytes)) {
		const uint32_t site =
			window_site_add(b, WINDOW_SITE_POPF, b->pc + b->bytes, b->insns);

		emit_site(a, site);
		a->sites[site].code = a->used;
	}
	if (insn_relocate_x86_64(insn, bytes, b->pc + b->bytes, emit_pc(a), &copy, NULL))
		emit_far_operand(b, insn, bytes);
	else
		emit(a, copy.bytes, copy.length);
}

/* ---- branches ---- */

static void emit_conditional(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;
	const uint64_t next = b->pc + b->bytes + insn->length;
	uint32_t taken;

	if (insn->condition >= INSN_CONDITION_LOOPNE) {
		emit(a, bytes, insn->length - 1u);
		emit(a, "\x02\xeb\x05", 3); /* over a short jump to the long one */
		taken = emit_jump(a, a->used);
	} else {
		emit_1(a, 0x0f);
		emit_1(a, 0x80 | insn->condition);
		emit_4(a, 0);
		taken = a->used - 4;
	}
	const uint32_t not_taken = emit_jump(a, a->used);
	window_emit_exit(b, not_taken, next);
	window_emit_exit(b, taken, b->pc + b->bytes + (uint64_t)insn->target);
}

/* push of a constant beside the code: one store, as a call makes it. */
static void emit_push(struct window_build *b, uint64_t value)
{
	emit(b->area, "\xff\x35", 2);
	b->push_at = b->area->used;
	b->push_value = value;
	emit_4(b->area, 0);
}

static void emit_call(struct window_build *b, const struct insn *insn)
{
	struct window_area *a = b->area;
	const uint64_t pc = b->pc + b->bytes;

	emit_push(b, pc + insn->length);
	struct window_mark *mark = window_mark_done(b, insn->length);
	mark->saved = WINDOW_AT_CALL;
	mark->aux = a->sites_used; /* the exit's, which is next */
	window_emit_exit(b, emit_jump(a, a->used), pc + (uint64_t)insn->target);
}

/* mov target, %rax: the operand of the branch, read by another instruction. */
static void emit_target(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;

	if (insn->target_reg != INSN_NO_REG) {
		const unsigned int reg = emit_number(insn->target_reg);

		emit_1(a, 0x48 | (reg >> 3) << 2);
		emit_1(a, 0x89);
		emit_1(a, 0xc0 | (reg & 7) << 3);
	} else if (insn->flags & INSN_PC_RELATIVE) {
		emit_constant(a, EMIT_RAX, b->pc + b->bytes + (uint64_t)insn->target);
		emit(a, "\x48\x8b\x00", 3);
	} else {
		const unsigned int prefixes = opcode_after_prefixes(bytes, insn->length);

		for (unsigned int i = 0; i < prefixes; i++)
			if (bytes[i] == 0x64 || bytes[i] == 0x65 || bytes[i] == 0x67)
				emit_1(a, bytes[i]);
		emit_1(a, 0x48 | (insn->rex & 3));
		emit_1(a, 0x8b);
		emit_1(a, bytes[insn->modrm_at] & ~0x38u);
		emit(a, bytes + insn->modrm_at + 1, insn->length - insn->modrm_at - 1u);
	}
}

/* Goes where %rax states; the registers are in the area. */
static void emit_lookup(struct window_area *a)
{
	emit(a, "\x0f\xb7\xc8", 3);	/* movzwl %ax, %ecx */
	emit(a, "\x48\x8d\x0c\x09", 4); /* lea (%rcx, %rcx), %rcx */
	emit(a, "\x48\x8d\x15", 3);	/* lea jumps, %rdx */
	emit_field(a, a->jumps, 0);
	emit(a, "\x48\x8d\x14\xca", 4); /* lea (%rdx, %rcx, 8), %rdx */
	emit(a, "\x48\x8b\x0a", 3);	/* mov (%rdx), %rcx */
	emit(a, "\x48\x8d\x0c\x01", 4); /* lea (%rcx, %rax), %rcx */
	emit(a, "\xe3\x05", 2);		/* jrcxz over the jump */
	emit_jump(a, a->miss);
	emit(a, "\x48\x8b\x52\x08", 4); /* mov 8(%rdx), %rdx */
	emit_store(a, EMIT_RDX, &a->resume);
	emit_load(a, EMIT_RAX, &a->spill_rax);
	emit_load(a, EMIT_RCX, &a->spill_rcx);
	emit_load(a, EMIT_RDX, &a->spill_rdx);
	emit(a, "\xff\x25", 2); /* jmp *resume */
	emit_field(a, &a->resume, 0);
}

/* The target has been read. */
static void mark_target(struct window_build *b, const struct insn *insn, uint32_t aux)
{
	window_mark_add(b, SAVED_FOR_LOOKUP | WINDOW_AT_TARGET, insn->kind);
	b->area->marks[b->area->marks_used - 1].aux = aux;
}

static void emit_indirect(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;

	emit_store(a, EMIT_RAX, &a->spill_rax);
	emit_store(a, EMIT_RCX, &a->spill_rcx);
	emit_store(a, EMIT_RDX, &a->spill_rdx);
	window_mark_add(b, SAVED_FOR_LOOKUP, 0);
	uint32_t bytes_popped = 8;
	if (insn->kind == INSN_RETURN) {
		if (insn->immediate_bytes == 2)
			bytes_popped += bytes[insn->immediate_at] |
					(uint32_t)bytes[insn->immediate_at + 1] << 8;
		emit(a, "\x48\x8b\x04\x24", 4); /* mov (%rsp), %rax */
		mark_target(b, insn, bytes_popped);
		emit(a, "\x48\x8d\xa4\x24", 4); /* lea bytes_popped(%rsp), %rsp */
		emit_4(a, bytes_popped);
	} else {
		emit_target(b, insn, bytes);
		mark_target(b, insn, insn->length);
	}
	if (insn->kind == INSN_CALL_INDIRECT)
		emit_push(b, b->pc + b->bytes + insn->length);
	window_mark_done(b, insn->length)->saved = SAVED_FOR_LOOKUP | WINDOW_AT_LOOKUP;
	emit_lookup(a);
}

/*
 * The instruction behind a system call that the thread executes natively runs natively too: hooks
 * do not see it, and it sees the trap flag.
 */
static uint32_t can_step(const struct window_build *b, const struct insn *insn)
{
	const struct window_hooks *hooks = &b->area->request.hooks;
	const unsigned int at = b->bytes + insn->length;
	struct insn next;

	if (insn_decode_x86_64(b->text + at, b->readable - at, &next) ||
	    window_form_refuses(&next, b->text + at) || is_popf(&next, b->text + at) ||
	    b->text[at + next.length - 1u] == PUSHF || next.kind == INSN_SYSCALL ||
	    b->pc + at == b->end_pc)
		return 0;
	if (hooks->choose && next.memory_count)
		return 0;
	return hooks->block && next.kind != INSN_OTHER ? 0 : WINDOW_CAN_STEP;
}

/* The kernel leaves the address behind the copy in rcx. */
static void emit_syscall(struct window_build *b, const struct insn *insn)
{
	struct window_area *a = b->area;
	const uint64_t next = b->pc + b->bytes + insn->length;
	const uint32_t before = window_site_add(b, WINDOW_SITE_CALL, b->pc + b->bytes,
						b->insns | can_step(b, insn));

	emit_site(a, before);
	a->sites[before].code = a->used;
	emit(a, "\x0f\x05", 2);
	window_mark_done(b, insn->length)->saved = WINDOW_AT_SYSCALL;
	emit_constant(a, EMIT_RCX, next);
	window_mark_done(b, insn->length);
	const uint32_t after = window_site_add(b, WINDOW_SITE_CALLED, next, 0);
	emit_site(a, after);
	a->sites[after].code = a->used;
	window_emit_exit(b, emit_jump(a, a->used), next);
}

void window_form_emit(struct window_build *b, const struct insn *insn, const uint8_t *bytes)
{
	struct window_area *a = b->area;
	const uint64_t pc = b->pc + b->bytes;

	b->is_ended = 1;
	switch (insn->kind) {
	case INSN_CALL:
		emit_call(b, insn);
		break;
	case INSN_JUMP:
		window_emit_exit(b, emit_jump(a, a->used), pc + (uint64_t)insn->target);
		break;
	case INSN_JUMP_CONDITIONAL:
		emit_conditional(b, insn, bytes);
		break;
	case INSN_JUMP_INDIRECT:
	case INSN_CALL_INDIRECT:
	case INSN_RETURN:
		emit_indirect(b, insn, bytes);
		break;
	case INSN_SYSCALL:
		emit_syscall(b, insn);
		break;
	default:
		b->is_ended = 0;
		emit_plain(b, insn, bytes);
		/* Ends the block all the same: the next one looks for a sequence. */
		if (may_begin_sequence(insn)) {
			b->is_ended = 1;
			window_mark_done(b, insn->length);
			window_emit_exit(b, emit_jump(a, a->used), pc + insn->length);
		}
	}
}
