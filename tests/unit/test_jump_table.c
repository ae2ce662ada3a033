/* SPDX-License-Identifier: MIT */
/* test_jump_table.c - indirect jumps as compilers write them: by tables, through pointers, and others. x86-64. */
#include "code/reach/jump_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PAST 24

/* Never executed. Each ends with its jump. */
#define CODE(name, text)                                                       \
	extern const uint8_t name[];                                           \
	__asm__(".pushsection .rodata\n" #name ":\n" text ".popsection\n")

__asm__(".pushsection .rodata\ntable:\n.zero 64\nother:\n.zero 64\n.popsection\n");
extern const uint8_t table[];

CODE(optimized, "cmp $9,%edi\nja table\nmov %edi,%eax\nlea table(%rip),%rdx\n"
		"movslq (%rdx,%rax,4),%rax\nadd %rdx,%rax\njmp *%rax\n");
CODE(not_optimized, "cmp $6,%eax\nja table\nmov %eax,%eax\nlea 0(,%rax,4),%rdx\nlea table(%rip),%rax\n"
		    "mov (%rdx,%rax,1),%eax\ncltq\nlea table(%rip),%rdx\nadd %rdx,%rax\njmp *%rax\n");
CODE(by_addresses, "and $7,%edi\njmp *table-optimized(,%rdi,8)\n");
CODE(by_base, "cmpl $3,%edi\njae table\nlea table(%rip),%rdx\njmp *(%rdx,%rdi,8)\n");
CODE(no_bound, "lea table(%rip),%rdx\nmovslq (%rdx,%rax,4),%rax\nadd %rdx,%rax\njmp *%rax\n");
CODE(two_tables, "cmp $9,%eax\nja table\nlea table(%rip),%rdx\nmovslq (%rdx,%rax,4),%rax\n"
		 "lea other(%rip),%rdx\nadd %rdx,%rax\njmp *%rax\n");
CODE(behind_a_call, "lea table(%rip),%rdx\ncall table\ncmp $9,%ecx\nja table\nmovslq (%rdx,%rcx,4),%rcx\n"
		    "add %rdx,%rcx\njmp *%rcx\n");
CODE(pointer, "mov 8(%rdi),%rax\njmp *%rax\n");
CODE(in_memory, "jmp *16(%rdi)\n");
CODE(argument, "xor %eax,%eax\njmp *%rsi\n");
CODE(computed, "add $16,%rsi\njmp *%rsi\n");

struct found {
	struct jump jump;
	uint32_t bound;
};

/* The instructions from there to the jump. */
static struct found find(const uint8_t *code, const uint64_t *bases)
{
	struct jump_past in_order[PAST];
	struct jump_past past[PAST];
	struct found found;
	uint32_t n = 0;

	for (;; n++) {
		struct jump_past *p = &in_order[n];

		assert_true(n < PAST);
		*p = (struct jump_past){ .pc = (uintptr_t)code, .code = code };
		assert_int_equal(insn_decode(code, INSN_LENGTH_MAX, &p->insn), 0);
		if (p->insn.kind == INSN_JUMP_INDIRECT)
			break;
		code += p->insn.length;
	}
	for (uint32_t i = 0; i < n; i++)
		past[i] = in_order[n - 1 - i];
	jump_find(past, n, &in_order[n], bases, &found.jump);
	found.bound = jump_bound(past, n, found.jump.index, found.jump.row);
	return found;
}

static void check(const uint8_t *code, enum jump_kind kind, uint32_t bound)
{
	const struct found found = find(code, NULL);

	assert_int_equal(found.jump.kind, kind);
	if (kind != JUMP_DISTANCES && kind != JUMP_ADDRESSES)
		return;
	assert_int_equal(found.bound, bound);
}

static void switches_have_their_table_and_its_length(void **state)
{
	check(optimized, JUMP_DISTANCES, 10);
	check(not_optimized, JUMP_DISTANCES, 7);
	check(by_addresses, JUMP_ADDRESSES, 8);
	check(by_base, JUMP_ADDRESSES, 3);
	assert_int_equal(find(optimized, NULL).jump.table, (uintptr_t)table);
	assert_int_equal(find(not_optimized, NULL).jump.table, (uintptr_t)table);
	assert_int_equal(find(by_base, NULL).jump.table, (uintptr_t)table);
}

static void a_table_without_a_comparison_has_no_length(void **state)
{
	check(no_bound, JUMP_DISTANCES, 0);
}

static void a_distance_from_another_location_is_no_target(void **state)
{
	check(two_tables, JUMP_UNKNOWN, 0);
	check(computed, JUMP_UNKNOWN, 0);
}

static void pointers_are_told_from_what_came_in(void **state)
{
	check(pointer, JUMP_POINTER, 0);
	check(in_memory, JUMP_POINTER, 0);
	check(argument, JUMP_INITIAL, 0);
}

static void what_a_call_overwrites_is_known_by_the_only_base_of_the_function(void **state)
{
	uint64_t bases[JUMP_REGISTERS] = { 0 };

	check(behind_a_call, JUMP_UNKNOWN, 0);
	bases[INSN_RDX] = (uintptr_t)table;
	const struct found found = find(behind_a_call, bases);
	assert_int_equal(found.jump.kind, JUMP_DISTANCES);
	assert_int_equal(found.jump.table, (uintptr_t)table);
	assert_int_equal(found.bound, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(switches_have_their_table_and_its_length),
		cmocka_unit_test(a_table_without_a_comparison_has_no_length),
		cmocka_unit_test(a_distance_from_another_location_is_no_target),
		cmocka_unit_test(pointers_are_told_from_what_came_in),
		cmocka_unit_test(what_a_call_overwrites_is_known_by_the_only_base_of_the_function),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("jump_table", tests, NULL, NULL);
}
