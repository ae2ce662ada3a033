/* SPDX-License-Identifier: MIT */
/* forms_arm64.h - one function for each form of instruction, which tests put something on. */
#ifndef TESTS_CODE_FORMS_ARM64_H
#define TESTS_CODE_FORMS_ARM64_H

#include "words_arm64.h"

struct registers {
	uint64_t x[4];
	uint64_t flags;
	uint64_t way; /* 1: it fell through, 2: it was a branch */
	uint64_t link;
};
struct form {
	void (*run)(struct registers *);
	uint64_t site;
};

/*
 * x10 is the structure, x5 the target of branches, x30 as if at label 5. What the form leaves goes
 * back. */
#define FORM(number, instruction) \
	".globl form_" #number "\n" \
	"form_" #number ":\n" \
	"stp x29, x30, [sp, #-32]!\n" \
	"str x28, [sp, #16]\n" \
	"mov x10, x0\n" \
	"ldp x2, x3, [x10, #16]\n" \
	"ldr x4, [x10, #32]\n" \
	"msr nzcv, x4\n" \
	"ldp x0, x1, [x10]\n" \
	"mov x6, #0\n" \
	"mov x8, #172\n" /* getpid() */ \
	"adr x5, 2f\n" \
	"adr x30, 2f\n" \
	"adr x28, 4f\n" \
	"9: " instruction "\n" \
	"mov x6, #1\n" \
	"b 3f\n" \
	"2: hint #36\n" /* bti j */ \
	"mov x6, #2\n" \
	"3: mrs x4, nzcv\n" \
	"stp x0, x1, [x10]\n" \
	"stp x2, x3, [x10, #16]\n" \
	"stp x4, x6, [x10, #32]\n" \
	"str x30, [x10, #48]\n" \
	"ldr x28, [sp, #16]\n" \
	"ldp x29, x30, [sp], #32\n" \
	"ret\n" \
	".balign 8\n" \
	"4: .quad 0x8123456789abcdef\n" \
	".pushsection forms, \"aw\"\n" \
	".quad form_" #number ", 9b\n" \
	".popsection\n"

__asm__(".text\n.balign 64\n" FORM(1, "nop") FORM(2, "b 2f") FORM(3, "bl 2f") FORM(4, "br x5")
	FORM(5, "blr x5") FORM(6, "ret") FORM(7, "ret x5") FORM(8, "cbz x0, 2f")
	FORM(9, "cbz w0, 2f") FORM(10, "cbnz x0, 2f") FORM(11, "cbnz w1, 2f")
	FORM(12, "tbz x0, #0, 2f") FORM(13, "tbz x0, #33, 2f") FORM(14, "tbnz x1, #63, 2f")
	FORM(15, "tbnz w1, #7, 2f") FORM(16, "cbz xzr, 2f") FORM(17, "cbnz wzr, 2f"));
__asm__(FORM(20, "b.eq 2f") FORM(21, "b.ne 2f") FORM(22, "b.cs 2f") FORM(23, "b.cc 2f")
	FORM(24, "b.mi 2f") FORM(25, "b.pl 2f") FORM(26, "b.vs 2f") FORM(27, "b.vc 2f")
	FORM(28, "b.hi 2f") FORM(29, "b.ls 2f") FORM(30, "b.ge 2f") FORM(31, "b.lt 2f")
	FORM(32, "b.gt 2f") FORM(33, "b.le 2f") FORM(34, "b.al 2f")
	FORM(35, ".inst 0x5400004f /* b.nv */"));
__asm__(FORM(40, "adr x1, 2f") FORM(41, "adrp x1, 2f") FORM(42, "ldr x1, 4f")
	FORM(43, "ldr w1, 4f") FORM(44, "ldrsw x1, 4f") FORM(45, "add x1, x0, x2")
	FORM(46, "adds x1, x0, x2") FORM(47, "subs w1, w0, w2") FORM(48, "csel x1, x0, x2, lt")
	FORM(49, "ldr x1, [x28]") FORM(50, "ldp w1, w2, [x28]") FORM(51, "str x1, [x10, #24]")
	FORM(52, "hint #34") FORM(53, "hint #36") FORM(54, "isb") FORM(55, "dmb ish")
	FORM(56, "svc #0") FORM(57, "mrs x1, tpidr_el0") FORM(58, "fmov d0, x1")
	FORM(59, "movk x1, #0x55, lsl #16") FORM(60, "hint #25") FORM(61, "prfm pldl1keep, 4f")
	FORM(62, "ldr x1, [x28], #8") FORM(63, "adcs x1, x1, x2"));

extern struct form __start_forms[];
extern struct form __stop_forms[];
#define FORMS ((size_t)(__stop_forms - __start_forms))

#define INPUTS 48
static uint64_t random_state = 88172645463325252ull;

static uint64_t random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static void make_input(size_t i, struct registers *r)
{
	static const uint64_t corners[] = { 0, 1, ~0ull, 1ull << 63, 1ull << 32, 0x80, 1ull << 33 };

	for (int n = 0; n < 4; n++)
		r->x[n] = i % 3 ? corners[random_number() % 7] : random_number();
	r->flags = (i % 16) << 28;
	r->way = r->link = 0;
}

#endif
