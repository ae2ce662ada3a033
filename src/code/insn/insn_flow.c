/* SPDX-License-Identifier: MIT */
/* insn_flow.c - see insn_flow.h. Beside insn_x86_64.c the only file that knows Zydis. */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

#include "code/insn/insn_flow.h"
#include "code/insn/insn_x86_64.h"
#include "code/insn/insn_zydis.h"

#define OPERANDS 10 /* ZYDIS_MAX_OPERAND_COUNT */

struct view {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[OPERANDS];
};

/* How a mnemonic is treated. */
enum way {
	WAY_COMPUTE,
	WAY_NOTHING,
	WAY_CLEAR,
	WAY_MOVE,
	WAY_SCALAR, /* moves the lowest element, and the others stay if it is between registers */
	WAY_LOW,    /* 8 bytes, lower half */
	WAY_HIGH,
	WAY_REVERSE,
	WAY_LOGIC,
	WAY_LANES,
	WAY_CONDITIONAL,
	WAY_EXCHANGE,
	WAY_SHIFT_UP,
	WAY_SHIFT_DOWN,
	WAY_COPY,
	WAY_FILL,
	WAY_FETCH,
};

static enum way way_of_move(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_MOVNTI:
	case ZYDIS_MNEMONIC_MOVD:
	case ZYDIS_MNEMONIC_MOVQ:
	case ZYDIS_MNEMONIC_VMOVD:
	case ZYDIS_MNEMONIC_VMOVQ:
	case ZYDIS_MNEMONIC_MOVAPS:
	case ZYDIS_MNEMONIC_MOVAPD:
	case ZYDIS_MNEMONIC_MOVUPS:
	case ZYDIS_MNEMONIC_MOVUPD:
	case ZYDIS_MNEMONIC_MOVDQA:
	case ZYDIS_MNEMONIC_MOVDQU:
	case ZYDIS_MNEMONIC_LDDQU:
	case ZYDIS_MNEMONIC_MOVNTDQ:
	case ZYDIS_MNEMONIC_MOVNTDQA:
	case ZYDIS_MNEMONIC_MOVNTPS:
	case ZYDIS_MNEMONIC_MOVNTPD:
	case ZYDIS_MNEMONIC_VMOVAPS:
	case ZYDIS_MNEMONIC_VMOVAPD:
	case ZYDIS_MNEMONIC_VMOVUPS:
	case ZYDIS_MNEMONIC_VMOVUPD:
	case ZYDIS_MNEMONIC_VMOVDQA:
	case ZYDIS_MNEMONIC_VMOVDQU:
	case ZYDIS_MNEMONIC_VMOVDQA32:
	case ZYDIS_MNEMONIC_VMOVDQA64:
	case ZYDIS_MNEMONIC_VMOVDQU8:
	case ZYDIS_MNEMONIC_VMOVDQU16:
	case ZYDIS_MNEMONIC_VMOVDQU32:
	case ZYDIS_MNEMONIC_VMOVDQU64:
	case ZYDIS_MNEMONIC_VLDDQU:
	case ZYDIS_MNEMONIC_VMOVNTDQ:
	case ZYDIS_MNEMONIC_VMOVNTDQA:
	case ZYDIS_MNEMONIC_VMOVNTPS:
	case ZYDIS_MNEMONIC_VMOVNTPD:
		return WAY_MOVE;
	case ZYDIS_MNEMONIC_MOVSS:
	case ZYDIS_MNEMONIC_MOVSD: /* the string instruction has another category */
		return WAY_SCALAR;
	case ZYDIS_MNEMONIC_MOVLPS:
	case ZYDIS_MNEMONIC_MOVLPD:
		return WAY_LOW;
	case ZYDIS_MNEMONIC_MOVHPS:
	case ZYDIS_MNEMONIC_MOVHPD:
		return WAY_HIGH;
	case ZYDIS_MNEMONIC_BSWAP:
	case ZYDIS_MNEMONIC_MOVBE:
		return WAY_REVERSE;
	default:
		return WAY_COMPUTE;
	}
}

static enum way way_of_string(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_MOVSB:
	case ZYDIS_MNEMONIC_MOVSW:
	case ZYDIS_MNEMONIC_MOVSD:
	case ZYDIS_MNEMONIC_MOVSQ:
		return WAY_COPY;
	case ZYDIS_MNEMONIC_STOSB:
	case ZYDIS_MNEMONIC_STOSW:
	case ZYDIS_MNEMONIC_STOSD:
	case ZYDIS_MNEMONIC_STOSQ:
		return WAY_FILL;
	case ZYDIS_MNEMONIC_LODSB:
	case ZYDIS_MNEMONIC_LODSW:
	case ZYDIS_MNEMONIC_LODSD:
	case ZYDIS_MNEMONIC_LODSQ:
		return WAY_FETCH;
	default:
		return WAY_NOTHING;
	}
}

/* Comparisons, and what counts, locks or describes. */
static int is_new(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_PCMPEQB:
	case ZYDIS_MNEMONIC_PCMPEQW:
	case ZYDIS_MNEMONIC_PCMPEQD:
	case ZYDIS_MNEMONIC_PCMPEQQ:
	case ZYDIS_MNEMONIC_PCMPGTB:
	case ZYDIS_MNEMONIC_PCMPGTW:
	case ZYDIS_MNEMONIC_PCMPGTD:
	case ZYDIS_MNEMONIC_PCMPGTQ:
	case ZYDIS_MNEMONIC_PCMPESTRI:
	case ZYDIS_MNEMONIC_PCMPESTRM:
	case ZYDIS_MNEMONIC_PCMPISTRI:
	case ZYDIS_MNEMONIC_PCMPISTRM:
	case ZYDIS_MNEMONIC_VPCMPEQB:
	case ZYDIS_MNEMONIC_VPCMPEQW:
	case ZYDIS_MNEMONIC_VPCMPEQD:
	case ZYDIS_MNEMONIC_VPCMPEQQ:
	case ZYDIS_MNEMONIC_VPCMPGTB:
	case ZYDIS_MNEMONIC_VPCMPGTW:
	case ZYDIS_MNEMONIC_VPCMPGTD:
	case ZYDIS_MNEMONIC_VPCMPGTQ:
	case ZYDIS_MNEMONIC_VPCMPESTRI:
	case ZYDIS_MNEMONIC_VPCMPESTRM:
	case ZYDIS_MNEMONIC_VPCMPISTRI:
	case ZYDIS_MNEMONIC_VPCMPISTRM:
	case ZYDIS_MNEMONIC_CMPPS:
	case ZYDIS_MNEMONIC_CMPPD:
	case ZYDIS_MNEMONIC_CMPSS:
	case ZYDIS_MNEMONIC_VCMPPS:
	case ZYDIS_MNEMONIC_VCMPPD:
	case ZYDIS_MNEMONIC_VCMPSS:
	case ZYDIS_MNEMONIC_VCMPSD:
	case ZYDIS_MNEMONIC_PMOVMSKB:
	case ZYDIS_MNEMONIC_VPMOVMSKB:
	case ZYDIS_MNEMONIC_MOVMSKPS:
	case ZYDIS_MNEMONIC_MOVMSKPD:
	case ZYDIS_MNEMONIC_VMOVMSKPS:
	case ZYDIS_MNEMONIC_VMOVMSKPD:
	case ZYDIS_MNEMONIC_CMPXCHG:
	case ZYDIS_MNEMONIC_CMPXCHG8B:
	case ZYDIS_MNEMONIC_CMPXCHG16B:
	case ZYDIS_MNEMONIC_XADD:
	case ZYDIS_MNEMONIC_CPUID:
	case ZYDIS_MNEMONIC_XGETBV:
	case ZYDIS_MNEMONIC_RDTSC:
	case ZYDIS_MNEMONIC_RDTSCP:
	case ZYDIS_MNEMONIC_RDRAND:
	case ZYDIS_MNEMONIC_RDSEED:
	case ZYDIS_MNEMONIC_LEAVE:
	case ZYDIS_MNEMONIC_ENTER:
	case ZYDIS_MNEMONIC_PUSHFQ:
	case ZYDIS_MNEMONIC_VMOVSS:
	case ZYDIS_MNEMONIC_VMOVSD:
	case ZYDIS_MNEMONIC_VMOVLPS:
	case ZYDIS_MNEMONIC_VMOVLPD:
	case ZYDIS_MNEMONIC_VMOVHPS:
	case ZYDIS_MNEMONIC_VMOVHPD:
	case ZYDIS_MNEMONIC_VZEROALL:
		return 1;
	default:
		return 0;
	}
}

static int is_compare(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_PTEST:
	case ZYDIS_MNEMONIC_VPTEST:
	case ZYDIS_MNEMONIC_VTESTPS:
	case ZYDIS_MNEMONIC_VTESTPD:
	case ZYDIS_MNEMONIC_VZEROUPPER:
		return 1;
	default:
		return 0;
	}
}

static enum way way_of_logic(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_NOT:
	case ZYDIS_MNEMONIC_ANDN:
	case ZYDIS_MNEMONIC_PAND:
	case ZYDIS_MNEMONIC_PANDN:
	case ZYDIS_MNEMONIC_POR:
	case ZYDIS_MNEMONIC_PXOR:
	case ZYDIS_MNEMONIC_ANDPS:
	case ZYDIS_MNEMONIC_ANDPD:
	case ZYDIS_MNEMONIC_ANDNPS:
	case ZYDIS_MNEMONIC_ANDNPD:
	case ZYDIS_MNEMONIC_ORPS:
	case ZYDIS_MNEMONIC_ORPD:
	case ZYDIS_MNEMONIC_XORPS:
	case ZYDIS_MNEMONIC_XORPD:
	case ZYDIS_MNEMONIC_VPAND:
	case ZYDIS_MNEMONIC_VPANDN:
	case ZYDIS_MNEMONIC_VPOR:
	case ZYDIS_MNEMONIC_VPXOR:
	case ZYDIS_MNEMONIC_VANDPS:
	case ZYDIS_MNEMONIC_VANDPD:
	case ZYDIS_MNEMONIC_VORPS:
	case ZYDIS_MNEMONIC_VORPD:
	case ZYDIS_MNEMONIC_VXORPS:
	case ZYDIS_MNEMONIC_VXORPD:
	case ZYDIS_MNEMONIC_VPANDD:
	case ZYDIS_MNEMONIC_VPANDQ:
	case ZYDIS_MNEMONIC_VPANDND:
	case ZYDIS_MNEMONIC_VPANDNQ:
	case ZYDIS_MNEMONIC_VPORD:
	case ZYDIS_MNEMONIC_VPORQ:
	case ZYDIS_MNEMONIC_VPXORD:
	case ZYDIS_MNEMONIC_VPXORQ:
	case ZYDIS_MNEMONIC_PMINUB:
	case ZYDIS_MNEMONIC_PMAXUB:
	case ZYDIS_MNEMONIC_VPMINUB:
	case ZYDIS_MNEMONIC_VPMAXUB:
	case ZYDIS_MNEMONIC_PADDB:
	case ZYDIS_MNEMONIC_PSUBB:
	case ZYDIS_MNEMONIC_VPADDB:
	case ZYDIS_MNEMONIC_VPSUBB:
		return WAY_LOGIC;
	case ZYDIS_MNEMONIC_PADDW:
	case ZYDIS_MNEMONIC_PADDD:
	case ZYDIS_MNEMONIC_PADDQ:
	case ZYDIS_MNEMONIC_PSUBW:
	case ZYDIS_MNEMONIC_PSUBD:
	case ZYDIS_MNEMONIC_PSUBQ:
	case ZYDIS_MNEMONIC_VPADDW:
	case ZYDIS_MNEMONIC_VPADDD:
	case ZYDIS_MNEMONIC_VPADDQ:
	case ZYDIS_MNEMONIC_VPSUBW:
	case ZYDIS_MNEMONIC_VPSUBD:
	case ZYDIS_MNEMONIC_VPSUBQ:
		return WAY_LANES;
	default:
		return WAY_COMPUTE;
	}
}

static enum way way_of(const ZydisDecodedInstruction *z)
{
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_STRINGOP:
		return way_of_string(z->mnemonic);
	case ZYDIS_CATEGORY_CMOV:
		return z->mnemonic >= ZYDIS_MNEMONIC_CMOVB && z->mnemonic <= ZYDIS_MNEMONIC_CMOVZ ?
			       WAY_CONDITIONAL :
			       WAY_CLEAR;
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_RET:
		return WAY_NOTHING;
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_XSAVE:
	case ZYDIS_CATEGORY_XSAVEOPT:
	case ZYDIS_CATEGORY_GATHER:
	case ZYDIS_CATEGORY_AVX2GATHER:
	case ZYDIS_CATEGORY_SCATTER:
		return WAY_CLEAR;
	default:
		break;
	}
	if (is_compare(z->mnemonic))
		return WAY_NOTHING;
	if (is_new(z->mnemonic))
		return WAY_CLEAR;
	if (z->mnemonic == ZYDIS_MNEMONIC_XCHG)
		return WAY_EXCHANGE;
	if (z->mnemonic == ZYDIS_MNEMONIC_SHL)
		return WAY_SHIFT_UP;
	if (z->mnemonic == ZYDIS_MNEMONIC_SHR)
		return WAY_SHIFT_DOWN;
	const enum way way = way_of_move(z->mnemonic);
	return way != WAY_COMPUTE ? way : way_of_logic(z->mnemonic);
}

/* ---- operands ---- */

static struct insn_flow_part general(unsigned int encoding, unsigned int at, unsigned int bytes)
{
	return (struct insn_flow_part){ INSN_FLOW_GENERAL, insn_x86_64_reg(encoding), (uint8_t)at,
					(uint8_t)bytes };
}

static struct insn_flow_part part_of_register(ZydisRegister r)
{
	const struct insn_flow_part nothing = { INSN_FLOW_NOTHING, 0, 0, 0 };

	if (r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15)
		return general(r - ZYDIS_REGISTER_RAX, 0, 8);
	if (r >= ZYDIS_REGISTER_EAX && r <= ZYDIS_REGISTER_R15D)
		return general(r - ZYDIS_REGISTER_EAX, 0, 4);
	if (r >= ZYDIS_REGISTER_AX && r <= ZYDIS_REGISTER_R15W)
		return general(r - ZYDIS_REGISTER_AX, 0, 2);
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BL)
		return general(r - ZYDIS_REGISTER_AL, 0, 1);
	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return general(r - ZYDIS_REGISTER_AH, 1, 1);
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return general(r - ZYDIS_REGISTER_SPL + 4, 0, 1);
	if (r >= ZYDIS_REGISTER_XMM0 && r <= ZYDIS_REGISTER_XMM31)
		return (struct insn_flow_part){ INSN_FLOW_VECTOR,
						(uint8_t)(r - ZYDIS_REGISTER_XMM0), 0, 16 };
	if (r >= ZYDIS_REGISTER_YMM0 && r <= ZYDIS_REGISTER_YMM31)
		return (struct insn_flow_part){ INSN_FLOW_VECTOR,
						(uint8_t)(r - ZYDIS_REGISTER_YMM0), 0, 32 };
	if (r >= ZYDIS_REGISTER_ZMM0 && r <= ZYDIS_REGISTER_ZMM31)
		return (struct insn_flow_part){ INSN_FLOW_VECTOR,
						(uint8_t)(r - ZYDIS_REGISTER_ZMM0), 0, 64 };
	return nothing;
}

/* The stack pointer is an address, never data. */
static struct insn_flow_part part_of(const ZydisDecodedOperand *o, unsigned int memory)
{
	struct insn_flow_part part = { INSN_FLOW_NOTHING, 0, 0, 0 };

	if (o->type == ZYDIS_OPERAND_TYPE_REGISTER)
		part = part_of_register(o->reg.value);
	if (part.file == INSN_FLOW_GENERAL && part.reg == INSN_RSP)
		part.file = INSN_FLOW_NOTHING;
	if (o->type == ZYDIS_OPERAND_TYPE_MEMORY && o->mem.type != ZYDIS_MEMOP_TYPE_AGEN)
		part = (struct insn_flow_part){ INSN_FLOW_MEMORY, (uint8_t)memory, 0,
						(uint8_t)(o->size / 8 <= 64 ? o->size / 8 : 0) };
	return part;
}

static void add_from(struct insn_flow *out, struct insn_flow_part part)
{
	if (part.file && out->from_count < INSN_FLOW_FROM_MAX)
		out->from[out->from_count++] = part;
}

/* What becomes 0 behind the part that is written. */
static unsigned int clears_to(const ZydisDecodedInstruction *z, const struct insn_flow_part *part)
{
	if (part->file == INSN_FLOW_GENERAL)
		return part->bytes == 4 && !part->at ? 8 : 0;
	if (part->file == INSN_FLOW_VECTOR && z->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return 64;
	return 0;
}

static void add_to(const ZydisDecodedInstruction *z, struct insn_flow *out,
		   struct insn_flow_part part)
{
	if (!part.file || out->to_count == INSN_FLOW_TO_MAX)
		return;
	out->clears_to[out->to_count] = (uint8_t)clears_to(z, &part);
	out->to[out->to_count++] = part;
}

static void add_operands(const struct view *v, struct insn_flow *out)
{
	unsigned int memory = 0;

	for (unsigned int i = 0; i < v->insn.operand_count; i++) {
		const ZydisDecodedOperand *o = &v->operands[i];
		const int is_address = o->type == ZYDIS_OPERAND_TYPE_MEMORY &&
				       o->mem.type == ZYDIS_MEMOP_TYPE_AGEN;
		const struct insn_flow_part part = part_of(o, memory);

		memory += o->type == ZYDIS_OPERAND_TYPE_MEMORY && !is_address;
		if (is_address) {
			add_from(out, part_of_register(o->mem.base));
			add_from(out, part_of_register(o->mem.index));
		}
		if (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
			add_from(out, part);
		if (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			add_to(&v->insn, out, part);
	}
}

/* ---- forms ---- */

static int is_same(const struct insn_flow_part *a, const struct insn_flow_part *b)
{
	return a->file == b->file && a->reg == b->reg && a->at == b->at && a->bytes == b->bytes;
}

/* xor, sub and their kind with a register twice: the result is 0. */
static int gives_zero(const struct view *v)
{
	const ZydisDecodedOperand *a = &v->operands[v->insn.operand_count_visible == 3 ? 1 : 0];

	switch (v->insn.mnemonic) {
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_SBB:
	case ZYDIS_MNEMONIC_PXOR:
	case ZYDIS_MNEMONIC_XORPS:
	case ZYDIS_MNEMONIC_XORPD:
	case ZYDIS_MNEMONIC_PSUBB:
	case ZYDIS_MNEMONIC_PSUBW:
	case ZYDIS_MNEMONIC_PSUBD:
	case ZYDIS_MNEMONIC_PSUBQ:
	case ZYDIS_MNEMONIC_VPXOR:
	case ZYDIS_MNEMONIC_VPXORD:
	case ZYDIS_MNEMONIC_VPXORQ:
	case ZYDIS_MNEMONIC_VXORPS:
	case ZYDIS_MNEMONIC_VXORPD:
		return a[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       a[1].type == ZYDIS_OPERAND_TYPE_REGISTER && a[0].reg.value == a[1].reg.value;
	default:
		return 0;
	}
}

static void set_move(const struct view *v, struct insn_flow *out)
{
	if (out->to_count != 1 || out->from_count > 1) {
		out->op = INSN_FLOW_CLEAR;
		return;
	}
	out->op = out->from_count ? INSN_FLOW_MOVE : INSN_FLOW_CLEAR;
	/* 4 or 8 bytes are written, and the rest of the low half becomes 0. */
	switch (v->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOVD:
	case ZYDIS_MNEMONIC_MOVQ:
	case ZYDIS_MNEMONIC_VMOVD:
	case ZYDIS_MNEMONIC_VMOVQ:
		if (out->from[0].file == INSN_FLOW_VECTOR)
			out->from[0].bytes = v->insn.mnemonic == ZYDIS_MNEMONIC_MOVD ||
							     v->insn.mnemonic ==
								     ZYDIS_MNEMONIC_VMOVD ?
						     4 :
						     8;
		if (out->to[0].file == INSN_FLOW_VECTOR)
			out->to[0].bytes = 16;
		break;
	default:
		break;
	}
}

static void set_scalar(const struct view *v, struct insn_flow *out)
{
	const uint8_t bytes = v->insn.mnemonic == ZYDIS_MNEMONIC_MOVSS ? 4 : 8;

	if (out->to_count != 1 || !out->from_count) {
		out->op = INSN_FLOW_CLEAR;
		return;
	}
	out->op = INSN_FLOW_MOVE;
	out->from[0] = out->from[out->from_count - 1];
	out->from_count = 1;
	out->to[0].bytes = 16;
	if (out->from[0].file == INSN_FLOW_VECTOR)
		out->to[0].bytes = bytes;
	out->from[0].bytes = bytes;
}

static void set_half(struct insn_flow *out, uint8_t at)
{
	if (out->to_count != 1 || !out->from_count) {
		out->op = INSN_FLOW_CLEAR;
		return;
	}
	out->op = INSN_FLOW_MOVE;
	out->from[0] = out->from[out->from_count - 1];
	out->from_count = 1;
	if (out->from[0].file == INSN_FLOW_VECTOR)
		out->from[0].at = at;
	if (out->to[0].file == INSN_FLOW_VECTOR)
		out->to[0].at = at;
	out->from[0].bytes = out->to[0].bytes = 8;
}

/* and, or, xor with a number: bytes of it that change nothing leave what is there. */
static int set_number(const struct view *v, struct insn_flow *out)
{
	const ZydisDecodedOperand *o = &v->operands[1];
	const unsigned int bytes = v->operands[0].size / 8;

	if (v->insn.operand_count_visible != 2 || o->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    out->to_count != 1 || out->from_count != 1 || bytes > 8)
		return 0;
	out->op = INSN_FLOW_KEEP;
	for (unsigned int i = 0; i < bytes; i++) {
		const uint8_t value = (uint8_t)(o->imm.value.u >> 8 * i);
		const int is_and = v->insn.mnemonic == ZYDIS_MNEMONIC_AND;
		const int is_or = v->insn.mnemonic == ZYDIS_MNEMONIC_OR;

		if (value == (is_and ? 0xff : 0))
			out->kept |= (uint8_t)(1u << i);
		else if ((is_and && !value) || (is_or && value == 0xff))
			out->zero |= (uint8_t)(1u << i);
	}
	return 1;
}

static void set_shift(const struct view *v, struct insn_flow *out, int is_up)
{
	const ZydisDecodedOperand *o = &v->operands[1];

	out->op = INSN_FLOW_COMPUTE;
	if (o->type != ZYDIS_OPERAND_TYPE_IMMEDIATE || out->to_count != 1 || out->from_count != 1 ||
	    o->imm.value.u % 8 || o->imm.value.u >= v->operands[0].size)
		return;
	out->op = INSN_FLOW_SHIFT;
	out->shift = (int8_t)(o->imm.value.u / 8);
	if (!is_up)
		out->shift = (int8_t)-out->shift;
}

static void set_lanes(const struct view *v, struct insn_flow *out, int is_logic)
{
	out->op = INSN_FLOW_LANES;
	out->lane = is_logic ? 1 : (uint8_t)(v->operands[0].element_size / 8);
	if (!out->lane || out->to_count != 1)
		out->op = INSN_FLOW_COMPUTE;
	for (unsigned int i = 0; i < out->from_count; i++)
		if (out->from[i].bytes != out->to[0].bytes)
			out->op = INSN_FLOW_COMPUTE;
}

static void set_condition(const struct view *v, struct insn_flow *out)
{
	/* The source is the operand that is not also written. */
	out->op = INSN_FLOW_IF;
	out->condition = v->insn.opcode & 0xf;
	if (out->to_count != 1 || !out->from_count)
		out->op = INSN_FLOW_CLEAR;
	out->from[0] = out->from[out->from_count - 1];
	out->from_count = 1;
}

static void set_exchange(struct insn_flow *out)
{
	out->op = out->to_count == 2 && out->to[0].bytes == out->to[1].bytes ? INSN_FLOW_EXCHANGE :
									       INSN_FLOW_CLEAR;
	if (out->to_count == 2 && is_same(&out->to[0], &out->to[1]))
		out->op = INSN_FLOW_NONE;
}

static void set_form(const struct view *v, enum way way, struct insn_flow *out)
{
	switch (way) {
	case WAY_CLEAR:
		out->op = INSN_FLOW_CLEAR;
		break;
	case WAY_MOVE:
		set_move(v, out);
		break;
	case WAY_SCALAR:
		set_scalar(v, out);
		break;
	case WAY_LOW:
		set_half(out, 0);
		break;
	case WAY_HIGH:
		set_half(out, 8);
		break;
	case WAY_REVERSE:
		set_move(v, out);
		if (out->op == INSN_FLOW_MOVE)
			out->op = INSN_FLOW_REVERSE;
		/* What bswap makes of 2 bytes is not defined. */
		if (v->insn.mnemonic == ZYDIS_MNEMONIC_BSWAP && out->to[0].bytes == 2)
			out->op = INSN_FLOW_CLEAR;
		break;
	case WAY_LOGIC:
		if (!set_number(v, out))
			set_lanes(v, out, 1);
		break;
	case WAY_LANES:
		set_lanes(v, out, 0);
		break;
	case WAY_CONDITIONAL:
		set_condition(v, out);
		break;
	case WAY_EXCHANGE:
		set_exchange(out);
		break;
	case WAY_SHIFT_UP:
	case WAY_SHIFT_DOWN:
		set_shift(v, out, way == WAY_SHIFT_UP);
		break;
	case WAY_COPY:
		out->op = INSN_FLOW_COPY;
		break;
	case WAY_FILL:
		out->op = INSN_FLOW_FILL;
		break;
	case WAY_FETCH:
		out->op = INSN_FLOW_FETCH;
		break;
	default:
		out->op = INSN_FLOW_COMPUTE;
	}
}

/* These become new. */
static void set_new(struct insn_flow *out, const uint8_t *regs, uint8_t count)
{
	out->op = INSN_FLOW_CLEAR;
	out->from_count = 0;
	out->to_count = count;
	for (unsigned int i = 0; i < count; i++)
		out->to[i] = (struct insn_flow_part){ INSN_FLOW_GENERAL, regs[i], 0, 8 };
}

int insn_flow_x86_64(const void *bytes, size_t available, struct insn_flow *out)
{
	ZydisDecoderContext context;
	ZydisDecoder decoder;
	struct view v;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(
		    ZydisDecoderDecodeInstruction(&decoder, &context, bytes, available, &v.insn)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&decoder, &context, &v.insn, v.operands,
						     v.insn.operand_count)))
		return -EILSEQ;
	memset(out, 0, sizeof(*out));
	/* The kernel gives a result, and leaves an address and the flags in two others. */
	static const uint8_t of_call[] = { INSN_RAX, INSN_RCX, INSN_R11 };
	/* pause with REX.B is an xchg. */
	static const uint8_t of_pause[] = { INSN_RAX, INSN_R8 };
	const enum way way = way_of(&v.insn);
	if (v.insn.meta.category == ZYDIS_CATEGORY_SYSCALL)
		set_new(out, of_call, 3);
	else if (v.insn.mnemonic == ZYDIS_MNEMONIC_PAUSE && v.insn.raw.rex.B)
		set_new(out, of_pause, 2);
	if (out->op || way == WAY_NOTHING)
		return 0;
	add_operands(&v, out);
	if (!out->to_count)
		return 0;
	set_form(&v, way, out);
	if (gives_zero(&v) || (insn_is_masked(&v.insn) && out->op != INSN_FLOW_NONE))
		out->op = INSN_FLOW_CLEAR;
	return 0;
}
