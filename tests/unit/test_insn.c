/* SPDX-License-Identifier: MIT */
/*
 * test_insn.c - known x86-64 instructions: length, kind, memory, flags, addresses, branches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "insn_text.h"

struct golden {
	const char *hex;
	const char *text; /* as text_insn() has it */
};

static const struct golden golden[] = {
	{ "90", "1 nop" },
	{ "66900f", "2 nop" },
	{ "0f1f440000", "5 nop" },
	{ "f390", "2 nop" },
	{ "f30f1efa", "4 landing" },
	{ "50", "1 other sp-8; w8 [rsp-8] i" },
	{ "6650", "2 other sp-2; w2 [rsp-2] i" },
	{ "58", "1 other sp+8; r8 [rsp] i" },
	{ "5c", "1 other; r8 [rsp] i" },
	{ "ff30", "2 other sp-8; r8 [rax]; w8 [rsp-8] i" },
	{ "8f00", "2 other sp+8; w8 [rax]; r8 [rsp] i" },
	{ "8f442408", "4 other sp+8; w8 [rsp+16]; r8 [rsp] i" },
	{ "c3", "1 ret sp+8; r8 [rsp] i" },
	{ "c20800", "3 ret sp+16; r8 [rsp] i" },
	{ "c9", "1 other; r8 [rbp] i" },
	{ "c8100000", "4 other; w8 [rsp-8] i" },
	{ "c8100002", "4 other; w24 [rsp-24] i; r8 [rbp-8] i" },
	{ "e800000000", "5 call -> +5 sp-8; w8 [rsp-8] i" },
	{ "ff10", "2 icall sp-8; r8 [rax]; w8 [rsp-8] i" },
	{ "ffd0", "2 icall sp-8; w8 [rsp-8] i" },
	{ "ff20", "2 ijump; r8 [rax]" },
	{ "ffe0", "2 ijump" },
	{ "ff18", "2 icall far; r6 [rax]; w8 [rsp-8] i" },
	{ "9c", "1 other sp-8; w8 [rsp-8] i" },
	{ "9d", "1 other sp+8; r8 [rsp] i" },
	{ "f3a4", "2 string rep; w1 [rdi] i c rep; r1 [rsi] i c rep" },
	{ "48a5", "2 string; w8 [rdi] i; r8 [rsi] i" },
	{ "f348ab", "3 string rep; w8 [rdi] i c rep" },
	{ "6748a4", "3 string; w1 [rdi] i a32; r1 [rsi] i a32" },
	{ "64a4", "2 string; w1 [rdi] i; r1 fs:[rsi] i" },
	{ "a6", "1 string; r1 [rsi] i; r1 [rdi] i" },
	{ "ac", "1 string; r1 [rsi] i" },
	{ "d7", "1 other; r1 [rbx+u8:rax*1] i" },
	{ "0f0d08", "3 other hint" },
	{ "0fae38", "3 other; r1 [rax]" },
	{ "0f01fc", "3 other; w64 [rax] i line" },
	{ "480fa303", "4 other; r8 [rbx] bit" },
	{ "0fbae103", "4 other" },
	{ "0fba2003", "4 other; r4 [rax]" },
	{ "480fc708", "4 other; rw16 [rax] c" },
	{ "f0480fc708", "5 other atomic; rw16 [rax] c" },
	{ "f0480fc101", "5 other atomic; rw8 [rcx]" },
	{ "8700", "2 other atomic; rw4 [rax]" },
	{ "87c0", "2 other" },
	{ "480fae20", "4 other; rw0 [rax] c ?" },
	{ "0fae00", "3 other; w512 [rax]" },
	{ "dd30", "2 other; w108 [rax]" },
	{ "d900", "2 other; r4 [rax]" },
	{ "db28", "2 other; r10 [rax]" },
	{ "62f17c585808", "6 other; r4 [rax]" },
	{ "62f17c495808", "6 other; r64 [rax] c" },
	{ "660ff7c1", "4 other; w16 [rdi] i c" },
	{ "660f38f800", "5 other; r64 [rax]; w64 [rax] i" },
	{ "c4e27b4b0403", "6 other; r0 [rbx+rax*1] ? !" },
	{ "c4e26990040b", "6 other; r4 [rbx+v1.32*1] c L 4x4" },
	{ "62f27d49920408", "7 other; r4 [rax+v1.32*1] c L 16x4" },
	{ "62f27d49a20408", "7 other; w4 [rax+v1.32*1] c L 16x4" },
	{ "c4e2ed920409", "6 other; r8 [rcx+v1.32*1] c L 4x8" },
	{ "8d00", "2 other" },
	{ "cc", "1 trap" },
	{ "cd80", "2 syscall" },
	{ "cd03", "2 trap" },
	{ "0f0b", "2 trap" },
	{ "f4", "1 other privileged" },
	{ "0f05", "2 syscall" },
	{ "eb10", "2 jump -> +18" },
	{ "7510", "2 jcc -> +18" },
	{ "0f8500010000", "6 jcc -> +262" },
	{ "e310", "2 jcc -> +18" },
	{ "67e310", "3 jcc -> +19" },
	{ "e210", "2 jcc -> +18" },
	{ "66eb00", "3 jump -> +3 fixed" },
	/* Intel and AMD differ: the larger size. */
	{ "666301", "3 other; r4 [rcx] c" },
	{ "6301", "2 other; r4 [rcx]" },
	{ "486301", "3 other; r4 [rcx]" },
	{ "480fb201", "4 other; r10 [rcx] c" },
	{ "0fb401", "3 other; r6 [rcx]" },
	{ "48ff18", "3 icall far; r10 [rax] c; w16 [rsp-16] i c" },
	{ "66ff10", "3 icall fixed; r8 [rax] c; w8 [rsp-8] i c" },
	{ "66ff20", "3 ijump fixed; r8 [rax] c" },
	{ "66c3", "2 ret fixed; r8 [rsp] i c" },
	{ "f2e900000000", "6 jump -> +6" },
	{ "488b0500010000", "7 other pcrel; r8 [rip+263]" },
	{ "67488b0500010000", "8 other pcrel; r8 [rip+264] a32" },
	{ "488d0500010000", "7 other pcrel" },
	{ "ff2500010000", "6 ijump pcrel; r8 [rip+262]" },
	{ "6548a10011223344556677", "11 other; r8 gs:[+8603657889541918976]" },
	{ "64488b042528000000", "9 other; r8 fs:[+40]" },
	{ "4a8b44e510", "5 other; r8 [rbp+r12*8+16]" },
	{ "678b4508", "4 other; r4 [rbp+8] a32" },
	{ "0faef0", "3 fence" },
	{ "48cf", "2 ret; r40 [rsp] i" },
	{ "c7f800000000", "6 other -> +6 fixed" },
	{ "c4e278494000", "6 other; r64 [rax]" },
};

static void known_instructions_decode_as_they_should(void **state)
{
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		struct insn insn;
		char text[256];
		const size_t n = text_bytes(golden[i].hex, bytes, sizeof(bytes));

		assert_int_equal(insn_decode_x86_64(bytes, n, &insn), 0);
		text_insn(&insn, text, sizeof(text));
		if (strcmp(text, golden[i].text))
			fail_msg("%s: is \"%s\", should be \"%s\"", golden[i].hex, text,
				 golden[i].text);
		assert_int_equal(insn_length_x86_64(bytes, n), insn.length);
	}
}

static void cut_off_and_senseless_bytes_are_refused(void **state)
{
	struct insn insn;
	struct insn untouched;

	memset(&insn, 0x5a, sizeof(insn));
	untouched = insn;
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		const size_t n = text_bytes(golden[i].hex, bytes, sizeof(bytes));
		const int length = insn_length_x86_64(bytes, n);

		for (int cut = 0; cut < length; cut++)
			assert_int_equal(insn_decode_x86_64(bytes, (size_t)cut, &insn),
					 -ENODATA);
	}
	assert_int_equal(insn_decode_x86_64("\x06", 1, &insn), -EILSEQ);
	assert_int_equal(insn_decode_x86_64("\xf0\x8b\x00", 3, &insn), -EILSEQ);
	assert_memory_equal(&insn, &untouched, sizeof(insn));
}

static struct insn decode(const char *hex)
{
	uint8_t bytes[INSN_LENGTH_MAX];
	struct insn insn;
	const size_t n = text_bytes(hex, bytes, sizeof(bytes));

	assert_int_equal(insn_decode_x86_64(bytes, n, &insn), 0);
	return insn;
}

static struct insn_regs numbered_regs(void)
{
	struct insn_regs regs = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FS |
					   INSN_KNOWS_GS | INSN_KNOWS_FLAGS };

	for (unsigned int i = 0; i <= INSN_RIP; i++)
		regs.r[i] = 0x10000ull * (i + 1);
	regs.fs_base = 0x7f0000000000;
	regs.gs_base = 0x7e0000000000;
	return regs;
}

static void assert_address(const char *hex, unsigned int operand, uint64_t expected)
{
	const struct insn insn = decode(hex);
	const struct insn_regs regs = numbered_regs();
	uint64_t address = 0;

	assert_int_equal(insn_address(&insn, operand, &regs, &address), 0);
	if (address != expected)
		fail_msg("%s: address %#" PRIx64 ", should be %#" PRIx64, hex, address,
			 expected);
}

static void addresses_follow_the_registers(void **state)
{
	struct insn_regs regs = numbered_regs();

	assert_address("4a8b44e510", 0, regs.r[INSN_RBP] + 8 * regs.r[INSN_R12] + 16);
	assert_address("488b0500010000", 0, regs.r[INSN_RIP] + 7 + 0x100);
	assert_address("64488b042528000000", 0, regs.fs_base + 0x28);
	assert_address("6548a11000000000000000", 0, regs.gs_base + 0x10);
	assert_address("50", 0, regs.r[INSN_RSP] - 8);
	assert_address("8f442408", 0, regs.r[INSN_RSP] + 16);
	assert_address("48c704240000000000", 0, regs.r[INSN_RSP]);
	assert_address("678b40ff", 0, regs.r[INSN_RAX] - 1);
	assert_address("64678b40ff", 0, regs.fs_base + regs.r[INSN_RAX] - 1);
	assert_address("d7", 0, regs.r[INSN_RBX] + (regs.r[INSN_RAX] & 0xff));
	assert_address("64a4", 0, regs.r[INSN_RDI]);
	assert_address("64a4", 1, regs.fs_base + regs.r[INSN_RSI]);
}

static void bit_tests_reach_beyond_their_operand(void **state)
{
	struct insn_regs regs = numbered_regs();
	const struct insn bt64 = decode("480fa303"); /* bt %rax,(%rbx) */
	const struct insn bt16 = decode("660fa303");
	uint64_t address;

	regs.r[INSN_RAX] = 64 * 5 + 3;
	assert_int_equal(insn_address(&bt64, 0, &regs, &address), 0);
	assert_int_equal(address, regs.r[INSN_RBX] + 40);
	regs.r[INSN_RAX] = (uint64_t)-1;
	assert_int_equal(insn_address(&bt64, 0, &regs, &address), 0);
	assert_int_equal(address, regs.r[INSN_RBX] - 8);
	assert_int_equal(insn_address(&bt16, 0, &regs, &address), 0);
	assert_int_equal(address, regs.r[INSN_RBX] - 2);
}

static void what_is_not_known_is_not_guessed(void **state)
{
	struct insn_regs regs = numbered_regs();
	const struct insn load = decode("4a8b44e510");
	const struct insn thread_local_load = decode("64488b042528000000");
	const struct insn gather = decode("c4e26990040b"); /* vpgatherdd (%rbx,%xmm1,1) */
	const struct insn tile = decode("c4e27b4b0403");
	uint64_t address = 77;

	regs.known &= ~(1ull << INSN_R12 | INSN_KNOWS_FS);
	assert_int_equal(insn_address(&load, 0, &regs, &address), -ENODATA);
	assert_int_equal(insn_address(&thread_local_load, 0, &regs, &address), -ENODATA);
	assert_int_equal(insn_address(&load, 1, &regs, &address), -EINVAL);
	assert_int_equal(insn_address(&gather, 0, &regs, &address), -EOPNOTSUPP);
	assert_int_equal(insn_address(&tile, 0, &regs, &address), -EOPNOTSUPP);
	assert_int_equal(insn_touches(&gather, 0, &regs, 0, 8), 2);
	assert_int_equal(address, 77);
}

static void touching_is_an_overlap_of_bytes(void **state)
{
	const struct insn_regs regs = numbered_regs();
	const struct insn load = decode("8b00"); /* mov (%rax),%eax: 4 bytes */
	const uint64_t at = regs.r[INSN_RAX];

	assert_int_equal(insn_touches(&load, 0, &regs, at, 1), 1);
	assert_int_equal(insn_touches(&load, 0, &regs, at + 3, 1), 1);
	assert_int_equal(insn_touches(&load, 0, &regs, at + 4, 8), 0);
	assert_int_equal(insn_touches(&load, 0, &regs, at - 8, 8), 0);
	assert_int_equal(insn_touches(&load, 0, &regs, at - 8, 9), 1);
}

static void branches_follow_the_flags(void **state)
{
	struct insn_regs regs = numbered_regs();
	const struct insn je = decode("7410");
	const struct insn jg = decode("7f10");
	const struct insn jrcxz = decode("e310");
	const struct insn jecxz = decode("67e310");
	const struct insn loop = decode("e210");
	const struct insn nop = decode("90");

	regs.flags = 1 << 6;
	assert_int_equal(insn_branch_taken(&je, &regs), 1);
	assert_int_equal(insn_branch_taken(&jg, &regs), 0);
	regs.flags = 1 << 7 | 1 << 11;
	assert_int_equal(insn_branch_taken(&je, &regs), 0);
	assert_int_equal(insn_branch_taken(&jg, &regs), 1);
	regs.r[INSN_RCX] = 1ull << 32;
	assert_int_equal(insn_branch_taken(&jrcxz, &regs), 0);
	assert_int_equal(insn_branch_taken(&jecxz, &regs), 1);
	regs.r[INSN_RCX] = 1;
	assert_int_equal(insn_branch_taken(&loop, &regs), 0);
	assert_int_equal(insn_branch_taken(&nop, &regs), -EINVAL);
	regs.known &= ~INSN_KNOWS_FLAGS;
	assert_int_equal(insn_branch_taken(&je, &regs), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_instructions_decode_as_they_should),
		cmocka_unit_test(cut_off_and_senseless_bytes_are_refused),
		cmocka_unit_test(addresses_follow_the_registers),
		cmocka_unit_test(bit_tests_reach_beyond_their_operand),
		cmocka_unit_test(what_is_not_known_is_not_guessed),
		cmocka_unit_test(touching_is_an_overlap_of_bytes),
		cmocka_unit_test(branches_follow_the_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
