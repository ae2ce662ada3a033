/* SPDX-License-Identifier: MIT */
/* test_insn_uprobe.c - what the kernel refuses to probe is told by its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "code/insn/insn.h"
#include "code/insn/insn_uprobe.h"
#include "insn_text.h"

static void the_kernels_rules_are_known(void **state)
{
	static const struct {
		const char *text;
		unsigned int refusal;
	} cases[] = {
		{ "f0ff07", 0x1f0 },			/* lock incl (%rdi) */
		{ "66f0ff07", 0x1f0 },			/* behind another prefix */
		{ "3e90", 0x13e },			/* ds nop */
		{ "2ee900000000", 0x12e },		/* cs jmp */
		{ "c5f9efc0", INSN_UPROBE_VECTOR },	/* vpxor */
		{ "c5f96ec7", INSN_UPROBE_VECTOR },	/* vmovd */
		{ "c4e17af0f8", INSN_UPROBE_VECTOR },	/* vlddqu */
		{ "62f17e086f06", INSN_UPROBE_VECTOR }, /* vmovdqu32 */
		{ "62f17e087f06", INSN_UPROBE_VECTOR },
		{ "c5f877", INSN_UPROBE_VECTOR }, /* vzeroupper */
		{ "cc", 0xcc },
		{ "f4", 0xf4 },
		{ "55", 0 },
		{ "4155", 0 },
		{ "488b06", 0 },
		{ "640fb706", 0 }, /* fs */
		{ "f30f1efa", 0 }, /* endbr64 */
		{ "660fefc0", 0 }, /* pxor: the table of two bytes */
		{ "f2c3", 0 },
		{ "c3", 0 },
		{ "8fe978c2c1", INSN_UPROBE_VECTOR }, /* vphadddq of XOP */
		{ "8f4424f8", 0 },		      /* pop */
		{ "65c5f9eb07", INSN_UPROBE_VECTOR },
		{ "", 0 },
		{ "c5", INSN_UPROBE_VECTOR },
		{ "62f17e", INSN_UPROBE_VECTOR },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		size_t n = text_bytes(cases[i].text, bytes, sizeof(bytes));

		assert_int_equal(insn_uprobe_refusal_x86_64(bytes, n), cases[i].refusal);
	}
}

static void nops_are_known_by_what_they_do(void **state)
{
	static const struct {
		const char *text;
		unsigned int length;
	} cases[] = {
		{ "90", 1 },
		{ "0f1f440000", 5 },
		{ "660f1f4000", 5 },
		{ "6666666690", 5 },
		{ "662e0f1f840000000000", 10 },
		{ "e900000000", 5 }, /* jmp to what follows */
		{ "488d742600", 5 }, /* lea 0(%rsi), %rsi */
		{ "66664889c0", 5 }, /* mov %rax, %rax */
		{ "e901000000", 0 },
		{ "e800000000", 0 }, /* call: it pushes */
		{ "488d742601", 0 },
		{ "4889c8", 0 }, /* mov %rcx, %rax */
		{ "b800000000", 0 },
		{ "f30f1efa", 0 }, /* endbr64 */
		{ "0f1f44", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		size_t n = text_bytes(cases[i].text, bytes, sizeof(bytes));

		assert_int_equal(insn_uprobe_nop_x86_64(bytes, n), cases[i].length);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_rules_are_known),
		cmocka_unit_test(nops_are_known_by_what_they_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
