/* SPDX-License-Identifier: MIT */
/*
 * window_machine.h - pieces of code that are entered and left with all general registers and flags as
 * a structure says, natively or in a window.
 *
 * The code is copied with its data, so that what it names by distance comes along: beside the library,
 * or more than 2 GB away from it.
 */
#ifndef TESTS_WINDOW_MACHINE_H
#define TESTS_WINDOW_MACHINE_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
	M_RAX,
	M_RDX,
	M_RCX,
	M_RBX,
	M_RSI,
	M_RDI,
	M_RBP,
	M_RSP
};

struct machine {
	uint64_t r[16]; /* DWARF numbers */
	uint64_t flags;
};

struct machine machine; /* in and out */
uint64_t machine_host_rsp, machine_code;

void machine_run_asm(void);
extern const char machine_back[];

#define M_LOAD(n, reg) "movq machine+8*" #n "(%rip), %" #reg "\n\t"
#define M_STORE(n, reg) "movq %" #reg ", machine+8*" #n "(%rip)\n\t"
#define M_ALL(x)                                                                                \
	x(0, rax) x(1, rdx) x(2, rcx) x(3, rbx) x(4, rsi) x(5, rdi) x(6, rbp) x(8, r8) x(9, r9) \
		x(10, r10) x(11, r11) x(12, r12) x(13, r13) x(14, r14) x(15, r15)

__asm__(".text\n"
	".globl machine_run_asm, machine_back\n"
	"machine_run_asm:\n\t"
	"pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	"movq %rsp, machine_host_rsp(%rip)\n\t"
	"pushq machine+128(%rip)\n\tpopfq\n\t" M_ALL(M_LOAD) M_LOAD(
		7,
		rsp) "jmp *machine_code(%rip)\n"
		     "machine_back:\n\t" M_ALL(M_STORE) M_STORE(
			     7,
			     rsp) "movq machine_host_rsp(%rip), %rsp\n\t"
				  "pushfq\n\tpopq machine+128(%rip)\n\tcld\n\t"
				  "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\t"
				  "ret\n");

static inline void machine_run(uint64_t code)
{
	machine_code = code;
	machine_run_asm();
}

/*
 * The template: pieces, one page of data, one page that is not accessible in the copies.
 *	FORM(name, "instructions")
 */
#define FORM(name, text)                                       \
	__asm__(".pushsection forms, \"aw\", @progbits\n"      \
		"771:\n\t" text "\n\t"                         \
		"jmp *form_back(%rip)\n"                       \
		".popsection\n"                                \
		".pushsection form_rows, \"a\", @progbits\n\t" \
		".balign 8\n\t"                                \
		".quad 771b - forms_begin\n"                   \
		"3:\t.asciz \"" name "\"\n\t"                  \
		".skip 24 - (. - 3b)\n"                        \
		".popsection");

struct form_row {
	uint64_t offset;
	char name[24];
};

__asm__(".pushsection forms, \"aw\", @progbits\n"
	".balign 4096\n"
	".globl forms_begin, forms_data\n"
	"forms_begin:\n"
	"form_back: .quad 0\n"
	"form_pointer: .quad 0\n"
	".balign 4096\n"
	"forms_data: .skip 4096\n"
	"forms_bad: .skip 4096\n"
	".popsection");
extern uint8_t forms_begin[], forms_data[];
extern uint8_t __stop_forms[];
extern const struct form_row __start_form_rows[], __stop_form_rows[];

#define FORM_DATA 4096u
#define FORM_BAD 8192u

/* A copy of the template. at: a wish, or NULL; NULL comes back if it is not fulfilled. */
static inline uint8_t *forms_copy(void *at)
{
	const size_t bytes = ((size_t)(__stop_forms - forms_begin) + 4095) & ~4095ul;
	uint8_t *copy = mmap(at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (copy == MAP_FAILED)
		return NULL;
	memcpy(copy, forms_begin, (size_t)(__stop_forms - forms_begin));
	*(uint64_t *)copy = (uint64_t)(uintptr_t)machine_back;
	mprotect(copy + FORM_BAD, 4096, PROT_NONE);
	return copy;
}

#endif
