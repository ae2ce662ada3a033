// SPDX-License-Identifier: MIT
/*
 * test_emulate.c - emulated instructions end as the processor ends them.
 *
 * Random instructions of the emulator's set, with random registers and flags, are executed and
 * emulated from the same state; registers, flags, the stack and the next address must be equal.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "insn_run.h"

#include <cmocka.h>
#include <errno.h>

#include "code/emulate.h"
#include "insn_text.h"
#include "random.h"

#define CODE_BYTES 4096
#define DATA_BYTES 8192
#define ROUNDS 300000

enum door {
	DOOR_NEXT,
	DOOR_TARGET,
};

static uint8_t *code; /* the instruction is in the middle */
static uint8_t *data; /* stack and operands */
static uint8_t before[DATA_BYTES];
static uint8_t after_native[DATA_BYTES];
static uint64_t aimed; /* where the branch under test leads */

/* Opcodes that the emulator knows, so that most tries are of use. */
static const char *const opcodes[] = {
	"00",	"01",	"02",	"03",	"04",	"05",	"08",	"09",	"0a",	"0b",
	"0c",	"0d",	"10",	"11",	"12",	"13",	"14",	"15",	"18",	"19",
	"1a",	"1b",	"1c",	"1d",	"20",	"21",	"22",	"23",	"24",	"25",
	"28",	"29",	"2a",	"2b",	"2c",	"2d",	"30",	"31",	"32",	"33",
	"34",	"35",	"38",	"39",	"3a",	"3b",	"3c",	"3d",	"50",	"51",
	"52",	"53",	"54",	"55",	"56",	"57",	"58",	"59",	"5a",	"5b",
	"5c",	"5d",	"5e",	"5f",	"63",	"68",	"6a",	"70",	"71",	"72",
	"73",	"74",	"75",	"76",	"77",	"78",	"79",	"7a",	"7b",	"7c",
	"7d",	"7e",	"7f",	"80",	"81",	"83",	"84",	"85",	"86",	"87",
	"88",	"89",	"8a",	"8b",	"8d",	"8d",	"8d",	"90",	"91",	"92",
	"93",	"94",	"95",	"96",	"97",	"98",	"99",	"a8",	"a9",	"b0",
	"b3",	"b4",	"b7",	"b8",	"bf",	"c6",	"c7",	"c2",	"c3",	"c9",
	"e0",	"e1",	"e2",	"e3",	"e8",	"e9",	"eb",	"f6",	"f7",	"fe",
	"ff",	"ff",	"ff",	"0f1e", "0f1f", "0f40", "0f41", "0f42", "0f43", "0f44",
	"0f45", "0f46", "0f47", "0f48", "0f49", "0f4a", "0f4b", "0f4c", "0f4d", "0f4e",
	"0f4f", "0f80", "0f81", "0f84", "0f85", "0f8c", "0f8f", "0f90", "0f91", "0f92",
	"0f93", "0f94", "0f95", "0f96", "0f97", "0f98", "0f99", "0f9a", "0f9b", "0f9c",
	"0f9d", "0f9e", "0f9f", "0fb6", "0fb7", "0fbe", "0fbf",
};

static size_t random_instruction(uint8_t bytes[INSN_LENGTH_MAX + 16])
{
	size_t n = 0;
	const char *opcode = opcodes[random_below(sizeof(opcodes) / sizeof(opcodes[0]))];

	if (random_below(4) == 0)
		bytes[n++] = 0x66;
	if (random_below(8) == 0)
		bytes[n++] = 0x67;
	if (random_below(2) == 0)
		bytes[n++] = (uint8_t)(0x40 | random_below(16));
	/* Now and then any opcode at all: the emulator may take what it should not. */
	if (random_below(8) == 0)
		n += text_bytes(random_below(2) ? "0f" : "", bytes + n, 1);
	else
		n += text_bytes(opcode, bytes + n, 2);
	for (unsigned int i = 0; i < 12; i++)
		bytes[n + i] = (uint8_t)random_next();
	/* Register operands three times out of four. */
	if (random_below(4))
		bytes[n] |= 0xc0;
	return n + 12;
}

static uint64_t random_value(void)
{
	static const uint64_t corners[] = { 0,		1,	    0x7f,   0x80,
					    0xff,	0x7fff,	    0x8000, 0x7fffffff,
					    0x80000000, 0xffffffff, ~0ull,  1ull << 63,
					    0x100000000 };

	if (random_below(2))
		return corners[random_below(sizeof(corners) / sizeof(corners[0]))];
	return random_next() >> random_below(64);
}

/* Registers with the stack pointer, and what leave makes of rbp, inside data. */
static struct insn_regs random_regs(void)
{
	struct insn_regs regs = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };

	for (unsigned int i = 0; i < 16; i++)
		regs.r[i] = random_value();
	regs.r[INSN_RSP] = (uint64_t)(uintptr_t)data + DATA_BYTES / 2 + random_below(64);
	regs.r[INSN_RBP] =
		(uint64_t)(uintptr_t)data + DATA_BYTES / 2 + random_below(1024);
	regs.r[INSN_RIP] = (uint64_t)(uintptr_t)code + CODE_BYTES / 2;
	regs.flags = (random_next() & RUN_FLAGS) | 0x202;
	return regs;
}

/* Where a branch leads: a place in the code whose door says that it was taken. */
static void aim_relative(uint8_t *bytes, const struct insn *insn)
{
	const int32_t distance = random_below(2) ? 20 + (int32_t)random_below(80) :
						   -(40 + (int32_t)random_below(60));

	memcpy(bytes + insn->immediate_at, &distance, insn->immediate_bytes);
	aimed = (uint64_t)(uintptr_t)code + CODE_BYTES / 2 + insn->length +
		(uint64_t)(int64_t)distance;
	run_door((uint8_t *)(uintptr_t)aimed, DOOR_TARGET);
}

/* An indirect branch: register or memory must hold a place to go. 0: cannot be arranged. */
static int aim_indirect(const struct insn *insn, struct insn_regs *regs)
{
	uint64_t address;

	aimed = (uint64_t)(uintptr_t)code + 256 + random_below(256);
	run_door((uint8_t *)(uintptr_t)aimed, DOOR_TARGET);
	if (insn->flags & INSN_FAR)
		return 0;
	if (insn->target_reg != INSN_NO_REG) {
		regs->r[insn->target_reg] = aimed;
		return insn->target_reg != INSN_RSP;
	}
	for (unsigned int reg = 0; reg < 16; reg++)
		if (insn->reads & 1ull << reg && reg != INSN_RSP && reg != INSN_RBP)
			regs->r[reg] = random_below(256);
	if (insn->memory[0].base < INSN_RIP)
		regs->r[insn->memory[0].base] = (uint64_t)(uintptr_t)data + 2048;
	if (insn_address(insn, 0, regs, &address) ||
	    address - (uint64_t)(uintptr_t)data > DATA_BYTES - 8)
		return 0;
	memcpy((void *)(uintptr_t)address, &aimed, 8);
	return 1;
}

static int aim_return(struct insn_regs *regs)
{
	aimed = (uint64_t)(uintptr_t)code + 256;
	run_door(code + 256, DOOR_TARGET);
	memcpy((void *)(uintptr_t)regs->r[INSN_RSP], &aimed, 8);
	return 1;
}

/* Makes the random instruction one whose outcome can be watched; 0: it cannot be. */
static int aim(uint8_t *bytes, struct insn *insn, struct insn_regs *regs)
{
	if (insn->flags & INSN_RELATIVE_BRANCH)
		aim_relative(bytes, insn);
	else if (insn->kind == INSN_JUMP_INDIRECT || insn->kind == INSN_CALL_INDIRECT)
		return aim_indirect(insn, regs);
	else if (insn->kind == INSN_RETURN)
		return aim_return(regs);
	return insn_decode_x86_64(bytes, INSN_LENGTH_MAX, insn) == 0;
}

static void assert_same(const uint8_t *bytes, const struct insn *insn,
			const struct insn_regs *start, const struct insn_regs *native,
			const struct insn_regs *emulated)
{
	char text[256];
	char hex[64] = "";

	text_insn(insn, text, sizeof(text));
	for (unsigned int i = 0; i < insn->length; i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
	for (unsigned int i = 0; i <= INSN_RIP; i++)
		if (native->r[i] != emulated->r[i])
			fail_msg("%s (%s): register %u is %#" PRIx64
				 " emulated, %#" PRIx64 " native; before %#" PRIx64,
				 hex, text, i, emulated->r[i], native->r[i], start->r[i]);
	if ((native->flags ^ emulated->flags) & RUN_FLAGS)
		fail_msg("%s (%s): flags %#" PRIx64 " emulated, %#" PRIx64
			 " native, before %#" PRIx64,
			 hex, text, emulated->flags & RUN_FLAGS,
			 native->flags & RUN_FLAGS, start->flags & RUN_FLAGS);
	if (memcmp(data, after_native, DATA_BYTES))
		fail_msg("%s (%s): memory differs", hex, text);
}

/* One try; 1 when an instruction was compared. */
static int compare_one(unsigned int kinds[])
{
	uint8_t bytes[INSN_LENGTH_MAX + 16];
	struct insn insn;
	struct insn_regs start = random_regs();

	random_instruction(bytes);
	if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, &insn) ||
	    !insn_can_emulate_x86_64(&insn, bytes) || !aim(bytes, &insn, &start))
		return 0;
	memcpy(code + CODE_BYTES / 2, bytes, insn.length);
	run_door(code + CODE_BYTES / 2 + insn.length, DOOR_NEXT);
	memcpy(before, data, DATA_BYTES);

	struct insn_regs native = start;
	const int door = run_native(&native);
	if (door < 0)
		fail_msg("signal %d at %02x %02x %02x", -door, bytes[0], bytes[1],
			 bytes[2]);
	memcpy(after_native, data, DATA_BYTES);
	memcpy(data, before, DATA_BYTES);

	struct insn_regs emulated = start;
	assert_int_equal(insn_emulate_x86_64(&insn, bytes, &insn_own_memory, &emulated),
			 0);
	native.r[INSN_RIP] = door == DOOR_NEXT ? start.r[INSN_RIP] + insn.length : aimed;
	assert_same(bytes, &insn, &start, &native, &emulated);
	kinds[insn.kind]++;
	return 1;
}

static void emulated_instructions_end_as_executed_ones(void **state)
{
	unsigned int kinds[INSN_STRING + 1] = { 0 };
	unsigned int compared = 0;

	/* Here, since cmocka sets its own handlers before each test. */
	run_setup();
	for (unsigned int i = 0; i < ROUNDS; i++)
		compared += (unsigned int)compare_one(kinds);
	printf("# %u compared, of %u\n", compared, ROUNDS);
	assert_true(compared > ROUNDS / 3);
	assert_true(kinds[INSN_JUMP_CONDITIONAL] && kinds[INSN_CALL] &&
		    kinds[INSN_RETURN] && kinds[INSN_CALL_INDIRECT] &&
		    kinds[INSN_JUMP_INDIRECT] && kinds[INSN_NOP]);
}

static void what_is_not_in_the_set_is_refused_untouched(void **state)
{
	static const char *const others[] = {
		"0fa2",	    "0f05",  "cc",	     "f4",	 "8b00", "8900",
		"f00fc100", "87 00", "0f58c1",	     "c5f858c1", "f3a4", "48f7e1",
		"d3e0",	    "ff18",  "66e800000000", "0f0b"
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		struct insn insn;
		struct insn_regs regs = random_regs();
		struct insn_regs untouched = regs;
		const size_t n = text_bytes(others[i], bytes, sizeof(bytes));

		assert_int_equal(insn_decode_x86_64(bytes, n, &insn), 0);
		assert_false(insn_can_emulate_x86_64(&insn, bytes));
		assert_int_equal(insn_emulate_x86_64(&insn, bytes, &insn_own_memory,
						     &regs),
				 -EOPNOTSUPP);
		assert_memory_equal(&regs, &untouched, sizeof(regs));
	}
}

static int refuse_write(void *context, uint64_t address, const void *in, size_t bytes)
{
	return -EFAULT;
}

static void a_failing_memory_or_unknown_register_changes_nothing(void **state)
{
	const struct insn_memory_access broken = { NULL, refuse_write, NULL };
	const uint8_t push_rax[] = { 0x50 };
	struct insn insn;
	struct insn_regs regs = random_regs();

	assert_int_equal(insn_decode_x86_64(push_rax, 1, &insn), 0);
	const struct insn_regs untouched = regs;
	assert_int_equal(insn_emulate_x86_64(&insn, push_rax, &broken, &regs), -EFAULT);
	assert_memory_equal(&regs, &untouched, sizeof(regs));
	regs.known &= ~(1ull << INSN_RAX);
	assert_int_equal(insn_emulate_x86_64(&insn, push_rax, &insn_own_memory, &regs),
			 -ENODATA);
}

static void a_plain_store_leaves_what_it_will(void **state)
{
	static const struct {
		const char *text;
		int64_t stored; /* -1: not in the set */
	} stores[] = {
		{ "488908", 0x1122334455667788 }, /* mov %rcx,(%rax) */
		{ "8908", 0x55667788 },
		{ "668908", 0x7788 },
		{ "8808", 0x88 },
		{ "8828", 0x77 },   /* ch */
		{ "408828", 0xb5 }, /* bpl */
		{ "4c891c24", 0xb11 }, /* r11 */
		{ "48c700feffffff", -2 },
		{ "c700feffffff", 0xfffffffe },
		{ "66c700feff", 0xfffe },
		{ "c600fe", 0xfe },
		{ "488b08", -1 }, /* a load */
		{ "480108", -1 }, /* add */
		{ "488708", -1 }, /* xchg */
		{ "50", -1 },
		{ "4889c8", -1 }, /* between registers */
		{ "f3a4", -1 },
	};

	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		struct insn_regs regs = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };
		uint8_t bytes[INSN_LENGTH_MAX];
		uint64_t stored = 0;
		struct insn insn;

		regs.r[INSN_RCX] = 0x1122334455667788;
		regs.r[INSN_RBP] = 0xb5;
		regs.r[INSN_R11] = 0xb11;
		const size_t n = text_bytes(stores[i].text, bytes, sizeof(bytes));
		assert_int_equal(insn_decode_x86_64(bytes, n, &insn), 0);
		const int err = insn_stored_x86_64(&insn, bytes, &regs, &stored);
		assert_int_equal(err, stores[i].stored == -1 ? -EOPNOTSUPP : 0);
		if (!err)
			assert_true(stored == (uint64_t)stores[i].stored);
		regs.known &= ~(1ull << INSN_RAX);
		if (!err && insn.memory[0].base == INSN_RAX)
			assert_int_equal(insn_stored_x86_64(&insn, bytes, &regs, &stored), -ENODATA);
	}
}

static int setup(void **state)
{
	random_seed();
	code = run_map(0, CODE_BYTES);
	data = run_map(0, DATA_BYTES);
	return code && data ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emulated_instructions_end_as_executed_ones),
		cmocka_unit_test(what_is_not_in_the_set_is_refused_untouched),
		cmocka_unit_test(a_failing_memory_or_unknown_register_changes_nothing),
		cmocka_unit_test(a_plain_store_leaves_what_it_will),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
