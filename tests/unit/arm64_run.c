/* SPDX-License-Identifier: MIT */
/*
 * arm64_run.c - copied arm64 instructions end as executed ones.
 *
 * Built for arm64 and run there, or under qemu's emulation: tests/unit/test_arm64_run.sh. Random
 * instructions are executed in place and as a copy, from the same registers. Prints TAP by itself:
 * the cross libraries have no cmocka.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "code/insn/relocate.h"
#include "random.h"

#define ROUNDS 100000
#define REGISTERS 28 /* x0 to x27: the rest is the harness' and the ABI's */

struct frame {
	uint64_t r[31];
	uint64_t flags;
	uint64_t host_sp;
	uint64_t left_by;
	uint64_t entry;
};

/* In x28 while the code under test runs; the doors find it there. */
extern void arm64_enter(struct frame *frame);
extern void arm64_door_0(void);
extern void arm64_door_1(void);

__asm__(".text\n"
	".globl arm64_enter, arm64_door_0, arm64_door_1\n"
	"arm64_enter:\n"
	"	stp x29, x30, [sp, #-96]!\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	mov x28, x0\n"
	"	mov x1, sp\n"
	"	str x1, [x28, #256]\n"
	"	ldr x1, [x28, #248]\n"
	"	msr nzcv, x1\n"
	"	ldr x29, [x28, #272]\n"
	"	ldr x30, [x28, #240]\n"
	"	ldp x0, x1, [x28, #0]\n"
	"	ldp x2, x3, [x28, #16]\n"
	"	ldp x4, x5, [x28, #32]\n"
	"	ldp x6, x7, [x28, #48]\n"
	"	ldp x8, x9, [x28, #64]\n"
	"	ldp x10, x11, [x28, #80]\n"
	"	ldp x12, x13, [x28, #96]\n"
	"	ldp x14, x15, [x28, #112]\n"
	"	ldp x16, x17, [x28, #128]\n"
	"	ldp x18, x19, [x28, #144]\n"
	"	ldp x20, x21, [x28, #160]\n"
	"	ldp x22, x23, [x28, #176]\n"
	"	ldp x24, x25, [x28, #192]\n"
	"	ldp x26, x27, [x28, #208]\n"
	"	br x29\n"
	"arm64_door_0:\n"
	"	str xzr, [x28, #264]\n"
	"	b 1f\n"
	"arm64_door_1:\n"
	"	mov x29, #1\n"
	"	str x29, [x28, #264]\n"
	"1:	stp x0, x1, [x28, #0]\n"
	"	stp x2, x3, [x28, #16]\n"
	"	stp x4, x5, [x28, #32]\n"
	"	stp x6, x7, [x28, #48]\n"
	"	stp x8, x9, [x28, #64]\n"
	"	stp x10, x11, [x28, #80]\n"
	"	stp x12, x13, [x28, #96]\n"
	"	stp x14, x15, [x28, #112]\n"
	"	stp x16, x17, [x28, #128]\n"
	"	stp x18, x19, [x28, #144]\n"
	"	stp x20, x21, [x28, #160]\n"
	"	stp x22, x23, [x28, #176]\n"
	"	stp x24, x25, [x28, #192]\n"
	"	stp x26, x27, [x28, #208]\n"
	"	str x30, [x28, #240]\n"
	"	mrs x1, nzcv\n"
	"	str x1, [x28, #248]\n"
	"	ldr x1, [x28, #256]\n"
	"	mov sp, x1\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x29, x30, [sp], #96\n"
	"	ret\n");

static uint8_t *code;
static uint8_t *copies;

static void put(uint8_t *at, uint32_t word)
{
	memcpy(at, &word, sizeof(word));
}

/* ldr x29, .+8; br x29; the address: x29 is free in the code under test. */
static void put_door(uint8_t *at, void (*door)(void))
{
	const uint64_t target = (uint64_t)(uintptr_t)door;

	put(at, 0x5800005d);
	put(at + 4, 0xd61f03a0);
	memcpy(at + 8, &target, sizeof(target));
}

static unsigned int low_register(void)
{
	return (unsigned int)random_below(REGISTERS);
}

/* A branch, a move, a sum or a load, with a branch distance that leads to a door. */
static uint32_t random_word(int32_t distance)
{
	const uint32_t wide = (uint32_t)random_below(2) << 31;
	const uint32_t rd = low_register();
	const uint32_t rn = low_register();
	const uint32_t field19 = ((uint32_t)(distance / 4) & 0x7ffff) << 5;
	const uint32_t field14 = ((uint32_t)(distance / 4) & 0x3fff) << 5;

	switch (random_below(14)) {
	case 0:
		return 0x14000000 | ((uint32_t)(distance / 4) & 0x3ffffff);
	case 1:
		return 0x94000000 | ((uint32_t)(distance / 4) & 0x3ffffff);
	case 2:
		return 0x54000000 | field19 | (uint32_t)random_below(16);
	case 3:
		return 0x34000000 | wide | (uint32_t)random_below(2) << 24 | field19 | rd;
	case 4:
		return 0x36000000 | wide | (uint32_t)random_below(2) << 24 |
		       (uint32_t)random_below(32) << 19 | field14 | rd;
	case 5:
		return 0xd61f0000 | rn << 5;
	case 6:
		return 0xd63f0000 | rn << 5;
	case 7:
		return 0xd65f0000 | rn << 5;
	case 8:
		return 0x10000000 | wide | (uint32_t)random_below(4) << 29 |
		       (uint32_t)random_below(1 << 19) << 5 | rd;
	case 9:
		return 0x11000000 | wide | (uint32_t)random_below(2) << 30 |
		       (uint32_t)random_below(2) << 22 |
		       (uint32_t)random_below(4096) << 10 | rn << 5 | rd;
	case 10: {
		static const uint32_t moves[] = { 0x12800000, 0x52800000, 0x72800000 };

		return moves[random_below(3)] | wide |
		       (uint32_t)random_below(wide ? 4 : 2) << 21 |
		       (uint32_t)random_below(65536) << 5 | rd;
	}
	case 11:
		return 0xd503201f;
	case 12: /* ldr literal */
		return 0x18000000 | (uint32_t)random_below(3) << 30 | field19 | rd;
	default: /* add (shifted register) */
		return 0x0b000000 | wide | low_register() << 16 | rn << 5 | rd;
	}
}

static void run(struct frame *frame, const uint8_t *at, struct insn_regs *regs)
{
	memcpy(frame->r, regs->r, sizeof(frame->r));
	frame->flags = regs->flags;
	frame->entry = (uint64_t)(uintptr_t)at;
	arm64_enter(frame);
	memcpy(regs->r, frame->r, REGISTERS * sizeof(uint64_t));
	regs->r[INSN_ARM64_LR] = frame->r[INSN_ARM64_LR];
	regs->flags = frame->flags;
}

static int same(const struct insn_regs *a, const struct insn_regs *b, uint32_t word)
{
	for (unsigned int i = 0; i <= INSN_ARM64_LR; i++) {
		if (i >= REGISTERS && i != INSN_ARM64_LR)
			continue;
		if (a->r[i] == b->r[i])
			continue;
		printf("# %08x: x%u is %#" PRIx64 " executed, %#" PRIx64 " copied\n", word,
		       i, a->r[i], b->r[i]);
		return 0;
	}
	return a->flags == b->flags;
}

struct counts {
	unsigned int copied;
	unsigned int wrong;
};

static void try_one(struct counts *c)
{
	uint8_t *at = code + 4096;
	const int32_t distance =
		(random_below(2) ? 1 : -1) * (int32_t)(64 + random_below(200) * 4);
	const uint32_t word = random_word(distance);
	struct insn insn;
	struct insn_copy copy;
	struct frame frame;
	struct insn_regs start = { .known = INSN_KNOWS_ARM64 | INSN_KNOWS_FLAGS };

	if (insn_decode_arm64(&word, sizeof(word), &insn))
		return;
	for (unsigned int i = 0; i < 31; i++)
		start.r[i] = random_next() >> random_below(64);
	start.flags = (random_next() & 15) << 28;
	if (insn.target_reg < REGISTERS && !(insn.flags & INSN_RELATIVE_BRANCH))
		start.r[insn.target_reg] = (uint64_t)(uintptr_t)(at + distance);
	start.r[INSN_ARM64_PC] = (uint64_t)(uintptr_t)at;

	put(at, word);
	put_door(at + 4, arm64_door_0);
	put_door(at + distance, arm64_door_1);
	__builtin___clear_cache((char *)code, (char *)code + 8192);
	struct insn_regs executed = start;
	run(&frame, at, &executed);
	const uint64_t way = frame.left_by;

	if (insn_relocate_arm64(&insn, &word, start.r[INSN_ARM64_PC],
				(uint64_t)(uintptr_t)copies, &copy, NULL))
		return;
	memcpy(copies, copy.bytes, copy.length);
	put_door(copies + copy.length, arm64_door_0);
	__builtin___clear_cache((char *)copies, (char *)copies + 64);
	struct insn_regs moved = start;
	run(&frame, copies, &moved);
	c->copied++;
	c->wrong += !same(&executed, &moved, word) || frame.left_by != way;
}

int main(void)
{
	struct counts c = { 0 };

	random_seed();
	code = mmap(NULL, 16384, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Far enough for conditional branches to need a longer one. */
	copies = mmap(code + (64 << 20), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED || copies == MAP_FAILED)
		return 1;
	for (unsigned int i = 0; i < ROUNDS; i++)
		try_one(&c);
	printf("1..1\n# %u copied, %u wrong\n", c.copied, c.wrong);
	const int passed = !c.wrong && c.copied > ROUNDS / 2;
	printf("%s 1 - copied instructions end as executed ones\n", passed ? "ok" : "not ok");
	return !passed;
}
