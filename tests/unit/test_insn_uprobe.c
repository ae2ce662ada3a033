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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_rules_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
