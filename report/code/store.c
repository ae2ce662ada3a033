/* SPDX-License-Identifier: MIT */
/* store.c - see store.h. */
#include "report/code/store.h"

#include "code/insn/insn.h"
#include "report/code/code_sites_priv.h"
#include "report/dwarf/instruction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)

/* By DWARF number. */
static const char *const names[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
				     "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
/* By the number in an instruction. */
static const uint8_t encoded[] = { INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX,
				   INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI };

struct store {
	struct insn insn;
	uint8_t bytes[INSTRUCTION_BYTES_MAX];
	uint64_t address;
	size_t len;
	const char *before;
	const char *why;
};

static int refuse(struct store *st, const char *why)
{
	st->why = why;
	return -EOPNOTSUPP;
}

/* The last instruction of its function that ends there. */
static int find(struct symbols *s, uint64_t end, struct store *st, uint64_t *address)
{
	uint64_t at = code_function_start(s, end - 1, NULL);

	if (!at)
		return -ENOENT;
	for (;; at += st->insn.length) {
		if (at >= end || code_decode(s, at, end, &st->insn))
			return -ENOENT;
		if (at + st->insn.length == end)
			break;
	}
	*address = at;
	return code_bytes(s, at, st->bytes, st->insn.length);
}

/* Empty for an address that the instruction itself has. */
static int write_reaches(struct store *st, uint64_t end, char *out, size_t n)
{
	const struct insn_memory *m = &st->insn.memory[0];
	int used;

	if (m->size != st->len)
		return refuse(st, "it writes more or fewer bytes");
	if (m->segment)
		return refuse(st, "it writes thread-local memory");
	if (m->flags & ~(INSN_MEM_CONDITIONAL | INSN_MEM_IMPLICIT) ||
	    m->flags & INSN_MEM_IMPLICIT || (m->index != INSN_NO_REG && m->index_bits != 64))
		return refuse(st, "its address is not a sum of registers");
	if (m->base == INSN_RIP) {
		uint64_t at = end - st->insn.length + (uint64_t)m->displacement;

		*out = '\0';
		return at == st->address ? 0 : refuse(st, "it writes other bytes than are watched");
	}
	used = snprintf(out, n, "(u64)(%s", m->base == INSN_NO_REG ? "0" : names[m->base]);
	if (m->index != INSN_NO_REG)
		used += snprintf(out + used, n - (size_t)used, " + %s * %u", names[m->index],
				 m->scale);
	snprintf(out + used, n - (size_t)used, " + (%" PRId64 ")) == %#" PRIx64 "u",
		 m->displacement, st->address);
	return 0;
}

/* The register in the middle of the ModRM byte; NULL: it is ah, ch, dh or bh. */
static const char *register_of(const struct store *st)
{
	unsigned int number = (st->bytes[st->insn.modrm_at] >> 3 & 7) | (st->insn.rex & 4) << 1;

	if (st->len == 1 && !st->insn.rex && number >= 4)
		return NULL;
	return names[number < 8 ? encoded[number] : number];
}

static int64_t immediate_of(const struct store *st)
{
	unsigned int unused = 64 - st->insn.immediate_bytes * 8u;
	uint64_t value = 0;

	memcpy(&value, st->bytes + st->insn.immediate_at, st->insn.immediate_bytes);
	return (int64_t)(value << unused) >> unused;
}

/*
 * `before OPERATOR operand`, cut to the bytes that are written; operator NULL: the operand alone.
 */
static int write_result(const struct store *st, const char *operator, const char * operand,
			char *out, size_t n)
{
	int used = operator? snprintf(out, n, "(u%zu)(%s %s (%s))", st->len * 8,
				      st->before, operator, operand) :
			     snprintf(out, n, "(u%zu)(%s)", st->len * 8, operand);

	return used < (int)n ? 0 : -E2BIG;
}

static const char *const no_value = "the value that it writes is not known before it runs";
static const char *const groups[] = { "+", "|", NULL, NULL, "&", "-", "^", NULL };

/* Opcodes of one byte: those of a register come in rows of eight, as groups has them. */
static int write_one_byte(struct store *st, uint8_t opcode, char *out, size_t n)
{
	const uint8_t group = st->bytes[st->insn.modrm_at] >> 3 & 7;
	const char *reg = register_of(st);
	char number[32] = "1";

	if (st->insn.immediate_bytes)
		snprintf(number, sizeof(number), "%" PRId64, immediate_of(st));
	if (opcode < 0x38 && (opcode & 7) <= 1 && reg && groups[opcode >> 3])
		return write_result(st, groups[opcode >> 3], reg, out, n);
	switch (opcode) {
	case 0x88:
	case 0x89:
		return reg ? write_result(st, NULL, reg, out, n) : refuse(st, no_value);
	case 0xc6:
	case 0xc7:
		return write_result(st, NULL, number, out, n);
	case 0x80:
	case 0x81:
	case 0x83:
		return groups[group] ? write_result(st, groups[group], number, out, n) :
				       refuse(st, no_value);
	case 0xfe:
	case 0xff:
		return group < 2 ? write_result(st, group ? "-" : "+", "1", out, n) :
				   refuse(st, no_value);
	default:
		return refuse(st, no_value);
	}
}

static int write_value(struct store *st, char *out, size_t n)
{
	const struct insn *insn = &st->insn;
	const uint8_t opcode = st->bytes[insn->opcode_at + insn->opcode_bytes - 1];

	/* xadd; xchg and cmpxchg change registers that a condition may read. */
	if (insn->opcode_bytes == 2 && (opcode == 0xc0 || opcode == 0xc1) && register_of(st))
		return write_result(st, "+", register_of(st), out, n);
	if (insn->opcode_bytes != 1 || insn->kind != INSN_OTHER || !insn->modrm_at)
		return refuse(st, no_value);
	return write_one_byte(st, opcode, out, n);
}

int code_store_find(struct symbols *s, uint64_t end, uint64_t address, size_t len,
		    const char *before, struct code_store *out, const char **why)
{
	struct store st = { .address = address, .len = len, .before = before };
	struct code_store found = { .length = 0 };
	int err = find(s, end, &st, &found.address);

	*why = "the instruction is not known";
	if (!err && (st.insn.memory_count != 1 || !(st.insn.memory[0].access & INSN_WRITE) ||
		     st.insn.flags & INSN_VECTOR))
		err = refuse(&st, no_value);
	if (!err)
		err = write_reaches(&st, end, found.reaches, sizeof(found.reaches));
	if (!err)
		err = write_value(&st, found.value, sizeof(found.value));
	if (err && st.why)
		*why = st.why;
	found.length = st.insn.length;
	if (!err)
		*out = found;
	return err;
}

#else

int code_store_find(struct symbols *s, uint64_t end, uint64_t address, size_t len,
		    const char *before, struct code_store *out, const char **why)
{
	*why = "stores are understood on x86-64 only";
	return -EOPNOTSUPP;
}

#endif
