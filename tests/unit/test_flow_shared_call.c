/* SPDX-License-Identifier: MIT */
/*
 * test_flow_shared_call.c - the system calls that glibc's functions share from 2.41 on are found, and which function
 * makes one is known there.
 *
 * The functions here make the calls in the same ways: a number on the stack, one call that has no thread to cancel,
 * and one that a cancelled thread leaves. A debugger's view is not needed: they run, and look at their own stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flow/flow_shared_call.h"

/* Each returns the word of the stack that a site would look at. */
extern const char shared_begin[], shared_end[], shared_function[], direct_behind[], other_behind[];
extern const char own_number[], by_frame[], deep_call[];
uint64_t shared_looks(long is_other);
extern const char shared_caller[];

__asm__(".text\n"
	"shared_begin:\n"
	/* (rdi: which of the two) */
	"	.globl shared_looks\n"
	"shared_looks:\n"
	"	subq $16, %rsp\n"
	"	pushq $39\n" /* getpid */
	"	call shared_function\n"
	"shared_caller:\n"
	"	addq $24, %rsp\n"
	"	movq %rdx, %rax\n"
	"	ret\n"
	"shared_function:\n"
	"	subq $16, %rsp\n"
	"	pushq 24(%rsp)\n"
	"	call inner\n"
	"	popq %rcx\n"
	"	popq %rcx\n"
	"	addq $8, %rsp\n"
	"	ret\n"
	"inner:\n"
	"	pushq %rbx\n"
	"	testq %rdi, %rdi\n"
	"	je 1f\n"
	"	pushq %r9\n"
	"	pushq %r8\n"
	"	movq 32(%rsp), %rsi\n"
	"	call cancellable\n"
	"	popq %rcx\n"
	"	popq %rcx\n"
	"	popq %rbx\n"
	"	ret\n"
	"1:	movq 16(%rsp), %rax\n"
	"	syscall\n"
	"direct_behind:\n"
	"	movq 40(%rsp), %rdx\n"
	"	popq %rbx\n"
	"	ret\n"
	"cancellable:\n"
	"	testb $0, (%rsp)\n"
	"	jne own_number\n"
	"	movq %rsi, %rax\n"
	"	syscall\n"
	"other_behind:\n"
	"	movq 64(%rsp), %rdx\n"
	"	ret\n"
	/* Must not: its own number, a frame that the walk cannot follow, calls that are too deep. */
	"own_number:\n"
	"	movl $39, %eax\n"
	"	syscall\n"
	"	ret\n"
	"by_frame:\n"
	"	movq %rdi, %rsp\n"
	"	movq 16(%rsp), %rax\n"
	"	syscall\n"
	"	ret\n"
	"deep_call:\n"
	"	call 1f\n"
	"	ret\n"
	"1:	call 1f\n"
	"	ret\n"
	"1:	call 1f\n"
	"	ret\n"
	"1:	movq %rsi, %rax\n"
	"	syscall\n"
	"	ret\n"
	"shared_end:\n");

static uint32_t find(const char *function, struct flow_shared_call *out)
{
	return flow_shared_calls((uint64_t)(uintptr_t)function, (uint64_t)(uintptr_t)shared_begin,
				 (uint64_t)(uintptr_t)shared_end, out);
}

static void both_calls_are_found(void **state)
{
	struct flow_shared_call out[FLOW_SHARED_CALLS];
	uint32_t seen = 0;

	(void)state;
	assert_int_equal(find(shared_function, out), 2);
	for (int i = 0; i < 2; i++) {
		if (out[i].behind == (uint64_t)(uintptr_t)direct_behind && out[i].above == 40)
			seen |= 1;
		if (out[i].behind == (uint64_t)(uintptr_t)other_behind && out[i].above == 64)
			seen |= 2;
	}
	assert_int_equal(seen, 3);
}

/* What the walk says is what is there when they run. */
static void the_caller_is_where_it_is_told(void **state)
{
	(void)state;
	assert_int_equal(shared_looks(0), (uint64_t)(uintptr_t)shared_caller);
	assert_int_equal(shared_looks(1), (uint64_t)(uintptr_t)shared_caller);
}

static void others_have_none(void **state)
{
	struct flow_shared_call out[FLOW_SHARED_CALLS];

	(void)state;
	assert_int_equal(find(own_number, out), 0);
	assert_int_equal(find(by_frame, out), 0);
	assert_int_equal(find(deep_call, out), 0);
	assert_int_equal(flow_shared_calls(16, 32, 64, out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_calls_are_found),
		cmocka_unit_test(the_caller_is_where_it_is_told),
		cmocka_unit_test(others_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
