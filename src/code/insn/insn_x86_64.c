/* SPDX-License-Identifier: MIT */
/*
 * insn_x86_64.c - x86-64 instructions, decoded by Zydis; see insn.h.
 *
 * The only file that knows Zydis. What Zydis leaves to its users is done here: where the stack
 * operands lie, that nop and prefetch access nothing, how far bt reaches, what rep and masks leave
 * untouched. tests/unit/test_insn_run.c compares each such rule with the processor itself.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

#include "code/insn/insn_x86_64.h"
#include "code/insn/insn_zydis.h"

/* Zydis on the stack of a signal handler: its sizes are part of what insn.h promises. */
_Static_assert(sizeof(ZydisDecodedInstruction) + sizeof(ZydisDecodedOperand) * 10 < 1500,
	       "Zydis grew: measure the stack again");
_Static_assert(ZYDIS_MAX_OPERAND_COUNT == 10, "Zydis changed");

struct decoded {
	ZydisDecoderContext context;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

/* The general register that reg is or is part of; ip included. */
static uint8_t general_reg(ZydisRegister reg)
{
	if (reg >= ZYDIS_REGISTER_RAX && reg <= ZYDIS_REGISTER_R15)
		return insn_x86_64_reg(reg - ZYDIS_REGISTER_RAX);
	if (reg >= ZYDIS_REGISTER_EAX && reg <= ZYDIS_REGISTER_R15D)
		return insn_x86_64_reg(reg - ZYDIS_REGISTER_EAX);
	if (reg >= ZYDIS_REGISTER_AX && reg <= ZYDIS_REGISTER_R15W)
		return insn_x86_64_reg(reg - ZYDIS_REGISTER_AX);
	if (reg >= ZYDIS_REGISTER_SPL && reg <= ZYDIS_REGISTER_R15B)
		return insn_x86_64_reg(reg - ZYDIS_REGISTER_SPL + 4);
	if (reg >= ZYDIS_REGISTER_AL && reg <= ZYDIS_REGISTER_BH)
		return insn_x86_64_reg((reg - ZYDIS_REGISTER_AL) & 3);
	if (reg >= ZYDIS_REGISTER_IP && reg <= ZYDIS_REGISTER_RIP)
		return INSN_RIP;
	return INSN_NO_REG;
}

static uint64_t insn_x86_64_mask_of(uint8_t reg)
{
	return reg == INSN_NO_REG ? 0 : 1ull << reg;
}

static uint8_t vector_number(ZydisRegister reg)
{
	if (reg >= ZYDIS_REGISTER_XMM0 && reg <= ZYDIS_REGISTER_XMM31)
		return (uint8_t)(reg - ZYDIS_REGISTER_XMM0);
	if (reg >= ZYDIS_REGISTER_YMM0 && reg <= ZYDIS_REGISTER_YMM31)
		return (uint8_t)(reg - ZYDIS_REGISTER_YMM0);
	if (reg >= ZYDIS_REGISTER_ZMM0 && reg <= ZYDIS_REGISTER_ZMM31)
		return (uint8_t)(reg - ZYDIS_REGISTER_ZMM0);
	return INSN_NO_REG;
}

static int error_of(ZyanStatus status)
{
	return status == ZYDIS_STATUS_NO_MORE_DATA ? -ENODATA : -EILSEQ;
}

/* Knights Corner: its encodings are illegal on every other processor. */
static int is_coprocessor_only(const ZydisDecodedInstruction *z)
{
	return z->meta.isa_ext == ZYDIS_ISA_EXT_KNC || z->meta.isa_ext == ZYDIS_ISA_EXT_KNCE ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

static int decode_head(const void *bytes, size_t available, struct decoded *d)
{
	ZydisDecoder decoder;

	if (available > INSN_LENGTH_MAX)
		available = INSN_LENGTH_MAX;
	/* Zydis states "invalid argument" for an empty buffer. */
	if (!available)
		return -ENODATA;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	const ZyanStatus status =
		ZydisDecoderDecodeInstruction(&decoder, &d->context, bytes, available, &d->insn);
	if (!ZYAN_SUCCESS(status))
		return error_of(status);
	return is_coprocessor_only(&d->insn) ? -EILSEQ : 0;
}

static INSN_NOT_INLINED int decode_all(const void *bytes, size_t available, struct decoded *d)
{
	ZydisDecoder decoder;
	const int err = decode_head(bytes, available, d);

	if (err)
		return err;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	const ZyanStatus status = ZydisDecoderDecodeOperands(&decoder, &d->context, &d->insn,
							     d->operands, d->insn.operand_count);
	return ZYAN_SUCCESS(status) ? 0 : -EILSEQ;
}

static int is_string(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_STRINGOP ||
	       z->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
}

static int has_rep(const ZydisDecodedInstruction *z)
{
	return is_string(z) && (z->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
						 ZYDIS_ATTRIB_HAS_REPNE));
}

static enum insn_kind branch_kind(const struct decoded *d, enum insn_kind direct,
				  enum insn_kind indirect)
{
	/* Only the operands that count are set. */
	const int is_relative = d->insn.operand_count &&
				d->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
				d->operands[0].imm.is_relative;

	return is_relative ? direct : indirect;
}

static enum insn_kind kind_by_mnemonic(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_PAUSE:
		/* With REX.B it is an xchg. */
		return z->raw.rex.B ? INSN_OTHER : INSN_NOP;
	case ZYDIS_MNEMONIC_ENDBR32:
	case ZYDIS_MNEMONIC_ENDBR64:
		return INSN_LANDING;
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
		return INSN_TRAP;
	case ZYDIS_MNEMONIC_MFENCE:
	case ZYDIS_MNEMONIC_LFENCE:
	case ZYDIS_MNEMONIC_SFENCE:
	case ZYDIS_MNEMONIC_SERIALIZE:
		return INSN_FENCE;
	default:
		return INSN_OTHER;
	}
}

static enum insn_kind kind_of(const struct decoded *d)
{
	const ZydisDecodedInstruction *z = &d->insn;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_NOP:
		return INSN_NOP;
	case ZYDIS_CATEGORY_WIDENOP:
		/* 0f18 to 0f1f are nops everywhere; 0f0d with registers is not one on AMD. */
		return z->opcode >= 0x18 && z->opcode <= 0x1f ? INSN_NOP : INSN_OTHER;
	case ZYDIS_CATEGORY_COND_BR:
		/* Zydis counts xbegin and xend among them. */
		return z->mnemonic == ZYDIS_MNEMONIC_XBEGIN ?
			       INSN_OTHER :
			       branch_kind(d, INSN_JUMP_CONDITIONAL, INSN_OTHER);
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (z->mnemonic != ZYDIS_MNEMONIC_JMP)
			return INSN_OTHER; /* xabort and kin */
		return branch_kind(d, INSN_JUMP, INSN_JUMP_INDIRECT);
	case ZYDIS_CATEGORY_CALL:
		return branch_kind(d, INSN_CALL, INSN_CALL_INDIRECT);
	case ZYDIS_CATEGORY_RET:
		return INSN_RETURN;
	case ZYDIS_CATEGORY_INTERRUPT:
		return z->mnemonic == ZYDIS_MNEMONIC_INT && z->raw.imm[0].value.u == 0x80 ?
			       INSN_SYSCALL :
			       INSN_TRAP;
	case ZYDIS_CATEGORY_SYSCALL:
		return INSN_SYSCALL;
	case ZYDIS_CATEGORY_STRINGOP:
	case ZYDIS_CATEGORY_IOSTRINGOP:
		return INSN_STRING;
	default:
		return kind_by_mnemonic(z);
	}
}

/* loope and loopne: f3 makes both the first, f2 both the second, no matter what the opcode. */
static uint8_t condition_of_loop(const ZydisDecodedInstruction *z)
{
	uint8_t condition = z->opcode == 0xe0 ? INSN_CONDITION_LOOPNE : INSN_CONDITION_LOOPE;

	for (unsigned int i = 0; i < z->raw.prefix_count; i++) {
		if (z->raw.prefixes[i].value == 0xf2)
			condition = INSN_CONDITION_LOOPNE;
		if (z->raw.prefixes[i].value == 0xf3)
			condition = INSN_CONDITION_LOOPE;
	}
	return condition;
}

static uint8_t condition_of(const ZydisDecodedInstruction *z)
{
	switch (z->opcode) {
	case 0xe0:
	case 0xe1:
		return condition_of_loop(z);
	case 0xe2:
		return INSN_CONDITION_LOOP;
	case 0xe3:
		return INSN_CONDITION_RCXZ;
	default:
		return z->opcode & 0xf;
	}
}

/* Names memory without touching it: no watchpoint hits there. */
static int is_hint(const ZydisDecodedInstruction *z)
{
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_PREFETCHWT1:
	case ZYDIS_CATEGORY_CLDEMOTE:
		return 1;
	default:
		return (z->mnemonic >= ZYDIS_MNEMONIC_VGATHERPF0DPD &&
			z->mnemonic <= ZYDIS_MNEMONIC_VGATHERPF1QPS) ||
		       (z->mnemonic >= ZYDIS_MNEMONIC_VSCATTERPF0DPD &&
			z->mnemonic <= ZYDIS_MNEMONIC_VSCATTERPF1QPS);
	}
}

/* To a debug register it is a load of the one byte named. */
static int flushes_line(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_CLFLUSH || z->mnemonic == ZYDIS_MNEMONIC_CLFLUSHOPT ||
	       z->mnemonic == ZYDIS_MNEMONIC_CLWB;
}

static int names_no_access(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_NOP ||
	       z->meta.category == ZYDIS_CATEGORY_WIDENOP || is_hint(z);
}

/* Lanes of a gather or scatter: as many as the wider of index and element leaves room for. */
static void set_gather_lanes(const ZydisDecodedInstruction *z, struct insn_memory *m)
{
	unsigned int index_bits = 64;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_VGATHERDPD:
	case ZYDIS_MNEMONIC_VGATHERDPS:
	case ZYDIS_MNEMONIC_VPGATHERDD:
	case ZYDIS_MNEMONIC_VPGATHERDQ:
	case ZYDIS_MNEMONIC_VSCATTERDPD:
	case ZYDIS_MNEMONIC_VSCATTERDPS:
	case ZYDIS_MNEMONIC_VPSCATTERDD:
	case ZYDIS_MNEMONIC_VPSCATTERDQ:
		index_bits = 32;
		break;
	default:
		break;
	}
	const unsigned int element_bits = m->lane_bytes * 8u;
	const unsigned int wider = element_bits > index_bits ? element_bits : index_bits;

	m->index_bits = (uint8_t)index_bits;
	m->index_signed = 1;
	m->lanes = wider ? (uint8_t)(z->avx.vector_length / wider) : 0;
	m->flags |= INSN_MEM_LANES | INSN_MEM_CONDITIONAL;
}

int insn_is_masked(const ZydisDecodedInstruction *z)
{
	if (z->avx.mask.mode > ZYDIS_MASK_MODE_DISABLED && z->avx.mask.reg != ZYDIS_REGISTER_K0 &&
	    z->avx.mask.reg != ZYDIS_REGISTER_NONE)
		return 1;
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_MASKMOVQ:
	case ZYDIS_MNEMONIC_VMASKMOVPS:
	case ZYDIS_MNEMONIC_VMASKMOVPD:
	case ZYDIS_MNEMONIC_VPMASKMOVD:
	case ZYDIS_MNEMONIC_VPMASKMOVQ:
		return 1;
	default:
		return 0;
	}
}

static void set_size(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o,
		     struct insn_memory *m)
{
	m->size = flushes_line(z) ? 1 : o->size / 8;
	m->lane_bytes = (uint8_t)(o->element_size / 8 <= 16 ? o->element_size / 8 : 0);
	if (o->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
		set_gather_lanes(z, m);
	} else if (insn_is_masked(z)) {
		m->flags |= INSN_MEM_CONDITIONAL;
		m->lanes = (uint8_t)o->element_count;
	}
	if (o->mem.type == ZYDIS_MEMOP_TYPE_MIB || z->meta.category == ZYDIS_CATEGORY_AMX_TILE)
		m->flags |= INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN;
	/* The tile configuration is an ordinary operand of 64 bytes. */
	if (z->mnemonic == ZYDIS_MNEMONIC_LDTILECFG || z->mnemonic == ZYDIS_MNEMONIC_STTILECFG) {
		m->flags &= (uint16_t) ~(INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN);
		m->size = 64;
	}
	if (z->meta.category == ZYDIS_CATEGORY_XSAVE || z->meta.category == ZYDIS_CATEGORY_XSAVEOPT)
		m->flags |= INSN_MEM_SIZE_UNKNOWN | INSN_MEM_CONDITIONAL;
	if (m->flags & INSN_MEM_SIZE_UNKNOWN)
		m->size = 0;
}

static int is_bit_test(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_BT || z->mnemonic == ZYDIS_MNEMONIC_BTC ||
	       z->mnemonic == ZYDIS_MNEMONIC_BTR || z->mnemonic == ZYDIS_MNEMONIC_BTS;
}

/* Where it differs from the registers before: see insn.h, struct insn_memory. */
static void adjust_for_stack(const struct decoded *d, const ZydisDecodedOperand *o,
			     struct insn_memory *m)
{
	const ZydisInstructionCategory category = d->insn.meta.category;
	const int pushes = category == ZYDIS_CATEGORY_PUSH || category == ZYDIS_CATEGORY_CALL;

	if (m->base != INSN_RSP)
		return;
	if (o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && pushes)
		m->displacement = -(int64_t)m->size;
	/* pop into memory computes its address with the stack pointer already raised. */
	if (o->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT && category == ZYDIS_CATEGORY_POP)
		m->displacement += m->size;
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_ENTER) {
		const unsigned int level = (unsigned int)d->insn.raw.imm[1].value.u & 31;

		m->size *= 1 + level;
		m->displacement = -(int64_t)m->size;
	}
}

static void set_repeat(const ZydisDecodedInstruction *z, struct insn_memory *m)
{
	if (has_rep(z))
		m->flags |= INSN_MEM_REPEATS | INSN_MEM_CONDITIONAL;
}

/* Near branches with prefix 66: Intel ignores it, AMD takes 16 bits of distance and target. */
static int has_vendor_width(const ZydisDecodedInstruction *z)
{
	return (z->meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR ||
		z->meta.branch_type == ZYDIS_BRANCH_TYPE_SHORT ||
		z->meta.category == ZYDIS_CATEGORY_RET) &&
	       (z->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) && !z->raw.rex.W;
}

/*
 * Zydis reports the larger size; here another maker's processor accesses less of it. AMD takes 16
 * bits of near branches with prefix 66, and ignores REX.W for far pointers. Intel reads 2 bytes for
 * movsxd with prefix 66.
 */
static int has_vendor_size(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MOVSXD:
		return z->operand_width == 16;
	case ZYDIS_MNEMONIC_LSS:
	case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS:
		return z->raw.rex.W;
	default:
		return has_vendor_width(z) ||
		       (z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR && z->raw.rex.W);
	}
}

static void set_access(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o,
		       struct insn_memory *m)
{
	if (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
		m->access |= INSN_READ;
	if (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
		m->access |= INSN_WRITE;
	/* Zydis reports no action for tables of bounds. */
	if (o->mem.type == ZYDIS_MEMOP_TYPE_MIB)
		m->access = z->mnemonic == ZYDIS_MNEMONIC_BNDSTX ? INSN_WRITE : INSN_READ;
	if (o->actions & (ZYDIS_OPERAND_ACTION_CONDREAD | ZYDIS_OPERAND_ACTION_CONDWRITE))
		m->flags |= INSN_MEM_CONDITIONAL;
	/* A cmpxchg that fails writes the old value back, so that memory sees a write always;
	 * the value may be the same. The bounds of MPX are nops where it was taken out. */
	if (z->meta.isa_ext == ZYDIS_ISA_EXT_MPX || has_vendor_size(z))
		m->flags |= INSN_MEM_CONDITIONAL;
}

static void set_memory(const struct decoded *d, const ZydisDecodedOperand *o, struct insn_memory *m)
{
	const ZydisDecodedInstruction *z = &d->insn;

	memset(m, 0, sizeof(*m));
	set_access(z, o, m);
	m->base = general_reg(o->mem.base);
	m->index = general_reg(o->mem.index);
	m->scale = m->index == INSN_NO_REG ? 0 : o->mem.scale;
	m->index_bits = m->index == INSN_NO_REG ? 0 : 64;
	m->bit_reg = INSN_NO_REG;
	m->displacement = o->mem.disp.value;
	if (o->mem.segment == ZYDIS_REGISTER_FS)
		m->segment = INSN_SEGMENT_FS;
	else if (o->mem.segment == ZYDIS_REGISTER_GS)
		m->segment = INSN_SEGMENT_GS;
	if (o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)
		m->flags |= INSN_MEM_IMPLICIT;
	if (z->address_width == 32 && o->mem.base != ZYDIS_REGISTER_RSP)
		m->flags |= INSN_MEM_ADDRESS_32;
	if (o->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
		m->index = vector_number(o->mem.index);
		m->scale = o->mem.scale;
	}
	if (m->base == INSN_RIP)
		m->displacement += z->length;
	set_size(z, o, m);
	set_repeat(z, m);
	adjust_for_stack(d, o, m);
	if (z->mnemonic == ZYDIS_MNEMONIC_XLAT) {
		m->index = INSN_RAX;
		m->scale = 1;
		m->index_bits = 8;
	}
	if (is_bit_test(z) && d->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER) {
		m->flags |= INSN_MEM_BIT_INDEX;
		m->bit_reg = general_reg(d->operands[1].reg.value);
		m->bit_bits = (uint8_t)d->operands[1].size;
	}
}

static void add_memory(struct insn *out, const struct insn_memory *m)
{
	if (out->memory_count == INSN_MEMORY_MAX) {
		out->flags |= INSN_MORE_MEMORY;
		return;
	}
	out->memory[out->memory_count++] = *m;
}

/* enter with a nesting level copies frame pointers from below the old rbp. */
static void add_enter_display(const struct decoded *d, struct insn *out)
{
	const unsigned int level = (unsigned int)d->insn.raw.imm[1].value.u & 31;

	if (d->insn.mnemonic != ZYDIS_MNEMONIC_ENTER || level < 2)
		return;
	const uint32_t bytes = (level - 1) * (d->insn.operand_width / 8u);
	const struct insn_memory m = {
		.access = INSN_READ,
		.base = INSN_RBP,
		.index = INSN_NO_REG,
		.bit_reg = INSN_NO_REG,
		.flags = INSN_MEM_IMPLICIT,
		.size = bytes,
		.displacement = -(int64_t)bytes,
	};
	add_memory(out, &m);
}

/* Zydis names only the register. */
static void add_clzero(const struct decoded *d, struct insn *out)
{
	if (d->insn.mnemonic != ZYDIS_MNEMONIC_CLZERO)
		return;
	const struct insn_memory m = {
		.access = INSN_WRITE,
		.base = INSN_RAX,
		.index = INSN_NO_REG,
		.bit_reg = INSN_NO_REG,
		.flags = INSN_MEM_IMPLICIT | INSN_MEM_ALIGNED_DOWN,
		.size = 64,
	};
	add_memory(out, &m);
}

static INSN_NOT_INLINED void set_memories(const struct decoded *d, struct insn *out)
{
	if (names_no_access(&d->insn))
		return;
	for (unsigned int i = 0; i < d->insn.operand_count; i++) {
		const ZydisDecodedOperand *o = &d->operands[i];
		struct insn_memory m;

		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || o->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
			continue;
		set_memory(d, o, &m);
		add_memory(out, &m);
	}
	add_enter_display(d, out);
	add_clzero(d, out);
}

/*
 * They leave their register as it was when they find nothing, or are nops without shadow stack;
 * Zydis does not report it.
 */
static int may_keep_register(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_BSF || z->mnemonic == ZYDIS_MNEMONIC_BSR ||
	       z->mnemonic == ZYDIS_MNEMONIC_LAR || z->mnemonic == ZYDIS_MNEMONIC_LSL ||
	       z->mnemonic == ZYDIS_MNEMONIC_RDSSPD;
}

static void set_register(const struct decoded *d, const ZydisDecodedOperand *o, struct insn *out)
{
	const uint64_t mask = insn_x86_64_mask_of(general_reg(o->reg.value));

	if (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
		out->reads |= mask;
	if (!(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return;
	out->writes |= mask;
	if (o->reg.value >= ZYDIS_REGISTER_EAX && o->reg.value <= ZYDIS_REGISTER_R15D &&
	    !(o->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) && !may_keep_register(&d->insn))
		out->clears_upper |= mask;
}

static INSN_NOT_INLINED void set_registers(const struct decoded *d, struct insn *out)
{
	for (unsigned int i = 0; i < d->insn.operand_count; i++) {
		const ZydisDecodedOperand *o = &d->operands[i];

		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER)
			set_register(d, o, out);
		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		out->reads |= insn_x86_64_mask_of(general_reg(o->mem.base));
		out->reads |= insn_x86_64_mask_of(general_reg(o->mem.index));
	}
	/* Zydis forgets that cmps, scas, ins and outs step, and that xlat has an index. */
	if (is_string(&d->insn))
		for (unsigned int i = 0; i < out->memory_count; i++)
			out->writes |= insn_x86_64_mask_of(out->memory[i].base);
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_XLAT)
		out->reads |= 1ull << INSN_RAX;
	/* pause with REX.B: xchg. */
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_PAUSE && d->insn.raw.rex.B)
		out->reads = out->writes = 1ull << INSN_RAX | 1ull << INSN_R8;
}

static INSN_NOT_INLINED void set_flags(const struct decoded *d, struct insn *out)
{
	const ZydisDecodedInstruction *z = &d->insn;
	const ZydisAccessedFlags *flags = z->cpu_flags;
	const int has_memory_write = out->memory_count && (out->memory[0].access & INSN_WRITE);

	if (z->attributes & ZYDIS_ATTRIB_HAS_LOCK)
		out->flags |= INSN_ATOMIC;
	if (z->mnemonic == ZYDIS_MNEMONIC_XCHG && has_memory_write)
		out->flags |= INSN_ATOMIC;
	if (flags && flags->tested)
		out->flags |= INSN_READS_FLAGS;
	if (flags && (flags->modified | flags->set_0 | flags->set_1 | flags->undefined))
		out->flags |= INSN_WRITES_FLAGS;
	if (has_rep(z))
		out->flags |= INSN_REPEATS;
	if (z->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
		out->flags |= INSN_PRIVILEGED;
	if (z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		out->flags |= INSN_FAR;
	if (is_hint(z))
		out->flags |= INSN_HINT;
	if (z->attributes & (ZYDIS_ATTRIB_XMM_STATE_CR | ZYDIS_ATTRIB_XMM_STATE_CW |
			     ZYDIS_ATTRIB_FPU_STATE_CR | ZYDIS_ATTRIB_FPU_STATE_CW))
		out->flags |= INSN_VECTOR;
	if (z->avx.vector_length)
		out->flags |= INSN_VECTOR;
	if (z->mnemonic == ZYDIS_MNEMONIC_XBEGIN || z->mnemonic == ZYDIS_MNEMONIC_SYSENTER ||
	    has_vendor_width(z))
		out->flags |= INSN_NOT_RELOCATABLE;
}

/* What the instruction names relative to itself. */
static void set_target(const struct decoded *d, struct insn *out)
{
	const ZydisDecodedInstruction *z = &d->insn;

	for (unsigned int i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *o = &d->operands[i];

		if (o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o->imm.is_relative) {
			out->flags |= INSN_RELATIVE_BRANCH;
			out->target = o->imm.value.s + z->length;
		}
		if (o->type == ZYDIS_OPERAND_TYPE_MEMORY && general_reg(o->mem.base) == INSN_RIP) {
			out->flags |= INSN_PC_RELATIVE;
			out->target = o->mem.disp.value + z->length;
		}
	}
	if (out->kind != INSN_JUMP_INDIRECT && out->kind != INSN_CALL_INDIRECT)
		return;
	if (d->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->target_reg = general_reg(d->operands[0].reg.value);
}

static void set_stack_change(const struct decoded *d, struct insn *out)
{
	const ZydisDecodedInstruction *z = &d->insn;
	/* The implicit operand is the last one that push, pop, call and ret have. */
	const struct insn_memory *m = out->memory_count ? &out->memory[out->memory_count - 1] :
							  NULL;
	int64_t change = 0;

	if (!(out->writes & 1ull << INSN_RSP) || !m || !(m->flags & INSN_MEM_IMPLICIT) ||
	    m->base != INSN_RSP || (out->flags & INSN_FAR) || has_vendor_width(z))
		return;
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_CALL:
		change = -(int64_t)m->size;
		break;
	case ZYDIS_CATEGORY_POP:
		if (z->operand_count && d->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    d->operands[0].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
		    general_reg(d->operands[0].reg.value) == INSN_RSP)
			return; /* pop %rsp */
		change = m->size;
		break;
	case ZYDIS_CATEGORY_RET:
		if (z->mnemonic != ZYDIS_MNEMONIC_RET)
			return; /* iret */
		change = (int64_t)m->size + (int64_t)z->raw.imm[0].value.u;
		break;
	default:
		return;
	}
	out->flags |= INSN_CHANGES_SP;
	out->sp_change = (int32_t)change;
}

/* Where the parts are, for code that copies or executes the instruction. */
static void set_layout(const ZydisDecodedInstruction *z, struct insn *out)
{
	const int is_legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;

	out->operand_bytes = z->operand_width / 8;
	out->address_bytes = z->address_width / 8;
	out->rex = z->raw.rex.offset || (z->attributes & ZYDIS_ATTRIB_HAS_REX) ?
			   (uint8_t)(0x40 | z->raw.rex.W << 3 | z->raw.rex.R << 2 |
				     z->raw.rex.X << 1 | z->raw.rex.B) :
			   0;
	out->opcode_at = z->raw.prefix_count;
	out->opcode_bytes = 0;
	if (is_legacy)
		out->opcode_bytes = z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT ? 1 :
				    z->opcode_map == ZYDIS_OPCODE_MAP_0F      ? 2 :
										3;
	out->modrm_at = z->attributes & ZYDIS_ATTRIB_HAS_MODRM ? z->raw.modrm.offset : 0;
	out->displacement_at = z->raw.disp.offset;
	out->displacement_bytes = z->raw.disp.size / 8;
	out->immediate_at = z->raw.imm[0].offset;
	out->immediate_bytes = z->raw.imm[0].size / 8;
}

int insn_decode_x86_64(const void *bytes, size_t available, struct insn *out)
{
	struct decoded d;
	const int err = decode_all(bytes, available, &d);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	out->arch = INSN_X86_64;
	out->length = d.insn.length;
	out->kind = (uint8_t)kind_of(&d);
	out->condition = out->kind == INSN_JUMP_CONDITIONAL ? condition_of(&d.insn) :
							      INSN_CONDITION_NONE;
	out->target_reg = INSN_NO_REG;
	set_memories(&d, out);
	set_registers(&d, out);
	set_flags(&d, out);
	set_target(&d, out);
	set_stack_change(&d, out);
	set_layout(&d.insn, out);
	return 0;
}

int insn_length_x86_64(const void *bytes, size_t available)
{
	struct decoded d;
	const int err = decode_head(bytes, available, &d);

	return err ? err : d.insn.length;
}
