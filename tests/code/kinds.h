/* SPDX-License-Identifier: MIT */
/* kinds.h - a function with an instruction of every kind, and what comes of it. */
#ifndef TESTS_CODE_KINDS_H
#define TESTS_CODE_KINDS_H

#include <stdint.h>

/* SITE notes where each instruction begins. */
#define SITE ".pushsection all_sites, \"aw\"\n .quad 1f\n .popsection\n1:\n "
extern const uint64_t __start_all_sites[];
extern const uint64_t __stop_all_sites[];

uint64_t all_kinds(uint64_t n, uint64_t *memory);
__asm__(".text\n.p2align 4\n.globl all_kinds\nall_kinds:\n"
	SITE "endbr64\n"
	SITE "push %rbx\n"
	SITE "push %rbp\n"
	SITE "mov %rsp, %rbp\n"
	SITE "mov %rdi, %rcx\n"
	SITE "xor %eax, %eax\n"
	/* counted loop, with every kind of conditional branch */
	"2:\n"
	SITE "add %rcx, %rax\n"
	SITE "test $1, %cl\n"
	SITE "je 3f\n"
	SITE "lea 7(%rax,%rcx,2), %rax\n"
	"3:\n"
	SITE "cmp $5, %rcx\n"
	SITE "jbe 4f\n"
	SITE "add $0x11, %rax\n"
	"4:\n"
	SITE "jl 5f\n"
	SITE "xor $0x2a, %rax\n"
	"5:\n"
	SITE "js 6f\n"
	SITE "rol $3, %rax\n"
	"6:\n"
	SITE "loop 2b\n"
	SITE "jrcxz 7f\n"
	SITE "mov $1, %eax\n" /* never */
	"7:\n"
	/* calls: direct, by register, by memory, relative to the pc */
	SITE "call kinds_leaf\n"
	SITE "lea kinds_leaf(%rip), %rbx\n"
	SITE "call *%rbx\n"
	SITE "push %rbx\n"
	SITE "call *(%rsp)\n"
	SITE "pop %rbx\n"
	SITE "call *kinds_pointer(%rip)\n"
	/* jumps: far away, by register, by table */
	SITE "jmp 8f\n"
	".skip 200, 0xcc\n"
	"8:\n"
	SITE "lea 9f(%rip), %rdx\n"
	SITE "jmp *%rdx\n"
	".skip 3, 0xcc\n"
	"9:\n"
	SITE "lea kinds_table(%rip), %rdx\n"
	SITE "mov $1, %ecx\n"
	SITE "jmp *(%rdx,%rcx,8)\n"
	".skip 3, 0xcc\n"
	"kinds_landing:\n"
	/* memory, relative to the pc and not; flags that must survive; vector; string; syscall */
	SITE "addq $5, kinds_word(%rip)\n"
	SITE "xor kinds_word(%rip), %rax\n"
	SITE "lock addq $3, (%rsi)\n"
	SITE "stc\n"
	SITE "nop\n"
	SITE "adc $0, %rax\n"
	SITE "movq %rax, %xmm0\n"
	SITE "paddq kinds_vector(%rip), %xmm0\n"
	SITE "movq %xmm0, %rax\n"
	SITE "push %rax\n"
	SITE "mov $39, %eax\n" /* getpid */
	SITE "syscall\n"
	SITE "mov %rax, 8(%rsi)\n"
	SITE "pop %rax\n"
	SITE "lea 16(%rsi), %rdi\n"
	SITE "mov $4, %ecx\n"
	SITE "rep stosb\n"
	SITE "cmp %rax, %rax\n"
	SITE "cmove %rax, %rdx\n"
	SITE "leave\n"
	SITE "pop %rbx\n"
	SITE "ret\n"
	"kinds_leaf:\n"
	SITE "add $0x101, %rax\n"
	SITE "ret $0\n"
	".data\n.p2align 4\n"
	"kinds_pointer: .quad kinds_leaf\n"
	"kinds_table: .quad 0, kinds_landing\n"
	"kinds_word: .quad 0\n"
	".p2align 4\nkinds_vector: .quad 0x1234, 0\n"
	".text\n");
extern uint64_t kinds_word;

struct outcome {
	uint64_t result;
	uint64_t memory[3];
	uint64_t word;
};

static inline struct outcome run_kinds(uint64_t n)
{
	struct outcome out = {0};

	kinds_word = n;
	out.result = all_kinds(n, out.memory);
	out.word = kinds_word;
	return out;
}

#endif
