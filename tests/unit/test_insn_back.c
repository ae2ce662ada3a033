/* SPDX-License-Identifier: MIT */
/*
 * test_insn_back.c - the instruction that made an access is found from what comes after it.
 *
 * A child is stepped through ordinary code of libc and through odd instructions. Before each step
 * it is known which instruction will run and what it will touch; after it, insn_back_x86_64() is
 * asked as a watchpoint's handler would ask, and must find that instruction again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "code/insn/insn_back.h"
#include "insn_text.h"
#include "random.h"

#define STEPS 60000

struct stepper {
	pid_t child;
	unsigned int asked;
	unsigned int missing; /* the true instruction is not among the candidates */
	unsigned int right[INSN_BACK_LIKELY + 1];
	unsigned int wrong[INSN_BACK_LIKELY + 1];
	unsigned int elsewhere; /* asked about a watch that was not touched */
	unsigned int named; /* and told an instruction whose address was overwritten */
};

/* ---- what the child does ---- */

static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void run_libc(unsigned int seed)
{
	static int numbers[64];
	static char from[16384];
	static char to[16384];
	char text[256];
	regex_t regex;

	srand(seed);
	for (unsigned int i = 0; i < 64; i++)
		numbers[i] = rand();
	qsort(numbers, 64, sizeof(numbers[0]), compare_ints);
	snprintf(text, sizeof(text), "%d %g %s %p %lld", numbers[0], sqrt(numbers[1]),
		 "text", (void *)numbers, (long long)numbers[3] * numbers[4]);
	volatile double d = strtod("3.14159e10", NULL) + strtol(text, NULL, 0);
	(void)d;
	for (size_t n = 1; n < sizeof(from); n = n * 3 + 1) {
		memset(from, (int)n, n);
		memcpy(to + n % 7, from, n - n % 7);
		memmove(to + 1, to, n - 1);
		volatile int r = memcmp(from, to, n) + (strchr(to, 'x') != NULL);
		(void)r;
	}
	if (regcomp(&regex, "^([a-z]+)[0-9]*(x|yy)+$", REG_EXTENDED) == 0) {
		regexec(&regex, "abc123xyyx", 0, NULL, 0);
		regfree(&regex);
	}
	void *blocks[16];
	for (unsigned int i = 0; i < 16; i++)
		blocks[i] = malloc((size_t)rand() % 3000 + 1);
	for (unsigned int i = 0; i < 16; i++)
		free(blocks[(i * 7) % 16]);
	time_t now = 1700000000;
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%c", &tm);
}

extern void odd_instructions(void *memory);

/* Instructions that overwrite their address, move the stack, repeat, or go elsewhere. */
__asm__(".text\n"
	".balign 16\n"
	".type odd_instructions, @function\n"
	"odd_instructions:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	mov %rdi, %rbx\n"
	"	mov %rbx, (%rbx)\n"
	"	mov %rbx, %rax\n"
	"	mov (%rax), %rax\n"
	"	mov 8(%rbx), %eax\n"
	"	mov %rbx, %rax\n"
	"	movzbl 5(%rax), %eax\n"
	"	mov %rbx, %rax\n"
	"	xadd %rax, (%rax)\n"
	"	mov %rbx, (%rbx)\n"
	"	pushq (%rbx)\n"
	"	popq 16(%rbx)\n"
	"	pushq 8(%rsp)\n"
	"	popq 8(%rsp)\n"
	"	push %rbx\n"
	"	pop %rax\n"
	"	pushfq\n"
	"	popfq\n"
	"	pushw %bx\n"
	"	popw %ax\n"
	"	enter $32, $0\n"
	"	mov %rax, -8(%rbp)\n"
	"	leave\n"
	"	lea 64(%rbx), %rdi\n"
	"	lea 128(%rbx), %rsi\n"
	"	movsb\n"
	"	movsq\n"
	"	lodsl\n"
	"	stosw\n"
	"	scasb\n"
	"	cmpsb\n"
	"	mov $5, %ecx\n"
	"	rep movsb\n"
	"	mov $5, %ecx\n"
	"	rep stosq\n"
	"	lea 128(%rbx), %rsi\n"
	"	lea 128(%rbx), %rdi\n"
	"	mov $5, %ecx\n"
	"	repe cmpsw\n"
	"	std\n"
	"	mov $3, %ecx\n"
	"	rep movsl\n"
	"	cld\n"
	"	push %rbx\n"
	"	mov $3, %eax\n"
	"	xlatb\n"
	"	xor %eax, %eax\n"
	"	xor %edx, %edx\n"
	"	mov %rbx, %rcx\n"
	"	lock cmpxchg16b (%rbx)\n"
	"	pop %rbx\n"
	"	lock incl (%rbx)\n"
	"	xchg %rax, 8(%rbx)\n"
	"	mov $131, %eax\n"
	"	btsq %rax, (%rbx)\n"
	"	mov %fs:0, %rax\n"
	"	lea odd_callee(%rip), %rax\n"
	"	mov %rax, 24(%rbx)\n"
	"	call *%rax\n"
	"	call *24(%rbx)\n"
	"	call odd_callee\n"
	"	lea odd_landing(%rip), %rax\n"
	"	mov %rax, 32(%rbx)\n"
	"	jmp *32(%rbx)\n"
	"	ud2\n"
	"odd_landing:\n"
	"	movups (%rbx), %xmm0\n"
	"	movups %xmm0, 48(%rbx)\n"
	"	fldt (%rbx)\n"
	"	fstpt 64(%rbx)\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	"odd_callee:\n"
	"	ret\n"
	".size odd_instructions, . - odd_instructions\n");

static void be_stepped(unsigned int seed)
{
	static uint64_t memory[64] __attribute__((aligned(64)));

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	for (unsigned int i = 0; i < 50; i++)
		odd_instructions(memory);
	for (;;)
		run_libc(seed++);
}

/* ---- what the parent does ---- */

/* The kernel's order to DWARF's. */
static struct insn_regs regs_of(pid_t child)
{
	struct user_regs_struct user;

	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &user), 0);
	return (struct insn_regs){
		.r = { user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi,
		       user.rbp, user.rsp, user.r8, user.r9, user.r10, user.r11, user.r12,
		       user.r13, user.r14, user.r15, user.rip },
		.flags = user.eflags,
		.fs_base = user.fs_base,
		.gs_base = user.gs_base,
		.known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS | INSN_KNOWS_FS |
			 INSN_KNOWS_GS,
	};
}

/* An aligned watch of 1 to 8 bytes over some byte of the operand. */
static void choose_watch(const struct insn_memory *m, uint64_t address,
			 struct insn_back_query *query)
{
	const uint64_t byte = address + (m->size ? random_below(m->size) : 0);

	query->watch_bytes = 1u << random_below(4);
	query->watch = byte & ~(uint64_t)(query->watch_bytes - 1);
	query->access = m->access & INSN_WRITE && random_below(2) ? INSN_WRITE :
								    INSN_READ_WRITE;
}

/* The candidate that is the truth, or -1. */
static int position_of(const struct insn_back *back, uint64_t address)
{
	for (unsigned int i = 0; i < back->count; i++)
		if (back->candidates[i].address == address)
			return (int)i;
	return -1;
}

static void tell(const char *what, const struct insn *insn, uint64_t address,
		 const struct insn_back_query *query, const struct insn_back *back)
{
	char text[256];

	text_insn(insn, text, sizeof(text));
	printf("# %s: %#" PRIx64 " %s, watch %#" PRIx64
	       "+%u access %u; found %u of %u chains\n",
	       what, address, text, query->watch, query->watch_bytes, query->access,
	       back->found, back->chains);
	for (unsigned int i = 0; i < back->count; i++)
		printf("#   %#" PRIx64 " %u bytes, votes %u, address %s\n",
		       back->candidates[i].address, back->candidates[i].length,
		       back->candidates[i].votes,
		       back->candidates[i].is_address_known ? "known" : "unknown");
}

static void ask(struct stepper *s, const struct insn *insn, uint64_t address,
		uint64_t touched, const struct insn_back_query *query)
{
	struct insn_back back;

	insn_back_x86_64(query, &back);
	const int position = position_of(&back, address);
	s->asked++;
	if (position < 0 && !back.more) {
		s->missing++;
		tell("missing", insn, address, query, &back);
		return;
	}
	if (position != 0) {
		s->wrong[back.found]++;
		if (back.found >= INSN_BACK_LIKELY)
			tell("wrong", insn, address, query, &back);
		return;
	}
	s->right[back.found]++;
	const struct insn_back_candidate *c = &back.candidates[0];
	/* Of two operands both may touch the watch; else it is the one that was chosen. */
	if (c->is_address_known && insn->memory_count == 1 && c->touched != touched)
		fail_msg("touched %#" PRIx64 ", should be %#" PRIx64, c->touched,
			 touched);
}

/* Does stepping over it show nothing: no access, one that cannot be foretold, or a pc elsewhere? */
static int is_of_no_use(const struct insn *insn, const struct insn_regs *before)
{
	return !insn->memory_count || insn->kind == INSN_SYSCALL ||
	       (insn->kind >= INSN_JUMP && insn->kind <= INSN_RETURN) ||
	       (insn->flags & INSN_REPEATS && !before->r[INSN_RCX]);
}

/* The same question about bytes that were not touched: the registers tell so. */
static void ask_elsewhere(struct stepper *s, const struct insn *insn, uint64_t address,
			  const struct insn_back_query *query)
{
	struct insn_back_query elsewhere = *query;
	struct insn_back back;

	elsewhere.watch += (1 + random_below(64)) << 24;
	insn_back_x86_64(&elsewhere, &back);
	for (unsigned int i = 0; i < back.count; i++)
		if (back.candidates[i].address == address &&
		    back.candidates[i].is_address_known)
			tell("found far away", insn, address, &elsewhere, &back);
	s->elsewhere++;
	s->named += back.found >= INSN_BACK_LIKELY;
	for (unsigned int i = 0; i < back.count; i++)
		assert_false(back.candidates[i].address == address &&
			     back.candidates[i].is_address_known);
}

static void check_step(struct stepper *s, const struct insn *insn,
		       const struct insn_regs *before, const struct insn_regs *after)
{
	const unsigned int operand = (unsigned int)random_below(insn->memory_count);
	const uint64_t pc = after->r[INSN_RIP];
	/* From the page of the instruction, which has run: the one before may be no code. */
	const uint64_t window = pc - (before->r[INSN_RIP] & ~0xfffull);
	const uint64_t before_pc = window < 256 ? window : 256;
	const uint64_t behind = 4096 - (pc & 0xfff);
	uint64_t touched;

	if (insn_address(insn, operand, before, &touched))
		return;
	struct insn_back_query query = {
		.text = (const uint8_t *)(uintptr_t)(pc - before_pc),
		.text_address = pc - before_pc,
		.text_bytes = before_pc + (behind < INSN_LENGTH_MAX ? behind : INSN_LENGTH_MAX),
		.after = after,
	};
	choose_watch(&insn->memory[operand], touched, &query);
	const uint64_t address = before->r[INSN_RIP];
	ask(s, insn, address, touched, &query);
	ask_elsewhere(s, insn, address, &query);
}

static int step(struct stepper *s)
{
	struct insn insn;
	int status;
	const struct insn_regs before = regs_of(s->child);

	if (ptrace(PTRACE_SINGLESTEP, s->child, NULL, NULL) ||
	    waitpid(s->child, &status, 0) != s->child || !WIFSTOPPED(status) ||
	    WSTOPSIG(status) != SIGTRAP)
		return -1;
	/* The child was forked: its code is where ours is. */
	if (insn_decode_x86_64((const void *)(uintptr_t)before.r[INSN_RIP],
			       INSN_LENGTH_MAX, &insn))
		return 0;
	if (is_of_no_use(&insn, &before))
		return 0;
	const struct insn_regs after = regs_of(s->child);
	check_step(s, &insn, &before, &after);
	return 0;
}

static void every_stepped_access_is_found_again(void **state)
{
	struct stepper s = { 0 };
	int status;

	s.child = fork();
	if (!s.child)
		be_stepped((unsigned int)random_below(1000000));
	assert_int_equal(waitpid(s.child, &status, 0), s.child);
	for (unsigned int i = 0; i < STEPS; i++)
		assert_int_equal(step(&s), 0);
	kill(s.child, SIGKILL);
	waitpid(s.child, &status, 0);

	printf("# %u accesses, %u missing; likely %u right %u wrong, ambiguous %u best right %u not\n",
	       s.asked, s.missing, s.right[INSN_BACK_LIKELY], s.wrong[INSN_BACK_LIKELY],
	       s.right[INSN_BACK_AMBIGUOUS], s.wrong[INSN_BACK_AMBIGUOUS]);
	assert_true(s.asked > STEPS / 10);
	assert_true(s.wrong[INSN_BACK_LIKELY] <= s.right[INSN_BACK_LIKELY] / 20);
	printf("# watch not touched: %u, an instruction named all the same: %u\n",
	       s.elsewhere, s.named);
	assert_int_equal(s.elsewhere, s.asked);
	assert_true(s.named < s.elsewhere / 4);
	assert_int_equal(s.missing, 0);
}

struct example {
	const char *hex; /* code up to the pc */
	uint8_t found;
	uint8_t count;
	uint8_t length; /* of the best */
};

/* rax is 0x1000, rbx 0x2000 and so on by DWARF number; the watch is at 0x1000, 8 bytes. */
static void examples_are_judged_as_they_should(void **state)
{
	static const struct example examples[] = {
		/* nop, mov %eax,(%rax): nothing else ends there. */
		{ "90 90 90 90 90 90 89 00", INSN_BACK_LIKELY, 1, 2 },
		/* mov %rax,(%rax): with REX or without. Alone in the window nothing decides. */
		{ "48 89 00", INSN_BACK_AMBIGUOUS, 2, 3 },
		/* mov %eax,(%rbx) touches something else; so do nops. */
		{ "90 90 90 90 89 03", INSN_BACK_NONE, 0, 0 },
		{ "90 90 90 90 90 90", INSN_BACK_NONE, 0, 0 },
		/* mov (%rax),%rax reads: the watch reports writes alone. */
		{ "90 90 90 48 8b 00", INSN_BACK_NONE, 0, 0 },
		/* A jump never goes on behind itself. */
		{ "90 90 90 90 ff 20", INSN_BACK_NONE, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *e = &examples[i];
		struct insn_regs after = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };
		uint8_t text[32];
		struct insn_back back;

		for (unsigned int reg = 0; reg < INSN_RIP; reg++)
			after.r[reg] = 0x1000 * (reg + 1);
		const size_t n = text_bytes(e->hex, text, sizeof(text));
		after.r[INSN_RIP] = 0x400000 + n;
		const struct insn_back_query query = {
			.text = text,
			.text_address = 0x400000,
			.text_bytes = n,
			.watch = 0x1000,
			.watch_bytes = 8,
			.access = INSN_WRITE,
			.after = &after,
		};
		insn_back_x86_64(&query, &back);
		if (back.found != e->found || back.count != e->count ||
		    back.candidates[0].length != e->length)
			fail_msg("%s: found %u of %u, length %u", e->hex, back.found,
				 back.count, back.candidates[0].length);
	}
}

static void *ask_on_this_stack(void *argument)
{
	struct insn_back_query *query = argument;
	struct insn_back back;

	insn_back_x86_64(query, &back);
	return (void *)(uintptr_t)back.count;
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* Bytes of a painted stack that function changed. */
static size_t stack_used_by(void *(*function)(void *), void *argument)
{
	static uint8_t stack[65536] __attribute__((aligned(4096)));
	pthread_attr_t attributes;
	pthread_t thread;
	size_t untouched = 0;

	memset(stack, 0xa5, sizeof(stack));
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, sizeof(stack));
	assert_int_equal(pthread_create(&thread, &attributes, function, argument), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	while (untouched < sizeof(stack) && stack[untouched] == 0xa5)
		untouched++;
	return sizeof(stack) - untouched;
}

static void looking_back_takes_less_than_4_kb_of_stack(void **state)
{
	static uint8_t text[64] = { 0x48, 0x89, 0x00 };
	struct insn_regs after = { .known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS };
	struct insn_back_query query = {
		.text = text,
		.text_address = 0x400000,
		.text_bytes = sizeof(text),
		.watch = 0,
		.watch_bytes = 8,
		.access = INSN_WRITE,
		.after = &after,
	};

	after.r[INSN_RIP] = 0x400003;
	/* Once before, so that the dynamic linker has bound what is called. */
	ask_on_this_stack(&query);
	const size_t idle = stack_used_by(do_nothing, NULL);
	const size_t used = stack_used_by(ask_on_this_stack, &query);
	printf("# %zu bytes of stack\n", used - idle);
	assert_true(used - idle < 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_are_judged_as_they_should),
		cmocka_unit_test(looking_back_takes_less_than_4_kb_of_stack),
		cmocka_unit_test(every_stepped_access_is_found_again),
	};

	random_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
