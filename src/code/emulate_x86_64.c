/* SPDX-License-Identifier: MIT */
/* emulate_x86_64.c - see emulate.h. Held to the processor by tests/unit/test_emulate.c. */
#include <errno.h>
#include <string.h>

#include "code/emulate.h"
#include "code/insn_x86_64.h"

#define FLAG_CARRY 1u
#define FLAG_PARITY 4u
#define FLAG_ADJUST 0x10u
#define FLAG_ZERO 0x40u
#define FLAG_SIGN 0x80u
#define FLAG_OVERFLOW 0x800u
#define FLAGS_ARITHMETIC \
	(FLAG_CARRY | FLAG_PARITY | FLAG_ADJUST | FLAG_ZERO | FLAG_SIGN | FLAG_OVERFLOW)

/* The operations of the first 64 opcodes and of 80 to 83, in the processor's order. */
enum operation {
	OP_ADD,
	OP_OR,
	OP_ADC,
	OP_SBB,
	OP_AND,
	OP_SUB,
	OP_XOR,
	OP_CMP,
};

/* One instruction under way; r becomes the caller's registers when all went well. */
struct work {
	const struct insn *insn;
	const uint8_t *bytes;
	const struct insn_memory_access *memory;
	unsigned int size; /* of the operands, bytes */
	struct insn_regs r;
};

static uint64_t mask_of(unsigned int size)
{
	return size == 8 ? ~0ull : (1ull << size * 8) - 1;
}

static int64_t sign_extend(uint64_t value, unsigned int size)
{
	const unsigned int unused = 64 - size * 8;

	return (int64_t)(value << unused) >> unused;
}

/* Without REX the byte registers 4 to 7 are ah, ch, dh and bh. */
static int is_high_byte(const struct work *w, unsigned int encoding, unsigned int size)
{
	return size == 1 && !w->insn->rex && encoding >= 4 && encoding < 8;
}

static uint64_t get(const struct work *w, unsigned int encoding, unsigned int size)
{
	if (is_high_byte(w, encoding, size))
		return w->r.r[insn_x86_64_reg(encoding - 4)] >> 8 & 0xff;
	return w->r.r[insn_x86_64_reg(encoding)] & mask_of(size);
}

/* Writing 32 bits clears the upper half; writing fewer keeps the rest. */
static void set(struct work *w, unsigned int encoding, unsigned int size, uint64_t value)
{
	const int is_high = is_high_byte(w, encoding, size);
	uint64_t *reg = &w->r.r[insn_x86_64_reg(is_high ? encoding - 4 : encoding)];

	if (is_high)
		*reg = (*reg & ~0xff00ull) | (value & 0xff) << 8;
	else if (size >= 4)
		*reg = value & mask_of(size);
	else
		*reg = (*reg & ~mask_of(size)) | (value & mask_of(size));
}

static uint8_t modrm_of(const struct work *w)
{
	return w->bytes[w->insn->modrm_at];
}

static int is_register_form(const struct work *w)
{
	return w->insn->modrm_at && modrm_of(w) >> 6 == 3;
}

static unsigned int reg_of(const struct work *w)
{
	return (modrm_of(w) >> 3 & 7) | (w->insn->rex & 4) << 1;
}

static unsigned int rm_of(const struct work *w)
{
	return (modrm_of(w) & 7) | (w->insn->rex & 1) << 3;
}

/* The register in the low bits of the opcode. */
static unsigned int opcode_reg(const struct work *w, uint8_t opcode)
{
	return (opcode & 7) | (w->insn->rex & 1) << 3;
}

static uint64_t immediate(const struct work *w)
{
	uint64_t value = 0;

	memcpy(&value, w->bytes + w->insn->immediate_at, w->insn->immediate_bytes);
	return (uint64_t)sign_extend(value, w->insn->immediate_bytes);
}

static void set_result_flags(struct work *w, uint64_t result, unsigned int size,
			     uint64_t extra)
{
	w->r.flags &= ~(uint64_t)FLAGS_ARITHMETIC;
	w->r.flags |= extra;
	if (!(__builtin_popcountll(result & 0xff) & 1))
		w->r.flags |= FLAG_PARITY;
	if (!(result & mask_of(size)))
		w->r.flags |= FLAG_ZERO;
	if (result >> (size * 8 - 1) & 1)
		w->r.flags |= FLAG_SIGN;
}

static uint64_t add(struct work *w, uint64_t a, uint64_t b, unsigned int carry,
		    unsigned int size)
{
	const uint64_t result = (a + b + carry) & mask_of(size);
	const unsigned int top = size * 8 - 1;
	uint64_t flags = (a ^ b ^ result) & FLAG_ADJUST;

	if (((a & b) | ((a | b) & ~result)) >> top & 1)
		flags |= FLAG_CARRY;
	if (((a ^ result) & (b ^ result)) >> top & 1)
		flags |= FLAG_OVERFLOW;
	set_result_flags(w, result, size, flags);
	return result;
}

static uint64_t subtract(struct work *w, uint64_t a, uint64_t b, unsigned int borrow,
			 unsigned int size)
{
	const uint64_t result = (a - b - borrow) & mask_of(size);
	const unsigned int top = size * 8 - 1;
	uint64_t flags = (a ^ b ^ result) & FLAG_ADJUST;

	if (((~a & b) | ((~a | b) & result)) >> top & 1)
		flags |= FLAG_CARRY;
	if (((a ^ b) & (a ^ result)) >> top & 1)
		flags |= FLAG_OVERFLOW;
	set_result_flags(w, result, size, flags);
	return result;
}

/* For cmp the result is a: nothing is written back. */
static uint64_t calculate(struct work *w, enum operation operation, uint64_t a,
			  uint64_t b, unsigned int size)
{
	const unsigned int carry = w->r.flags & FLAG_CARRY;
	uint64_t result = a;

	a &= mask_of(size);
	b &= mask_of(size);
	switch (operation) {
	case OP_ADD:
		return add(w, a, b, 0, size);
	case OP_ADC:
		return add(w, a, b, carry, size);
	case OP_SUB:
		return subtract(w, a, b, 0, size);
	case OP_SBB:
		return subtract(w, a, b, carry, size);
	case OP_CMP:
		subtract(w, a, b, 0, size);
		return a;
	case OP_OR:
		result = a | b;
		break;
	case OP_AND:
		result = a & b;
		break;
	default:
		result = a ^ b;
		break;
	}
	set_result_flags(w, result, size, 0);
	return result;
}

static void apply(struct work *w, enum operation operation, unsigned int to,
		  uint64_t value)
{
	const uint64_t result =
		calculate(w, operation, get(w, to, w->size), value, w->size);

	if (operation != OP_CMP)
		set(w, to, w->size, result);
}

static int read_memory(struct work *w, uint64_t address, void *out, size_t bytes)
{
	return w->memory->read(w->memory->context, address, out, bytes);
}

static int push(struct work *w, uint64_t value, unsigned int size)
{
	const uint64_t sp = w->r.r[INSN_RSP] - size;
	const int err = w->memory->write(w->memory->context, sp, &value, size);

	if (!err)
		w->r.r[INSN_RSP] = sp;
	return err;
}

static int pop(struct work *w, uint64_t *value, unsigned int size)
{
	*value = 0;
	const int err = read_memory(w, w->r.r[INSN_RSP], value, size);

	if (!err)
		w->r.r[INSN_RSP] += size;
	return err;
}

/* The stack operand is the last of those that the decoder lists. */
static unsigned int stack_size(const struct work *w)
{
	return w->insn->memory_count ? w->insn->memory[w->insn->memory_count - 1].size :
				       8;
}

static int do_pop(struct work *w, unsigned int to)
{
	const unsigned int size = stack_size(w);
	uint64_t value;
	const int err = pop(w, &value, size);

	if (!err)
		set(w, to, size, value);
	return err;
}

static int do_leave(struct work *w)
{
	w->r.r[INSN_RSP] = w->r.r[INSN_RBP];
	return do_pop(w, 5);
}

/* The address that lea names, from its bytes: nothing is accessed, so insn.memory has it not. */
static uint64_t named_address(const struct work *w)
{
	const struct insn *insn = w->insn;
	const uint8_t modrm = modrm_of(w);
	uint64_t address = 0;

	memcpy(&address, w->bytes + insn->displacement_at, insn->displacement_bytes);
	if (insn->displacement_bytes)
		address = (uint64_t)sign_extend(address, insn->displacement_bytes);
	if ((modrm & 7) == 4) {
		const uint8_t sib = w->bytes[insn->modrm_at + 1];
		const unsigned int index = (sib >> 3 & 7) | (insn->rex & 2) << 2;

		if (index != 4)
			address += get(w, index, 8) << (sib >> 6);
		if ((sib & 7) != 5 || modrm >> 6)
			address += get(w, (sib & 7) | (insn->rex & 1) << 3, 8);
	} else if ((modrm & 7) == 5 && !(modrm >> 6)) {
		address += w->r.r[INSN_RIP] + insn->length;
	} else {
		address += get(w, rm_of(w), 8);
	}
	return address & mask_of(insn->address_bytes);
}

static void exchange(struct work *w, unsigned int a, unsigned int b)
{
	const uint64_t first = get(w, a, w->size);

	set(w, a, w->size, get(w, b, w->size));
	set(w, b, w->size, first);
}

/* 00 to 3f: eight operations in six forms. */
static int do_arithmetic(struct work *w, uint8_t opcode)
{
	const enum operation operation = opcode >> 3 & 7;
	const unsigned int form = opcode & 7;

	if (form < 4 && !is_register_form(w))
		return -EOPNOTSUPP;
	if (form < 2)
		apply(w, operation, rm_of(w), get(w, reg_of(w), w->size));
	else if (form < 4)
		apply(w, operation, reg_of(w), get(w, rm_of(w), w->size));
	else
		apply(w, operation, 0, immediate(w));
	return 0;
}

static int do_test(struct work *w, unsigned int a, uint64_t b)
{
	calculate(w, OP_AND, get(w, a, w->size), b, w->size);
	return 0;
}

/* inc and dec leave the carry alone. */
static int do_step(struct work *w, int down)
{
	const uint64_t carry = w->r.flags & FLAG_CARRY;

	apply(w, down ? OP_SUB : OP_ADD, rm_of(w), 1);
	w->r.flags = (w->r.flags & ~(uint64_t)FLAG_CARRY) | carry;
	return 0;
}

/* f6, f7: the operation is in the middle of the ModRM byte. */
static int do_group3(struct work *w)
{
	const uint64_t value = get(w, rm_of(w), w->size);

	switch (modrm_of(w) >> 3 & 7) {
	case 0:
	case 1:
		return do_test(w, rm_of(w), immediate(w));
	case 2:
		set(w, rm_of(w), w->size, ~value);
		return 0;
	case 3:
		set(w, rm_of(w), w->size, subtract(w, 0, value, 0, w->size));
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* fe, ff without the jumps and calls. */
static int do_group5(struct work *w, uint8_t opcode)
{
	switch (modrm_of(w) >> 3 & 7) {
	case 0:
		return do_step(w, 0);
	case 1:
		return do_step(w, 1);
	case 6:
		return opcode == 0xff ? push(w, get(w, rm_of(w), 8), stack_size(w)) :
					-EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

/* cbw, cwde, cdqe; cwd, cdq, cqo. */
static int do_widen(struct work *w, uint8_t opcode)
{
	if (opcode == 0x98) {
		const unsigned int half = w->size / 2;

		set(w, 0, w->size, (uint64_t)sign_extend(get(w, 0, half), half));
	} else {
		const int64_t value = sign_extend(get(w, 0, w->size), w->size);

		set(w, 2, w->size, (uint64_t)(value >> 63));
	}
	return 0;
}

/* Those with a ModRM byte that names a register. */
static int do_register_form(struct work *w, uint8_t opcode)
{
	if (!is_register_form(w))
		return -EOPNOTSUPP;
	switch (opcode) {
	case 0x63:
		set(w, reg_of(w), w->size, (uint64_t)sign_extend(get(w, rm_of(w), 4), 4));
		return 0;
	case 0x80:
	case 0x81:
	case 0x83:
		apply(w, modrm_of(w) >> 3 & 7, rm_of(w), immediate(w));
		return 0;
	case 0x84:
	case 0x85:
		return do_test(w, rm_of(w), get(w, reg_of(w), w->size));
	case 0x86:
	case 0x87:
		exchange(w, rm_of(w), reg_of(w));
		return 0;
	case 0x88:
	case 0x89:
		set(w, rm_of(w), w->size, get(w, reg_of(w), w->size));
		return 0;
	case 0x8a:
	case 0x8b:
		set(w, reg_of(w), w->size, get(w, rm_of(w), w->size));
		return 0;
	case 0xc6:
	case 0xc7:
		/* xabort and xbegin are here too. */
		if (modrm_of(w) >> 3 & 7)
			return -EOPNOTSUPP;
		set(w, rm_of(w), w->size, immediate(w));
		return 0;
	case 0xf6:
	case 0xf7:
		return do_group3(w);
	case 0xfe:
	case 0xff:
		return do_group5(w, opcode);
	default:
		return -EOPNOTSUPP;
	}
}

static int do_one_byte(struct work *w, uint8_t opcode)
{
	const unsigned int low = opcode_reg(w, opcode);

	if (opcode < 0x40)
		return (opcode & 7) < 6 ? do_arithmetic(w, opcode) : -EOPNOTSUPP;
	switch (opcode & 0xf8) {
	case 0x50:
		return push(w, get(w, low, 8), stack_size(w));
	case 0x58:
		return do_pop(w, low);
	case 0x90:
		exchange(w, 0, low);
		return 0;
	case 0xb0:
	case 0xb8:
		set(w, low, w->size, immediate(w));
		return 0;
	default:
		break;
	}
	switch (opcode) {
	case 0x68:
	case 0x6a:
		return push(w, immediate(w), stack_size(w));
	case 0x8d:
		set(w, reg_of(w), w->size, named_address(w));
		return 0;
	case 0xa8:
	case 0xa9:
		return do_test(w, 0, immediate(w));
	case 0xc9:
		return do_leave(w);
	default:
		return do_register_form(w, opcode);
	}
}

/* cmov writes its register even when the condition fails: 32 bits clear the upper half. */
static void do_cmov(struct work *w, int holds)
{
	set(w, reg_of(w), w->size, get(w, holds ? rm_of(w) : reg_of(w), w->size));
}

static int condition_holds(const struct work *w, uint8_t opcode)
{
	const struct insn as_jump = { .arch = INSN_X86_64,
				      .kind = INSN_JUMP_CONDITIONAL,
				      .condition = opcode & 0xf };

	return insn_branch_taken(&as_jump, &w->r);
}

static int do_two_bytes(struct work *w, uint8_t opcode)
{
	if (!is_register_form(w))
		return -EOPNOTSUPP;
	switch (opcode) {
	case 0x40 ... 0x4f:
		do_cmov(w, condition_holds(w, opcode));
		return 0;
	case 0x90 ... 0x9f:
		set(w, rm_of(w), 1, (uint64_t)condition_holds(w, opcode));
		return 0;
	case 0xb6:
	case 0xb7:
		set(w, reg_of(w), w->size, get(w, rm_of(w), 1 + (opcode & 1)));
		return 0;
	case 0xbe:
	case 0xbf: {
		const unsigned int from = 1 + (opcode & 1);

		set(w, reg_of(w), w->size,
		    (uint64_t)sign_extend(get(w, rm_of(w), from), from));
		return 0;
	}
	default:
		return -EOPNOTSUPP;
	}
}

static int do_other(struct work *w)
{
	const struct insn *insn = w->insn;
	const uint8_t *opcode = w->bytes + insn->opcode_at;
	int err = -EOPNOTSUPP;

	if (insn->flags &
	    (INSN_ATOMIC | INSN_VECTOR | INSN_PRIVILEGED | INSN_NOT_RELOCATABLE))
		return err;
	if (insn->opcode_bytes == 1 && (opcode[0] & 0xfe) == 0x98)
		err = do_widen(w, opcode[0]);
	else if (insn->opcode_bytes == 1)
		err = do_one_byte(w, opcode[0]);
	else if (insn->opcode_bytes == 2)
		err = do_two_bytes(w, opcode[1]);
	if (!err)
		w->r.r[INSN_RIP] += insn->length;
	return err;
}

/* Where an indirect jump or call goes. */
static int indirect_target(struct work *w, uint64_t *target)
{
	uint64_t address;

	if (w->insn->target_reg != INSN_NO_REG) {
		*target = w->r.r[w->insn->target_reg];
		return 0;
	}
	const int err = insn_address(w->insn, 0, &w->r, &address);

	return err ? err : read_memory(w, address, target, 8);
}

static int do_branch(struct work *w)
{
	const struct insn *insn = w->insn;
	const uint64_t next = w->r.r[INSN_RIP] + insn->length;
	uint64_t target = w->r.r[INSN_RIP] + (uint64_t)insn->target;
	int err = 0;

	if (insn->flags & (INSN_FAR | INSN_NOT_RELOCATABLE))
		return -EOPNOTSUPP;
	if (insn->kind == INSN_JUMP_CONDITIONAL && !insn_branch_taken(insn, &w->r))
		target = next;
	if (insn->kind == INSN_JUMP_INDIRECT || insn->kind == INSN_CALL_INDIRECT)
		err = indirect_target(w, &target);
	if (!err && (insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT))
		err = push(w, next, 8);
	/* loop counts whether it jumps or not; jrcxz does not count. */
	if (!err && insn->condition >= INSN_CONDITION_LOOPNE &&
	    insn->condition <= INSN_CONDITION_LOOP)
		set(w, 1, insn->address_bytes, w->r.r[INSN_RCX] - 1);
	w->r.r[INSN_RIP] = target;
	return err;
}

static int do_return(struct work *w)
{
	uint64_t target;

	if ((w->insn->flags & (INSN_FAR | INSN_NOT_RELOCATABLE)) ||
	    !(w->insn->flags & INSN_CHANGES_SP))
		return -EOPNOTSUPP;
	const int err = pop(w, &target, 8);
	if (err)
		return err;
	w->r.r[INSN_RSP] += (uint64_t)w->insn->sp_change - 8;
	w->r.r[INSN_RIP] = target;
	return 0;
}

static int do_kind(struct work *w)
{
	switch (w->insn->kind) {
	case INSN_NOP:
	case INSN_LANDING:
		w->r.r[INSN_RIP] += w->insn->length;
		return 0;
	case INSN_JUMP:
	case INSN_JUMP_CONDITIONAL:
	case INSN_JUMP_INDIRECT:
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
		return do_branch(w);
	case INSN_RETURN:
		return do_return(w);
	case INSN_OTHER:
		return do_other(w);
	default:
		return -EOPNOTSUPP;
	}
}

static int knows_enough(const struct insn *insn, const struct insn_regs *regs)
{
	const uint64_t needed = insn->reads | insn->writes | 1ull << INSN_RIP;

	if (needed & ~regs->known)
		return 0;
	return !(insn->flags & (INSN_READS_FLAGS | INSN_WRITES_FLAGS)) ||
	       (regs->known & INSN_KNOWS_FLAGS);
}

int insn_emulate_x86_64(const struct insn *insn, const void *bytes,
			const struct insn_memory_access *memory, struct insn_regs *regs)
{
	struct work w = {
		.insn = insn,
		.bytes = bytes,
		.memory = memory,
		.size = insn->operand_bytes,
	};

	if (!knows_enough(insn, regs))
		return -ENODATA;
	w.r = *regs;
	const int err = do_kind(&w);
	if (!err)
		*regs = w.r;
	return err;
}

/* Memory that holds zeros and forgets: to ask the emulator without doing anything. */
static int read_nothing(void *context, uint64_t address, void *out, size_t bytes)
{
	memset(out, 0, bytes);
	return 0;
}

static int write_nothing(void *context, uint64_t address, const void *in, size_t bytes)
{
	return 0;
}

int insn_can_emulate_x86_64(const struct insn *insn, const void *bytes)
{
	const struct insn_memory_access nowhere = { read_nothing, write_nothing, NULL };
	struct insn_regs regs = { .known = ~0ull };

	return insn_emulate_x86_64(insn, bytes, &nowhere, &regs) == 0;
}

int insn_stored_x86_64(const struct insn *insn, const void *bytes, const struct insn_regs *regs,
		       uint64_t *out)
{
	struct work w = { .insn = insn, .bytes = bytes };

	if (insn->opcode_bytes != 1 || insn->memory_count != 1 ||
	    insn->memory[0].access != INSN_WRITE || insn->kind != INSN_OTHER)
		return -EOPNOTSUPP;
	if (!knows_enough(insn, regs))
		return -ENODATA;
	w.size = insn->memory[0].size;
	w.r = *regs;
	switch (w.bytes[insn->opcode_at]) {
	case 0x88:
	case 0x89:
		*out = get(&w, reg_of(&w), w.size);
		return 0;
	case 0xc6:
	case 0xc7:
		*out = immediate(&w) & mask_of(w.size);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
