/* SPDX-License-Identifier: MIT */
/*
 * test_insn_flow.c - where the decoder says that bytes come from, the processor takes them from.
 *
 * Random instructions are executed. A byte that is told to be moved has the value of the byte it came
 * from, one that is told to become 0 is 0, and no other byte of registers and memory changes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "insn_run.h"

#include <cmocka.h>

#include "code/insn/insn_flow.h"
#include "random.h"

#define BYTES 8192
#define RUNS 250000
#define XMM_AT 160 /* in run_fpu */

struct state {
	uint64_t r[16];
	uint8_t xmm[16][16];
	uint8_t memory[BYTES];
};

static uint8_t *text;
static uint8_t *memory;
static struct state start, end;
static uint64_t addresses[INSN_MEMORY_MAX];
static unsigned int run_count, move_count, wrong_count;

static void flow_instruction(uint8_t bytes[INSN_LENGTH_MAX])
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0x48, 0x4c, 0x41, 0x0f, 0x0f };
	static const uint8_t opcodes[] = { 0x88, 0x89, 0x8a, 0x8b, 0x86, 0x87, 0xc1, 0x81, 0x83 };

	for (unsigned int i = 0; i < INSN_LENGTH_MAX; i++)
		bytes[i] = (uint8_t)random_next();
	unsigned int at = (unsigned int)random_below(3);
	for (unsigned int i = 0; i < at; i++)
		bytes[i] = prefixes[random_below(sizeof(prefixes))];
	if (!random_below(3))
		bytes[at] = opcodes[random_below(sizeof(opcodes))];
}

static int is_excluded(const struct insn *insn, const uint8_t *bytes)
{
	const uint8_t *opcode = bytes + insn->opcode_at;

	if (insn->kind != INSN_OTHER ||
	    insn->flags & (INSN_PRIVILEGED | INSN_FAR | INSN_PC_RELATIVE) ||
	    insn->writes & 1ull << INSN_RSP || !insn->opcode_bytes)
		return 1;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].segment || insn->memory[i].flags)
			return 1;
	if (insn->opcode_bytes == 1)
		return opcode[0] == 0x8e || opcode[0] == 0x9d || (opcode[0] & 0xfe) == 0xc6 ||
		       opcode[0] == 0xfd || (opcode[0] & 0xf8) == 0xd8;
	/* Segments, the state of the machine, and MMX. */
	return insn->opcode_bytes == 2 &&
	       (opcode[1] < 0x10 || opcode[1] == 0xa1 || opcode[1] == 0xa9 || opcode[1] == 0xae ||
		opcode[1] == 0xc7 || opcode[1] == 0x77 || (opcode[1] >= 0xb2 && opcode[1] <= 0xb5));
}

static void keep_state(struct state *s, const struct insn_regs *regs)
{
	memcpy(s->r, regs->r, sizeof(s->r));
	memcpy(s->xmm, run_fpu + XMM_AT, sizeof(s->xmm));
	memcpy(s->memory, memory, BYTES);
}

/* A byte of a part; NULL: none that this test keeps. */
static uint8_t *byte_of(struct state *s, const struct insn_flow_part *part, unsigned int i)
{
	if (part->file == INSN_FLOW_GENERAL)
		return (uint8_t *)&s->r[part->reg] + part->at + i;
	if (part->file == INSN_FLOW_VECTOR)
		return part->reg < 16 && part->at + i < 16 ? &s->xmm[part->reg][part->at + i] :
							     NULL;
	const uint64_t at = addresses[part->reg] + i - (uint64_t)(uintptr_t)memory;
	return at < BYTES ? &s->memory[at] : NULL;
}

static void complain_flow(const uint8_t *bytes, const struct insn *insn, const char *what)
{
	if (wrong_count++ >= 20)
		return;
	printf("# ");
	for (unsigned int i = 0; i < insn->length; i++)
		printf("%02x", bytes[i]);
	printf(": %s\n", what);
}

/* Where byte i of what is written comes from: -1: nowhere, it is 0. */
static int origin_of(const struct insn_flow *f, unsigned int i)
{
	int from = (int)i;

	if (f->op == INSN_FLOW_REVERSE)
		from = f->to[0].bytes - 1 - (int)i;
	if (f->op == INSN_FLOW_SHIFT)
		from = (int)i - f->shift;
	return from >= 0 && from < f->from[0].bytes ? from : -1;
}

static void check_move(const uint8_t *bytes, const struct insn *insn, const struct insn_flow *f,
		       int is_sign)
{
	move_count++;
	for (unsigned int i = 0; i < f->to[0].bytes; i++) {
		const int from = origin_of(f, i);
		const uint8_t *now = byte_of(&end, &f->to[0], i);
		const uint8_t *was = from < 0 ? NULL :
						byte_of(&start, &f->from[0], (unsigned int)from);

		if (now && from >= 0 && was && *now != *was)
			complain_flow(bytes, insn, "a byte is not moved");
		if (now && from < 0 && *now && !is_sign)
			complain_flow(bytes, insn, "a byte is not 0");
	}
}

static void check_kept(const uint8_t *bytes, const struct insn *insn, const struct insn_flow *f)
{
	for (unsigned int i = 0; i < f->to[0].bytes; i++)
		if (f->kept & 1u << i &&
		    *byte_of(&end, &f->to[0], i) != *byte_of(&start, &f->to[0], i))
			complain_flow(bytes, insn, "a byte is not kept");
}

static void check_exchange(const uint8_t *bytes, const struct insn *insn, const struct insn_flow *f)
{
	move_count++;
	for (unsigned int i = 0; i < f->to[0].bytes; i++)
		if (*byte_of(&end, &f->to[0], i) != *byte_of(&start, &f->to[1], i) ||
		    *byte_of(&end, &f->to[1], i) != *byte_of(&start, &f->to[0], i))
			complain_flow(bytes, insn, "bytes do not change places");
}

/* Puts back what may change; then nothing else has. */
static void check_rest(const uint8_t *bytes, const struct insn *insn, const struct insn_flow *f)
{
	for (unsigned int k = 0; k < f->to_count; k++) {
		struct insn_flow_part part = f->to[k];
		const unsigned int last = f->clears_to[k] > part.at + part.bytes ?
						  f->clears_to[k] - part.at :
						  part.bytes;

		for (unsigned int i = 0; i < last; i++) {
			uint8_t *now = byte_of(&end, &part, i);

			if (now)
				*now = *byte_of(&start, &part, i);
		}
	}
	if (memcmp(start.r, end.r, sizeof(start.r)) != 0)
		complain_flow(bytes, insn, "another register is written");
	if (memcmp(start.xmm, end.xmm, sizeof(start.xmm)) != 0)
		complain_flow(bytes, insn, "another vector register is written");
	if (memcmp(start.memory, end.memory, BYTES) != 0)
		complain_flow(bytes, insn, "other memory is written");
}

static int is_sign_extension(const uint8_t *bytes, const struct insn *insn)
{
	const uint8_t opcode = bytes[insn->opcode_at + insn->opcode_bytes - 1];

	return opcode == 0x63 || ((opcode & 0xfe) == 0xbe && insn->opcode_bytes == 2);
}

static void check_flow(const uint8_t *bytes, const struct insn *insn, const struct insn_flow *f)
{
	switch (f->op) {
	case INSN_FLOW_MOVE:
	case INSN_FLOW_REVERSE:
	case INSN_FLOW_SHIFT:
		check_move(bytes, insn, f, is_sign_extension(bytes, insn));
		break;
	case INSN_FLOW_EXCHANGE:
		check_exchange(bytes, insn, f);
		break;
	case INSN_FLOW_KEEP:
		check_kept(bytes, insn, f);
		break;
	default:
		break;
	}
	check_rest(bytes, insn, f);
}

static void flow_one(void)
{
	uint8_t bytes[INSN_LENGTH_MAX];
	struct insn_regs regs = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };
	struct insn_flow flow;
	struct insn insn;

	flow_instruction(bytes);
	if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, &insn))
		return;
	if (insn.displacement_bytes == 4) {
		const int32_t small = (int32_t)random_below(1024);

		memcpy(bytes + insn.displacement_at, &small, 4);
		if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, &insn))
			return;
	}
	if (is_excluded(&insn, bytes) || insn_flow_x86_64(bytes, insn.length, &flow))
		return;
	for (unsigned int i = 0; i < 16; i++)
		regs.r[i] = insn.memory_count ?
				    (uint64_t)(uintptr_t)memory + 2048 + random_below(4096) :
				    random_next();
	regs.r[INSN_RSP] = (uint64_t)(uintptr_t)memory + 4096;
	regs.r[INSN_RIP] = (uint64_t)(uintptr_t)text;
	regs.flags = random_next();
	for (unsigned int i = 0; i < insn.memory_count; i++)
		if (insn_address(&insn, i, &regs, &addresses[i]))
			return;
	memcpy(text, bytes, insn.length);
	run_door(text + insn.length, 0);
	run_fresh_fpu();
	keep_state(&start, &regs);
	const int way = run_native(&regs);
	keep_state(&end, &regs);
	memcpy(memory, start.memory, BYTES);
	if (way < 0)
		return;
	run_count++;
	check_flow(bytes, &insn, &flow);
}

static void bytes_come_from_where_is_told(void **state)
{
	run_setup();
	for (unsigned int i = 0; i < RUNS; i++)
		flow_one();
	printf("# %u run, %u moved, %u wrong\n", run_count, move_count, wrong_count);
	assert_true(run_count > RUNS / 20 && move_count > RUNS / 200);
	assert_int_equal(wrong_count, 0);
}

static int flow_setup(void **state)
{
	random_seed();
	text = run_map(0, 4096);
	memory = run_map(0, BYTES);
	for (unsigned int i = 0; memory && i < BYTES; i++)
		memory[i] = (uint8_t)random_next();
	return text && memory ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_from_where_is_told),
	};

	return cmocka_run_group_tests(tests, flow_setup, NULL);
}
