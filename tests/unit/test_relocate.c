/* SPDX-License-Identifier: MIT */
/*
 * test_relocate.c - a copy elsewhere does what the original does.
 *
 * Random instructions are executed where they are and as a copy, from the same state: registers,
 * flags, memory and the way out must be equal.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "insn_run.h"

#include <cmocka.h>
#include <errno.h>

#include "code/insn/relocate.h"
#include "insn_text.h"
#include "random.h"

#define CODE_BYTES 4096
#define DATA_BYTES 8192
#define ROUNDS 200000
/* Nothing else is within the reach of a displacement, also from a sum of two registers. */
#define LONELY_PLACE 0xc0000000000u

enum door {
	DOOR_NEXT,
	DOOR_TARGET,
};

static uint8_t *code; /* the original is in the middle */
static uint8_t *copies;
static uint8_t *data; /* near enough for operands relative to the pc */
static uint8_t before[DATA_BYTES];
static uint8_t after_original[DATA_BYTES];

static const char *const opcodes[] = {
	"01",	"03",	"29",	"2b",	"31",	"33",	"38",	"39",	"3b",	"50",
	"55",	"58",	"5d",	"63",	"68",	"6a",	"6b",	"69",	"70",	"74",
	"75",	"7c",	"7f",	"80",	"81",	"83",	"84",	"85",	"87",	"88",
	"89",	"8a",	"8b",	"8d",	"8f",	"90",	"98",	"99",	"a8",	"b8",
	"c0",	"c1",	"c3",	"c6",	"c7",	"c9",	"d1",	"d3",	"e0",	"e1",
	"e2",	"e3",	"e8",	"e9",	"eb",	"f6",	"f7",	"fe",	"ff",	"ff",
	"0f10", "0f11", "0f28", "0f29", "0f44", "0f4d", "0f6f", "0f7f", "0f80", "0f84",
	"0f8f", "0f94", "0fa3", "0fab", "0faf", "0fb0", "0fb1", "0fb6", "0fbe", "0fc0",
	"0fc1", "0fc8", "a4",	"a5",	"aa",	"ab",	"ac",	"0fa2",
};

static void random_instruction(uint8_t bytes[INSN_LENGTH_MAX + 16])
{
	size_t n = 0;

	if (random_below(6) == 0)
		bytes[n++] = random_below(2) ? 0x66 : 0xf3;
	if (random_below(12) == 0)
		bytes[n++] = 0x67;
	if (random_below(2) == 0)
		bytes[n++] = (uint8_t)(0x40 | random_below(16));
	n += text_bytes(opcodes[random_below(sizeof(opcodes) / sizeof(opcodes[0]))],
			bytes + n, 2);
	for (unsigned int i = 0; i < 12; i++)
		bytes[n + i] = (uint8_t)random_next();
	/* Operands relative to the pc more often than by chance. */
	if (random_below(3) == 0)
		bytes[n] = (uint8_t)((bytes[n] & 0x38) | 5);
}

/* All registers point into data, so that most operands do too. */
static struct insn_regs random_regs(void)
{
	struct insn_regs regs = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };

	for (unsigned int i = 0; i < 16; i++)
		regs.r[i] = (uint64_t)(uintptr_t)data + 2048 + random_below(2048);
	if (random_below(2))
		regs.r[INSN_RCX] = random_below(3);
	regs.r[INSN_RIP] = (uint64_t)(uintptr_t)code + CODE_BYTES / 2;
	regs.flags = (random_next() & RUN_FLAGS) | 0x202;
	return regs;
}

static void aim_relative(uint8_t *bytes, const struct insn *insn)
{
	const int32_t distance = random_below(2) ? 20 + (int32_t)random_below(80) :
						   -(40 + (int32_t)random_below(60));

	memcpy(bytes + insn->immediate_at, &distance, insn->immediate_bytes);
	run_door(code + CODE_BYTES / 2 + insn->length + distance, DOOR_TARGET);
}

/* The operand named relative to the pc is in data. */
static void aim_operand(uint8_t *bytes, const struct insn *insn)
{
	const uint8_t *target = data + 64 * random_below(DATA_BYTES / 64);
	const int32_t distance =
		(int32_t)(target - (code + CODE_BYTES / 2 + insn->length));

	memcpy(bytes + insn->displacement_at, &distance, 4);
}

/* The one thing a copied call may not do: name a target where it pushes. See relocate.h. */
static int names_what_it_pushes(const struct insn *insn, const struct insn_regs *regs)
{
	uint64_t address;

	return insn->kind == INSN_CALL_INDIRECT && insn->target_reg == INSN_NO_REG &&
	       !insn_address(insn, 0, regs, &address) &&
	       insn_touches(insn, 0, regs, regs->r[INSN_RSP] - 8, 8);
}

/* Random displacements meet the code now and then: it is not the same at both places. */
static int uses_code_as_data(const struct insn *insn, const struct insn_regs *regs)
{
	const uint8_t *const pages[] = { code, copies };

	for (unsigned int i = 0; i < insn->memory_count; i++)
		for (unsigned int k = 0; k < 2; k++)
			if (insn_touches(insn, i, regs, (uint64_t)(uintptr_t)pages[k],
					 CODE_BYTES))
				return 1;
	return 0;
}

static void aim(uint8_t *bytes, struct insn *insn, struct insn_regs *regs)
{
	const uint64_t target = (uint64_t)(uintptr_t)code + 256;
	uint64_t address;

	run_door(code + 256, DOOR_TARGET);
	if (insn->flags & INSN_RELATIVE_BRANCH)
		aim_relative(bytes, insn);
	if (insn->flags & INSN_PC_RELATIVE)
		aim_operand(bytes, insn);
	assert_int_equal(insn_decode_x86_64(bytes, INSN_LENGTH_MAX, insn), 0);
	if (insn->target_reg != INSN_NO_REG)
		regs->r[insn->target_reg] = target;
	else if (insn->kind == INSN_JUMP_INDIRECT || insn->kind == INSN_CALL_INDIRECT ||
		 insn->kind == INSN_RETURN)
		if (!insn_address(insn, 0, regs, &address) &&
		    address - (uint64_t)(uintptr_t)data < DATA_BYTES - 8)
			memcpy((void *)(uintptr_t)address, &target, 8);
}

static int run_at(uint8_t *at, const void *bytes, size_t length, struct insn_regs *regs)
{
	memcpy(at, bytes, length);
	run_door(at + length, DOOR_NEXT);
	regs->r[INSN_RIP] = (uint64_t)(uintptr_t)at;
	return run_native(regs);
}

static int compare_one(unsigned int kinds[])
{
	uint8_t bytes[INSN_LENGTH_MAX + 16];
	struct insn insn;
	struct insn_copy copy;
	struct insn_regs original = random_regs();
	char text[256];

	random_instruction(bytes);
	if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, &insn) ||
	    insn.kind == INSN_SYSCALL)
		return 0;
	aim(bytes, &insn, &original);
	if (names_what_it_pushes(&insn, &original) || uses_code_as_data(&insn, &original) ||
	    insn_relocate_x86_64(&insn, bytes, original.r[INSN_RIP],
				 (uint64_t)(uintptr_t)copies + 64, &copy, NULL))
		return 0;
	struct insn_regs elsewhere = original;
	memcpy(before, data, DATA_BYTES);
	const int way_original =
		run_at(code + CODE_BYTES / 2, bytes, insn.length, &original);
	memcpy(after_original, data, DATA_BYTES);
	memcpy(data, before, DATA_BYTES);
	const int way_copy = run_at(copies + 64, copy.bytes, copy.length, &elsewhere);

	text_insn(&insn, text, sizeof(text));
	if (way_original != way_copy)
		fail_msg("%02x %02x %02x %02x (%s): leaves by %d, its copy by %d",
			 bytes[0], bytes[1], bytes[2], bytes[3], text, way_original,
			 way_copy);
	if (way_original < 0)
		return 0;
	for (unsigned int i = 0; i < 16; i++)
		if (original.r[i] != elsewhere.r[i])
			fail_msg("%02x %02x %02x %02x (%s): register %u is %#" PRIx64
				 ", by its copy %#" PRIx64,
				 bytes[0], bytes[1], bytes[2], bytes[3], text, i,
				 original.r[i], elsewhere.r[i]);
	assert_int_equal((original.flags ^ elsewhere.flags) & RUN_FLAGS, 0);
	if (memcmp(data, after_original, DATA_BYTES))
		fail_msg("%02x %02x %02x %02x (%s): memory differs", bytes[0], bytes[1],
			 bytes[2], bytes[3], text);
	kinds[copy.kind]++;
	return 1;
}

static void copies_do_what_originals_do(void **state)
{
	unsigned int kinds[INSN_COPY_REPLACED + 1] = { 0 };
	unsigned int compared = 0;

	/* Here, since cmocka sets its own handlers before each test. */
	run_setup();
	for (unsigned int i = 0; i < ROUNDS; i++)
		compared += (unsigned int)compare_one(kinds);
	printf("# %u compared of %u: %u same, %u corrected, %u replaced\n", compared,
	       ROUNDS, kinds[0], kinds[1], kinds[2]);
	assert_true(kinds[INSN_COPY_SAME] > 1000 && kinds[INSN_COPY_CORRECTED] > 1000 &&
		    kinds[INSN_COPY_REPLACED] > 1000);
}

struct refusal {
	const char *hex;
	uint64_t to; /* from 0x10000 */
	int err;
};

static void what_cannot_be_moved_is_refused_with_a_reason(void **state)
{
	static const struct refusal refusals[] = {
		{ "488b0500010000", 1ull << 33, -ERANGE },
		{ "e900010000", 1ull << 33, -ERANGE },
		{ "7410", 1ull << 33, -ERANGE },
		{ "e200", 1ull << 33, -ERANGE },
		{ "ff1500000000", 1ull << 33, -ERANGE },
		{ "67488b0500010000", 0x20000, -EOPNOTSUPP },
		{ "cc", 0x20000, -EOPNOTSUPP },
		{ "0f0b", 0x20000, -EOPNOTSUPP },
		{ "ff1424", 0x20000, -EOPNOTSUPP }, /* call *(%rsp) */
		{ "ffd4", 0x20000, -EOPNOTSUPP },   /* call *%rsp */
		{ "ff18", 0x20000, -EOPNOTSUPP },
		{ "66e900000000", 0x20000, -EOPNOTSUPP },
		{ "c7f800000000", 0x20000, -EOPNOTSUPP },
	};

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		struct insn insn;
		struct insn_copy copy = { .length = 77 };
		const char *reason = NULL;
		const size_t n = text_bytes(refusals[i].hex, bytes, sizeof(bytes));

		assert_int_equal(insn_decode_x86_64(bytes, n, &insn), 0);
		const int err = insn_relocate_x86_64(&insn, bytes, 0x10000,
						     refusals[i].to, &copy, &reason);
		if (err != refusals[i].err || !reason || !*reason || copy.length != 77)
			fail_msg("%s: %d, should be %d", refusals[i].hex, err,
				 refusals[i].err);
	}
}

static void reach_ends_at_two_gigabytes_exactly(void **state)
{
	const uint8_t load[] = { 0x48, 0x8b, 0x05, 0, 0, 0, 0 };
	const uint64_t from = 1ull << 40;
	const uint64_t last = from + 0x7fffffff + 1;
	struct insn insn;
	struct insn_copy copy;

	/* The operand is at from + 7; the field of a copy at to holds from - to. */
	assert_int_equal(insn_decode_x86_64(load, sizeof(load), &insn), 0);
	assert_int_equal(insn_relocate_x86_64(&insn, load, from, last, &copy, NULL), 0);
	assert_int_equal(insn_relocate_x86_64(&insn, load, from, last + 1, &copy, NULL),
			 -ERANGE);
	assert_int_equal(insn_relocate_x86_64(&insn, load, from, from - 0x7fffffff, &copy,
					      NULL),
			 0);
	assert_int_equal(insn_relocate_x86_64(&insn, load, from, from - 0x80000000, &copy,
					      NULL),
			 -ERANGE);
}

static int setup(void **state)
{
	random_seed();
	code = run_map(LONELY_PLACE, CODE_BYTES);
	copies = run_map((uintptr_t)code - (256 << 20), CODE_BYTES);
	data = run_map((uintptr_t)code - (128 << 20), DATA_BYTES);
	return code && copies && data ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_do_what_originals_do),
		cmocka_unit_test(what_cannot_be_moved_is_refused_with_a_reason),
		cmocka_unit_test(reach_ends_at_two_gigabytes_exactly),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
