/* SPDX-License-Identifier: MIT */
/*
 * test_window_forms.c - each form of an instruction in a window does what the processor does: all general
 * registers, the flags and the memory, from random states.
 *
 * TRAPLINE_WINDOW_STATES: states for each form and place (default 300).
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <cmocka.h>

#include <trapline/window.h>

#include "../unit/random.h"
#include "window_machine.h"

#define BATCH 100u
#include "window_forms_avx512.h"

#define FLAGS 0x8d5u /* arithmetic */
#define FLAG_DIRECTION 0x400u
#define FAR_PLACE ((void *)0x30000000ul)

/* ---- the forms; rbx, rbp, r8, r12: into the data, rsp: its middle ---- */

FORM("add", "addq %rcx, %rax")
FORM("adc byte", "adcb %cl, %ah")
FORM("sbb 16", "sbbw %cx, %ax")
FORM("shl cl", "shlq %cl, %rdx")
FORM("rcr", "rcrl $5, %esi")
FORM("imul", "imulq %rsi, %rdi")
FORM("mul", "mulq %r9")
FORM("cmov", "cmovbeq %r9, %r10")
FORM("setcc", "setl %al")
FORM("xchg", "xchgq %r9, %rax")
FORM("bswap", "bswapl %r13d")
FORM("lahf", "lahf")
FORM("sahf", "sahf")
FORM("cqo", "cqto")
FORM("lea", "leaq -7(%rax, %r9, 4), %r11")
FORM("lea 32", "leal (%eax, %r9d, 2), %r11d")
FORM("popcnt", "popcntq %rsi, %rcx")
FORM("load", "movq 8(%rbx), %rax")
FORM("load own base", "movq 8(%rbx), %rbx")
FORM("store", "movq %rdi, 16(%r12)")
FORM("store byte", "movb %dh, 5(%rbx)")
FORM("add memory", "addl $77, 4(%rbp)")
FORM("lock xadd", "lock xaddq %rax, (%rbx)")
FORM("cmpxchg", "lock cmpxchgq %rsi, 8(%rbx)")
FORM("cmpxchg16b", "subq %rcx, %rcx\n\tmovq %r8, %r15\n\tandq $-16, %r15\n\tlock cmpxchg16b (%r15)")
FORM("bts immediate", "btsq $13, (%rbx)")
FORM("push pop", "pushq %rax\n\tpushq $-3\n\tpopq %rcx\n\tpopq %rdx")
FORM("push sp", "pushq %rsp\n\tpopq %rcx")
FORM("pop memory sp", "pushq %rax\n\tpopq (%rsp)")
FORM("pop sp", "pushq %rsp\n\tpopq %rsp")
FORM("pushf popf", "pushfq\n\tpopq %rax\n\tpushq %rcx\n\tandq $0xcd5, (%rsp)\n\tpopfq")
FORM("enter leave", "enter $32, $0\n\tleave")
FORM("xlat", "movzbl %al, %eax\n\txlatb")
FORM("movs", "cld\n\tmovq %rbx, %rsi\n\tmovq %r12, %rdi\n\tmovsq")
FORM("rep movs", "movl $19, %ecx\n\tmovq %rbx, %rsi\n\tmovq %r12, %rdi\n\trep movsb")
FORM("rep stos", "movl $9, %ecx\n\tmovq %rbx, %rdi\n\trep stosq")
FORM("repe cmps", "movl $23, %ecx\n\tmovq %rbx, %rsi\n\tmovq %r12, %rdi\n\trepe cmpsb")
FORM("repne scas", "movl $40, %ecx\n\tmovq %rbx, %rdi\n\trepne scasb")
FORM("x87", "fildq (%rbx)\n\tfildq 8(%rbx)\n\tfmulp\n\tfistpll 16(%rbx)")
FORM("sse",
     "movdqu (%rbx), %xmm3\n\tmovdqu 16(%r8), %xmm4\n\tpaddd %xmm4, %xmm3\n\tmovdqu %xmm3, (%rbp)")
FORM("avx2", "vmovdqu (%rbx), %ymm9\n\tvpaddq 32(%r12), %ymm9, %ymm10\n\tvmovdqu %ymm10, (%rbp)")
FORM("gather", "vpcmpeqd %xmm2, %xmm2, %xmm2\n\tvpxor %xmm1, %xmm1, %xmm1\n\t"
	       "vpgatherdd %xmm2, (%rbx, %xmm1, 4), %xmm0\n\tvmovdqu %xmm0, (%rbp)")
FORM("bmi2", "mulxq 8(%rbx), %rax, %rsi")
FORM("fs", "movq %fs:0, %rax")
FORM("nop", "nopw 5(%rax, %rax)")
FORM("endbr", "endbr64")

/* By distance from the pc. */
FORM("rip load", "movq forms_data+64(%rip), %rax")
FORM("rip load 32", "movl forms_data+68(%rip), %r9d")
FORM("rip store", "movq %r15, forms_data+72(%rip)")
FORM("rip store byte", "movb %dil, forms_data+3(%rip)")
FORM("rip store imm16", "movw $0x1234, forms_data+10(%rip)")
FORM("rip add", "addq %rax, forms_data+80(%rip)")
FORM("rip cmp", "cmpl $0x12345678, forms_data+16(%rip)")
FORM("rip lock xadd", "lock xaddl %r8d, forms_data+20(%rip)")
FORM("rip cmpxchg16b", "lock cmpxchg16b forms_data+32(%rip)")
FORM("rip push", "pushq forms_data+88(%rip)\n\tpopq %rcx")
FORM("rip pop", "pushq %rax\n\tpopq forms_data+96(%rip)")
FORM("rip lea", "leaq forms_data+1(%rip), %r14")
FORM("rip lea 32", "leal forms_data+1(%rip), %r14d")
FORM("rip sse", "movdqu forms_data(%rip), %xmm12\n\tmovdqu %xmm12, forms_data+160(%rip)")
FORM("rip avx", "vmovdqu forms_data(%rip), %ymm11\n\tvpshufd $27, forms_data+32(%rip), %ymm1\n\t"
		"vpxor %ymm1, %ymm11, %ymm1\n\tvmovdqu %ymm1, forms_data+128(%rip)")
FORM("rip movbe", "movbe forms_data+64(%rip), %rsi")
FORM("rip bmi2", "mulxq forms_data+8(%rip), %rax, %rsi\n\tshlxq %rax, forms_data(%rip), %rdi")
FORM("rip x87", "fildq forms_data(%rip)\n\tfistpll forms_data+8(%rip)")
FORM("rip imul imm", "imulq $12345, forms_data+40(%rip), %rdx")
FORM("rip div", "movl $7, forms_data(%rip)\n\txorl %edx, %edx\n\tdivl forms_data(%rip)")

/* Branches. */
#define JCC(c) FORM("j" #c, "j" #c " 1f\n\tmovb $1, (%rbx)\n\tjmp 2f\n1:\tmovb $2, (%rbx)\n2:")
JCC(o)
JCC(no) JCC(b) JCC(ae) JCC(e) JCC(ne) JCC(be) JCC(a) JCC(s) JCC(ns) JCC(p) JCC(np) JCC(l) JCC(ge) JCC(le) JCC(g) FORM(
	"jcc long",
	"je 1f\n\t.skip 200, 0x90\n1:") FORM("loop",
					     "movl $5, %ecx\n1:\tmovq %rcx, (%rbx)\n\tloop 1b") FORM("loope",
												     "movl $5, %ecx\n1:\tloope 1b") FORM("loopne",
																	 "movl $5, %ecx\n1:\tloopne 1b")
	FORM("jrcxz", "movzbl %cl, %ecx\n\tjrcxz 1f\n\tmovb $1, (%rbx)\n1:") FORM("jecxz", "jecxz 1f\n\tmovb $1, (%rbx)\n1:") FORM(
		"call",
		"call 1f\n1:\tpopq %rdx") FORM("call ret",
					       "jmp 2f\n1:\tmovq (%rsp), %rcx\n\tret\n2:\tcall 1b") FORM("ret n",
													 "jmp 2f\n1:\tret $16\n2:\tcall 1b")
#define TO(reg) "leaq 1f(%rip), %" #reg "\n\t"
		FORM("jmp rax", TO(rax) "jmp *%rax\n\tmovb $1, (%rbx)\n1:") FORM("jmp r13", TO(r13) "jmp *%r13\n\tmovb $1, (%rbx)\n1:") FORM(
			"call rcx",
			TO(rcx) "call *%rcx\n\tmovb $1, (%rbx)\n1:\tpopq %rsi") FORM("call rsp", "movq %rsp, %r15\n\t" TO(rsp) "xchgq %r15, %rsp\n\tcall *%r15\n1:\tpopq %rsi")
			FORM("call (rax)", TO(rax) "movq %rax, (%rbx)\n\tmovq %rbx, %rax\n\tcall *(%rax)\n1:\tpopq %rsi") FORM(
				"call (rsp)",
				TO(rax) "movq %rax, -24(%rsp)\n\tcall *-24(%rsp)\n1:\tpopq %rsi") FORM("call indexed",
												       TO(rax) "movl $2, %ecx\n\tmovq %rax, 16(%r12)\n\tcall *(%r12, %rcx, 8)\n1:\tpopq %rsi")
				FORM("jmp indexed", TO(rax) "movl $2, %r9d\n\tmovq %rax, 20(%rbx)\n\tjmp *4(%rbx, %r9, 8)\n1:") FORM(
					"call rip",
					TO(rax) "movq %rax, form_pointer(%rip)\n\tcall *form_pointer(%rip)\n1:\tpopq %rsi")
					FORM("jmp rip", TO(rax) "movq %rax, form_pointer(%rip)\n\tjmp *form_pointer(%rip)\n1:") FORM(
						"notrack jmp",
						TO(rdx) "notrack jmp *%rdx\n1:") FORM("system call",
										      "movl $39, %eax\n\tsyscall\n\txorl %eax, %eax")

/* These fault, where the test wants it. */
#define FAULT "fault "
						FORM(FAULT "load", "incq %rax\n\tmovq forms_bad(%rip), %rax") FORM(FAULT "add", "decq %rcx\n\taddq %rcx, forms_bad+8(%rip)") FORM(
							FAULT "push",
							"pushq forms_bad(%rip)") FORM(FAULT "pop",
										      "pushq %rax\n\tpopq forms_bad(%rip)") FORM(FAULT
																 "cmpxchg16b",
																 "lock cmpxchg16b forms_bad+32(%rip)")
							FORM(FAULT "avx", "vpaddd forms_bad(%rip), %ymm1, %ymm2") FORM(
								FAULT "call rip",
								"call *forms_bad(%rip)") FORM(FAULT "jmp rip",
											      "jmp *forms_bad(%rip)")
								FORM(FAULT "call (rax)", "leaq forms_bad(%rip), %rax\n\tcall *(%rax)") FORM(
									FAULT "jmp rcx",
									"leaq forms_bad(%rip), %rcx\n\tjmp *%rcx")
									FORM(FAULT "ret", "leaq forms_bad+16(%rip), %rsp\n\tret") FORM(
										FAULT "call push",
										"leaq forms_bad+64(%rip), %rsp\n\tcall 1f\n1:")
										FORM(FAULT "call rdx push", TO(rdx) "leaq forms_bad+64(%rip), %rsp\n\tcall *%rdx\n1:") FORM(
											FAULT
											"rep movs",
											"cld\n\tmovl $300, %ecx\n\tleaq forms_bad-99(%rip), %rdi\n\tmovq %rbx, %rsi\n\trep movsb")
											FORM(FAULT "div", "xorl %ecx, %ecx\n\tstc\n\tdivl %ecx") FORM(
												FAULT
												"ud2",
												"incl %eax\n\tud2")
												FORM(FAULT "hlt", "incl %eax\n\thlt") FORM(
													FAULT
													"jump away",
													"xorl %eax, %eax\n\tjmp *%rax")
													FORM(FAULT
													     "return away",
													     "pushq $0x1234\n\tret")
														FORM(FAULT
														     "non-canonical",
														     "movabsq $0x8000000000000000, %rax\n\tmovl (%rax), %eax")

	/* ---- native and window ---- */

	struct outcome {
	struct machine machine;
	uint64_t memory;
	uint64_t vectors;
	uint64_t fault_pc;
	uint64_t fault_address;
	uint64_t signal;
};

static uint64_t fault_pc, fault_address;
static uint64_t fault_signal;

/* The registers at the fault are what comes out. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	fault_pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	fault_address = (uint64_t)(uintptr_t)info->si_addr;
	fault_signal = (uint64_t)sig;
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)machine_back;
}

/* In each test: cmocka takes these signals around it. */
static void take_faults(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	for (int i = 0; i < 4; i++)
		sigaction(signals[i], &action, NULL);
}

static void set_state(uint8_t *copy, uint64_t seed)
{
	uint64_t *data = (uint64_t *)(void *)(copy + FORM_DATA);

	random_state = seed;
	for (int i = 0; i < 512; i++)
		data[i] = random_next();
	for (int i = 0; i < 16; i++)
		machine.r[i] = random_next() & (random_below(4) ? UINT64_MAX : 0xff);
	machine.r[M_RBX] = (uint64_t)(uintptr_t)data + 512 + random_below(64);
	machine.r[M_RBP] = (uint64_t)(uintptr_t)data + 1024 + random_below(64);
	machine.r[8] = (uint64_t)(uintptr_t)data + 1536 + random_below(64);
	machine.r[12] = (uint64_t)(uintptr_t)data + 3072 + random_below(64);
	machine.r[M_RSP] = (uint64_t)(uintptr_t)data + 2560 + random_below(16);
	machine.flags = 0x202 | (random_next() & (FLAGS | FLAG_DIRECTION));
}

static uint64_t hash_of(const uint64_t *data, size_t words)
{
	uint64_t hash = 14695981039346656037ull;

	for (size_t i = 0; i < words; i++)
		hash = (hash ^ data[i]) * 1099511628211ull;
	return hash;
}

static uint64_t memory_of(const uint8_t *copy)
{
	return hash_of((const void *)(copy + FORM_DATA), 512);
}

/* All bits are random: operations on NaN are the same on both sides. */
static void set_vectors(void)
{
	uint64_t *words = (uint64_t *)(void *)vector_state.zmm;

	for (size_t i = 0; i < sizeof(vector_state.zmm) / 8; i++)
		words[i] = random_next();
	for (int i = 0; i < 8; i++)
		vector_state.k[i] = random_next() & (random_below(3) ? UINT64_MAX : 0x8001);
}

static int with_vectors;

static void run_form(uint64_t code)
{
	machine_code = code;
	if (with_vectors)
		vector_run_asm();
	else
		machine_run_asm();
}

static uint64_t vectors_of(void)
{
	return with_vectors ? hash_of((const void *)&vector_state, sizeof(vector_state) / 8) : 0;
}

static void run_batch(uint8_t *copy, uint64_t code, uint64_t seed, struct outcome *outcomes)
{
	for (unsigned int i = 0; i < BATCH; i++) {
		set_state(copy, seed + i * 0x1000193);
		fault_pc = fault_address = 0;
		fault_signal = 0;
		if (with_vectors)
			set_vectors();
		run_form(code);
		outcomes[i] = (struct outcome){ machine,  memory_of(copy), vectors_of(),
						fault_pc, fault_address,   fault_signal };
	}
}

/* The processor has it. */
static int is_there(const struct form_row *row)
{
	if (!strncmp(row->name, AVX512_MORE, strlen(AVX512_MORE)))
		return has_avx512_more();
	return strncmp(row->name, AVX512, strlen(AVX512)) != 0 || has_avx512();
}

static int is_fault(const struct form_row *row)
{
	return !strncmp(row->name, FAULT, strlen(FAULT));
}

static void say(const char *what, const struct form_row *row, const uint8_t *copy,
		const struct outcome *native, const struct outcome *window)
{
	print_message("# %s: %s at %p\n", row->name, what, (const void *)copy);
	for (int i = 0; i < 16; i++)
		if (native->machine.r[i] != window->machine.r[i])
			print_message("# r%d: %lx, in the window %lx\n", i, native->machine.r[i],
				      window->machine.r[i]);
	print_message("# flags %lx %lx, fault %lu at %lx (%lx), %lu at %lx (%lx)\n",
		      native->machine.flags, window->machine.flags, native->signal,
		      native->fault_pc, native->fault_address, window->signal, window->fault_pc,
		      window->fault_address);
}

static void check_batch(const struct form_row *row, uint8_t *copy, uint64_t seed)
{
	static struct outcome native[BATCH], window[BATCH];
	struct trapline_window_opts opts = { .size = sizeof(opts) };
	struct trapline_window_stats stats = { .size = sizeof(stats) };
	const uint64_t code = (uint64_t)(uintptr_t)copy + row->offset;

	run_batch(copy, code, seed, native);
	assert_int_equal(trapline_window(&opts), 0);
	run_batch(copy, code, seed, window);
	trapline_window_end();
	assert_int_equal(trapline_window_stats(&stats), 0);
	for (unsigned int i = 0; i < BATCH; i++) {
		if (memcmp(&native[i], &window[i], sizeof(native[i]))) {
			say("differs", row, copy, &native[i], &window[i]);
			fail();
		}
	}
	assert_true(stats.instructions > BATCH);
	if (stats.reason != TRAPLINE_WINDOW_ENDED) {
		print_message("# %s: left at %lx by %u\n", row->name,
			      stats.pc - (uint64_t)(uintptr_t)copy, stats.reason);
		fail();
	}
}

static uint64_t states(void)
{
	const char *given = getenv("TRAPLINE_WINDOW_STATES");

	return given ? strtoull(given, NULL, 0) : 300;
}

static uint8_t *places[2];

static void each_form_does_what_the_processor_does(void **state)
{
	unsigned int count = 0;
	unsigned int absent = 0;

	take_faults();
	with_vectors = has_avx512();
	for (const struct form_row *row = __start_form_rows; row < __stop_form_rows; row++) {
		if (is_fault(row))
			continue;
		if (!is_there(row)) {
			absent++;
			continue;
		}
		count++;
		for (int p = 0; p < 2; p++)
			for (uint64_t n = 0; n < states(); n += BATCH)
				check_batch(row, places[p], random_next());
	}
	print_message("# %u forms, %lu states each in 2 places; %u need another processor\n", count,
		      states(), absent);
}

/* One fault ends the window, so each state has its own. */
static void check_fault(const struct form_row *row, uint8_t *copy, uint64_t seed)
{
	struct trapline_window_opts opts = { .size = sizeof(opts) };
	struct trapline_window_stats stats = { .size = sizeof(stats) };
	const uint64_t code = (uint64_t)(uintptr_t)copy + row->offset;
	struct outcome outcomes[2];

	for (int i = 0; i < 2; i++) {
		set_state(copy, seed);
		fault_signal = 0;
		machine_code = code;
		if (i)
			assert_int_equal(trapline_window(&opts), 0);
		machine_run_asm();
		if (i)
			trapline_window_end();
		outcomes[i] = (struct outcome){ machine,  memory_of(copy), 0,
						fault_pc, fault_address,   fault_signal };
	}
	if (memcmp(&outcomes[0], &outcomes[1], sizeof(outcomes[0]))) {
		say("differs", row, copy, &outcomes[0], &outcomes[1]);
		fail();
	}
	assert_int_not_equal(outcomes[0].signal, 0);
	assert_int_equal(trapline_window_stats(&stats), 0);
	assert_int_not_equal(stats.reason, TRAPLINE_WINDOW_ENDED);
	assert_int_equal(stats.pc, outcomes[0].fault_pc);
}

static void a_fault_is_the_programs_own(void **state)
{
	take_faults();
	for (const struct form_row *row = __start_form_rows; row < __stop_form_rows; row++)
		for (int p = 0; is_fault(row) && p < 2; p++)
			for (int n = 0; n < 20; n++)
				check_fault(row, places[p], random_next());
}

static int prepare(void **state)
{
	static uint8_t stack[65536];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	random_seed();
	sigaltstack(&alternate, NULL);
	places[0] = forms_copy(NULL);
	places[1] = forms_copy(FAR_PLACE);
	return !places[0] || !places[1];
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_does_what_the_processor_does),
		cmocka_unit_test(a_fault_is_the_programs_own),
	};

	return cmocka_run_group_tests_name("window_forms", tests, prepare, NULL);
}
