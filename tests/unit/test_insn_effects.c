/* SPDX-License-Identifier: MIT */
/*
 * test_insn_effects.c - what the decoder says an instruction does, it does, and nothing else.
 *
 * Random instructions are executed. Registers, flags and memory may only change where the decoder
 * says so; and an operand moved against a page that cannot be accessed faults exactly when, by
 * address and size, it reaches into it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "insn_run.h"

#include <cmocka.h>
#include <cpuid.h>
#include <errno.h>

#include "insn_text.h"
#include "random.h"

#define DATA_BYTES 16384
#define ROUNDS 250000

static uint8_t *code;
static uint8_t *data; /* the page behind it cannot be accessed */
static uint8_t before[DATA_BYTES];

struct counts {
	unsigned int run;
	unsigned int written;
	unsigned int fitted; /* operands that ended at the end of the page */
	unsigned int beyond; /* operands that reached one byte further */
	unsigned int wrong;
};

static void random_instruction(uint8_t bytes[INSN_LENGTH_MAX])
{
	static const uint8_t likely[] = { 0x66, 0xf0, 0xf2, 0xf3, 0x48, 0x4c,
					  0x41, 0x0f, 0x0f, 0xc5, 0xc4, 0x62 };
	const unsigned int prefixes = (unsigned int)random_below(3);

	for (unsigned int i = 0; i < INSN_LENGTH_MAX; i++)
		bytes[i] = (uint8_t)random_next();
	for (unsigned int i = 0; i < prefixes; i++)
		bytes[i] = likely[random_below(sizeof(likely))];
}

/* Would running it change more than this test puts back: segments, flags of the system, ... */
static int is_dangerous(const struct insn *insn, const uint8_t *bytes)
{
	const uint8_t *opcode = bytes + insn->opcode_at;

	if (insn->flags & (INSN_PRIVILEGED | INSN_FAR | INSN_RELATIVE_BRANCH) ||
	    (insn->kind >= INSN_JUMP && insn->kind <= INSN_SYSCALL))
		return 1;
	/* What fs points to is libc's. */
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].segment == INSN_SEGMENT_FS)
			return 1;
	if (insn->opcode_bytes == 1)
		return opcode[0] == 0x8e || opcode[0] == 0x9d || opcode[0] == 0xcf ||
		       (opcode[0] & 0xfe) == 0xc6 || opcode[0] == 0xfd;
	if (insn->opcode_bytes != 2)
		return 0;
	/* Segment loads; what is behind 0f01, 0fae and 0fc7. */
	return opcode[1] == 0xa1 || opcode[1] == 0xa9 ||
	       (opcode[1] >= 0xb2 && opcode[1] <= 0xb5) || opcode[1] == 0x01 ||
	       opcode[1] == 0x00 ||
	       (opcode[1] == 0xae && (bytes[insn->modrm_at] >= 0xc0 ||
				      (bytes[insn->modrm_at] >> 3 & 7) == 5)) ||
	       (opcode[1] == 0xc7 && (bytes[insn->modrm_at] >> 3 & 7) != 1);
}

static struct insn_regs random_regs(void)
{
	/* gs is not used by the ABI: its base is 0. */
	struct insn_regs regs = {
		.known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS | INSN_KNOWS_FS |
			 INSN_KNOWS_GS,
		.fs_base = (uint64_t)(uintptr_t)__builtin_thread_pointer()
	};

	for (unsigned int i = 0; i < 16; i++)
		regs.r[i] =
			(uint64_t)(uintptr_t)data + 4096 + (random_below(8192) & ~63ull);
	regs.r[INSN_RCX] = random_below(2) ? random_below(4) : regs.r[INSN_RCX];
	regs.r[INSN_RIP] = (uint64_t)(uintptr_t)code;
	regs.flags = (random_next() & RUN_FLAGS) | 0x202;
	return regs;
}

static void complain(struct counts *c, const uint8_t *bytes, const struct insn *insn,
		     const char *what, uint64_t value)
{
	char text[256];

	if (c->wrong++ >= 20)
		return;
	text_insn(insn, text, sizeof(text));
	printf("# ");
	for (unsigned int i = 0; i < insn->length; i++)
		printf("%02x", bytes[i]);
	printf(" (%s): %s %#" PRIx64 "\n", text, what, value);
}

/* Of xsave, with all that this processor has: 11,008 bytes with tiles. */
static uint64_t state_bytes(void)
{
	unsigned int a;
	unsigned int b;
	unsigned int all = 0;
	unsigned int d;

	__get_cpuid_count(0xd, 0, &a, &b, &all, &d);
	return all > 4096 ? all : 4096;
}

/* The bytes that operand i may change: from its address on; repeats go upwards. */
static uint64_t reach_of(const struct insn *insn, unsigned int i,
			 const struct insn_regs *start)
{
	const struct insn_memory *m = &insn->memory[i];

	if (m->flags & INSN_MEM_SIZE_UNKNOWN)
		return state_bytes();
	if (m->flags & INSN_MEM_REPEATS)
		return (insn->address_bytes == 4 ? (uint32_t)start->r[INSN_RCX] :
						   start->r[INSN_RCX]) *
		       m->size;
	return m->size;
}

static int may_write(const struct insn *insn, const struct insn_regs *start,
		     uint64_t address)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		uint64_t at;

		if (!(insn->memory[i].access & INSN_WRITE))
			continue;
		if (insn->memory[i].flags & (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE))
			return 1;
		if (!insn_address(insn, i, start, &at) &&
		    address - at < reach_of(insn, i, start))
			return 1;
	}
	return 0;
}

static void check_memory(struct counts *c, const uint8_t *bytes, const struct insn *insn,
			 const struct insn_regs *start)
{
	int changed = 0;

	for (unsigned int i = 0; i < DATA_BYTES; i++) {
		if (data[i] == before[i])
			continue;
		changed = 1;
		if (!may_write(insn, start, (uint64_t)(uintptr_t)data + i)) {
			complain(c, bytes, insn, "writes data +", i);
			return;
		}
	}
	c->written += (unsigned int)changed;
}

static void check_registers(struct counts *c, const uint8_t *bytes,
			    const struct insn *insn, const struct insn_regs *start,
			    const struct insn_regs *end)
{
	for (unsigned int i = 0; i < 16; i++) {
		if (start->r[i] != end->r[i] && !(insn->writes & 1ull << i))
			complain(c, bytes, insn, "writes register", i);
		if (insn->clears_upper & 1ull << i && end->r[i] >> 32)
			complain(c, bytes, insn, "keeps the upper half of register", i);
	}
	if ((start->flags ^ end->flags) & RUN_FLAGS && !(insn->flags & INSN_WRITES_FLAGS))
		complain(c, bytes, insn, "writes flags", start->flags ^ end->flags);
	if (insn->flags & INSN_CHANGES_SP &&
	    end->r[INSN_RSP] - start->r[INSN_RSP] != (uint64_t)(int64_t)insn->sp_change)
		complain(c, bytes, insn, "moves the stack pointer by",
			 end->r[INSN_RSP] - start->r[INSN_RSP]);
}

static int prepare(uint8_t bytes[INSN_LENGTH_MAX], struct insn *insn)
{
	random_instruction(bytes);
	if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, insn) || is_dangerous(insn, bytes))
		return 0;
	/* Distances so small that they stay in data. */
	if (insn->displacement_bytes == 4) {
		const int32_t near = (int32_t)(random_next() % 2048) - 1024;

		memcpy(bytes + insn->displacement_at, &near, 4);
		if (insn_decode_x86_64(bytes, INSN_LENGTH_MAX, insn))
			return 0;
	}
	memcpy(code, bytes, insn->length);
	run_door(code + insn->length, 0);
	return !(insn->flags & INSN_PC_RELATIVE);
}

static void run_one(struct counts *c)
{
	uint8_t bytes[INSN_LENGTH_MAX];
	struct insn insn;
	const struct insn_regs start = random_regs();

	if (!prepare(bytes, &insn))
		return;
	memcpy(before, data, DATA_BYTES);
	struct insn_regs end = start;
	if (run_native(&end) < 0) {
		memcpy(data, before, DATA_BYTES);
		return;
	}
	c->run++;
	check_memory(c, bytes, &insn, &start);
	check_registers(c, bytes, &insn, &start, &end);
}

static void instructions_change_only_what_is_told(void **state)
{
	struct counts c = { 0 };

	/* Here, since cmocka sets its own handlers before each test. */
	run_setup();
	for (unsigned int i = 0; i < ROUNDS; i++)
		run_one(&c);
	printf("# %u run, %u wrote memory, %u wrong\n", c.run, c.written, c.wrong);
	assert_true(c.run > ROUNDS / 20 && c.written > ROUNDS / 100);
	assert_int_equal(c.wrong, 0);
}

/* ---- sizes ---- */

/* An operand whose base can be moved without moving anything else. */
static int is_movable(const struct insn *insn)
{
	const struct insn_memory *m = &insn->memory[0];
	const uint16_t never = INSN_MEM_SIZE_UNKNOWN | INSN_MEM_LANES |
			       INSN_MEM_NOT_COMPUTABLE | INSN_MEM_ADDRESS_32 |
			       INSN_MEM_BIT_INDEX | INSN_MEM_ALIGNED_DOWN;

	return insn->memory_count == 1 && m->base < INSN_RIP && m->index != m->base &&
	       !(m->flags & never) && m->segment == INSN_SEGMENT_NONE;
}

/* Runs with the operand's end moved to the end of data plus further. 1: it faulted there. */
static int faults_at_end(const struct insn *insn, int64_t further)
{
	struct insn_regs regs = random_regs();
	const uint64_t end = (uint64_t)(uintptr_t)data + DATA_BYTES;
	uint64_t address;

	regs.r[INSN_RCX] = 1;
	assert_int_equal(insn_address(insn, 0, &regs, &address), 0);
	regs.r[insn->memory[0].base] +=
		end + (uint64_t)further - insn->memory[0].size - address;
	run_fault_address = 0;
	const int way = run_native(&regs);
	if (way >= 0)
		return 0;
	if (way == -SIGSEGV && run_fault_address >= end && run_fault_address < end + 4096)
		return 1;
	return -1; /* an alignment fault, no such instruction here, ... */
}

static void size_one(struct counts *c)
{
	uint8_t bytes[INSN_LENGTH_MAX];
	struct insn insn;

	if (!prepare(bytes, &insn) || !is_movable(&insn))
		return;
	memcpy(before, data, DATA_BYTES);
	const int within = faults_at_end(&insn, 0);
	const int beyond = faults_at_end(&insn, 1);
	memcpy(data, before, DATA_BYTES);
	if (within == 1)
		complain(c, bytes, &insn, "reaches beyond its size", insn.memory[0].size);
	if (within == 0)
		c->fitted++;
	/* Some bytes may stay untouched, on this or another maker's processor. */
	if (within == 0 && beyond == 0 &&
	    !(insn.memory[0].flags & INSN_MEM_CONDITIONAL))
		complain(c, bytes, &insn, "does not reach its size", insn.memory[0].size);
	if (beyond == 1)
		c->beyond++;
}

static void operands_reach_as_far_as_is_told(void **state)
{
	struct counts c = { 0 };

	run_setup();
	for (unsigned int i = 0; i < ROUNDS; i++)
		size_one(&c);
	printf("# %u fitted, %u reached beyond, %u wrong\n", c.fitted, c.beyond, c.wrong);
	assert_true(c.fitted > ROUNDS / 20 && c.beyond > ROUNDS / 20);
	assert_int_equal(c.wrong, 0);
}

static int setup(void **state)
{
	random_seed();
	code = run_map(0, 4096);
	data = run_map(0, DATA_BYTES + 4096);
	if (!code || !data)
		return -1;
	for (unsigned int i = 0; i < DATA_BYTES; i++)
		data[i] = (uint8_t)random_next();
	return mprotect(data + DATA_BYTES, 4096, PROT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_change_only_what_is_told),
		cmocka_unit_test(operands_reach_as_far_as_is_told),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
