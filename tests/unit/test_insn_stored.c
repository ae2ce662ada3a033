/* SPDX-License-Identifier: MIT */
/* test_insn_stored.c - what a plain store will leave is known before it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "code/insn/insn_stored.h"
#include "insn_text.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_store_leaves_what_it_will),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
