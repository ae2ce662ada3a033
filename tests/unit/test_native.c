/* SPDX-License-Identifier: MIT */
/*
 * test_native.c - conditions as machine code against the interpreter, with random registers.
 *
 * The code runs as it does in a probe: all registers are the program's, and so is the stack up to the
 * red zone. Whatever it does, all of them are the same after it. TRAPLINE_CONDITIONS sets how many.
 */
#include "../kernel/common.h"

#include <sys/mman.h>

#include "cond/native.h"
#include "cond/compile.h"
#include "random.h"

#define CONDITIONS 4000
#define STATES 20
#define STACK_BYTES 16384
#define RED_ZONE 128
#define ADDRESS 0x55aa00112233u
#define FLAGS_MASK 0x8d5u /* OF SF ZF AF PF CF */

/* By DWARF number, then the flags. */
struct machine {
	uint64_t regs[16];
	uint64_t flags;
	uint64_t was_true;
};

static uint8_t *code_page;
static uint8_t stack_memory[STACK_BYTES] __attribute__((aligned(64)));
static int tid_in_thread_is_known;
static __thread int thread_number __attribute__((tls_model("local-exec")));

struct machine *machine_now __attribute__((visibility("hidden")));
uint64_t machine_target __attribute__((visibility("hidden")));
void machine_run(void) __attribute__((visibility("hidden")));
void machine_is_true(void) __attribute__((visibility("hidden")));
void machine_is_false(void) __attribute__((visibility("hidden")));

/* rsp last when loading, first when storing: until then the stack is the test's own. */
__asm__(".pushsection .bss\n"
	"test_rsp: .zero 8\n"
	"scratch: .zero 8\n"
	".popsection\n"
	".text\n"
	"machine_run:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, test_rsp(%rip)\n"
	"mov machine_now(%rip), %rax\n"
	"push 128(%rax); popfq\n"
	"mov 8(%rax), %rdx; mov 16(%rax), %rcx; mov 24(%rax), %rbx; mov 32(%rax), %rsi\n"
	"mov 40(%rax), %rdi; mov 48(%rax), %rbp; mov 56(%rax), %rsp\n"
	"mov 64(%rax), %r8; mov 72(%rax), %r9; mov 80(%rax), %r10; mov 88(%rax), %r11\n"
	"mov 96(%rax), %r12; mov 104(%rax), %r13; mov 112(%rax), %r14; mov 120(%rax), %r15\n"
	"mov (%rax), %rax\n"
	"jmp *machine_target(%rip)\n"
	"machine_is_true:\n"
	"mov %rax, scratch(%rip)\n"
	"mov machine_now(%rip), %rax\n"
	"movq $1, 136(%rax)\n"
	"jmp 1f\n"
	"machine_is_false:\n"
	"mov %rax, scratch(%rip)\n"
	"mov machine_now(%rip), %rax\n"
	"movq $0, 136(%rax)\n"
	"1: mov %rdx, 8(%rax); mov %rcx, 16(%rax); mov %rbx, 24(%rax); mov %rsi, 32(%rax)\n"
	"mov %rdi, 40(%rax); mov %rbp, 48(%rax); mov %rsp, 56(%rax)\n"
	"mov test_rsp(%rip), %rsp\n"
	"pushfq; pop 128(%rax)\n"
	"mov %r8, 64(%rax); mov %r9, 72(%rax); mov %r10, 80(%rax); mov %r11, 88(%rax)\n"
	"mov %r12, 96(%rax); mov %r13, 104(%rax); mov %r14, 112(%rax); mov %r15, 120(%rax)\n"
	"mov scratch(%rip), %rcx; mov %rcx, (%rax)\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n");

/* ---- random conditions, as text ---- */

static const char *const names[] = {"arg0", "arg1", "arg2", "arg3", "rax", "rbx", "rcx", "rdx",
				    "rsp", "rbp", "r8", "r12", "r15", "tid", "pid", "ip",
				    "addr", "caller"};

static void write_number(FILE *out)
{
	static const char *const numbers[] = {"0", "1", "2", "7", "127", "128", "0x7fffffff",
					      "0x80000000", "0xffffffff", "0x8000000000000000",
					      "0xffffffffffffffff", "12345678901"};

	fputs(numbers[random_below(ARRAY_LEN(numbers))], out);
}

static void write_tree(FILE *out, uint32_t size);

static void write_leaf(FILE *out)
{
	static const char *const types[] = {"u8", "int8_t", "u16", "int16_t", "u32", "int32_t", "u64"};
	static const char *const unknown[] = {"(cpu == 3)", "(thread == \"four\")",
					      "(str(rsp) == \"x\")"};

	if (!random_below(6))
		fprintf(out, "*(%s *)(%s + %d)", types[random_below(ARRAY_LEN(types))],
			random_below(4) ? "rsp" : "arg0", (int)random_below(4096));
	else if (!random_below(12))
		fputs(unknown[random_below(ARRAY_LEN(unknown))], out);
	else if (random_below(3))
		fputs(names[random_below(ARRAY_LEN(names))], out);
	else
		write_number(out);
}

static void write_pair(FILE *out, uint32_t size, const char *sign)
{
	uint32_t left = (uint32_t)random_below(size);

	fputc('(', out);
	write_tree(out, left);
	fprintf(out, " %s ", sign);
	write_tree(out, size - 1 - left);
	fputc(')', out);
}

static void write_tree(FILE *out, uint32_t size)
{
	static const char *const binaries[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>",
					       "==", "!=", "<", "<=", ">", ">=", "&&", "||", "&&",
					       "||", "==", "<"};
	static const char *const unaries[] = {"-", "~", "!", "(u8)", "(int8_t)", "(u16)", "(int32_t)",
					      "(u32)", "(int64_t)"};

	if (!size) {
		write_leaf(out);
	} else if (!random_below(6)) {
		fputs(unaries[random_below(ARRAY_LEN(unaries))], out);
		fputc('(', out);
		write_tree(out, size - 1);
		fputc(')', out);
	} else if (!random_below(8)) {
		fputc('(', out);
		write_tree(out, size / 3);
		fputs(" ? ", out);
		write_tree(out, size / 3);
		fputs(" : ", out);
		write_tree(out, size / 3);
		fputc(')', out);
	} else {
		write_pair(out, size, binaries[random_below(ARRAY_LEN(binaries))]);
	}
}

/* ---- both ways ---- */

static int env_term(const struct cond_env *env, enum cond_term term, uint64_t *out)
{
	const struct machine *m = env->arg;

	switch (term) {
	case COND_TID:
		*out = 4711;
		return 0;
	case COND_PID:
		*out = 4700;
		return 0;
	case COND_CPU:
		*out = 3;
		return 0;
	case COND_CALLER:
		memcpy(out, (const void *)(uintptr_t)m->regs[7], 8);
		return 0;
	default:
		*out = ADDRESS;
		return 0;
	}
}

/* The stack can be read, and nothing else. */
static int env_read(const struct cond_env *env, uint64_t address, void *buf, uint32_t n)
{
	uint64_t at = address - ADDR(stack_memory);

	if (at > STACK_BYTES || n > STACK_BYTES - at)
		return -EFAULT;
	memcpy(buf, stack_memory + at, n);
	return 0;
}

static void env_thread(const struct cond_env *env, char *name)
{
	memcpy(name, "four\0\0\0\0\0\0\0\0\0\0\0", COND_THREAD_NAME);
}

static int env_reg(const struct cond_env *env, uint32_t number, uint64_t *out)
{
	*out = number == 16 ? ADDRESS : ((const struct machine *)env->arg)->regs[number];
	return 0;
}

static int32_t thread_number_at(void)
{
	uint64_t base;

	__asm__("mov %%fs:0, %0" : "=r"(base));
	return (int32_t)(ADDR(&thread_number) - base);
}

static void place_code(struct native_code *code)
{
	uint64_t at = ADDR(code_page);
	int32_t distance = (int32_t)(ADDR(machine_is_true) - (at + code->true_at + 4));

	memcpy(code->bytes + code->true_at, &distance, 4);
	memcpy(code_page, code->bytes, code->length);
	distance = (int32_t)(ADDR(machine_is_false) - (at + code->length + 5));
	code_page[code->length] = 0xe9;
	memcpy(code_page + code->length + 1, &distance, 4);
	machine_target = at;
}

static void random_machine(struct machine *m)
{
	for (int i = 0; i < 16; i++)
		m->regs[i] = random_below(3) ? random_below(4) - 1 :
			     random_below(2) ? random_next() :
					       (uint64_t)(int64_t)(int8_t)random_next();
	m->regs[7] = ADDR(stack_memory) + STACK_BYTES / 2 + 8 * random_below(64);
	m->flags = (random_next() & FLAGS_MASK) | 0x202;
	for (size_t i = 0; i < STACK_BYTES; i += 8)
		memcpy(stack_memory + i, &(uint64_t){random_next()}, 8);
}

/* The red zone and all above it are the program's. */
static void check_untouched(const struct machine *before, const struct machine *after,
			    const uint8_t *stack, int flags_are_live)
{
	size_t from = before->regs[7] - RED_ZONE - ADDR(stack_memory);

	assert_memory_equal(before->regs, after->regs, sizeof(before->regs));
	if (flags_are_live)
		assert_int_equal(before->flags & FLAGS_MASK, after->flags & FLAGS_MASK);
	assert_memory_equal(stack + from, stack_memory + from, STACK_BYTES - from);
}

static int has_unknown(const char *text)
{
	return strstr(text, "cpu") || strstr(text, "thread") || strstr(text, "str(");
}

static int is_exact(const char *text)
{
	return !strstr(text, " *)") && !has_unknown(text) && !strchr(text, '/') && !strchr(text, '%') &&
	       (tid_in_thread_is_known || !strstr(text, "tid"));
}

static uint64_t compiled;

static void run_both(const char *text, const struct condition *c, int flags_are_live)
{
	static uint8_t stack[STACK_BYTES];
	struct native_place place = {ADDRESS, 4700, flags_are_live, thread_number_at()};
	struct machine before;
	struct machine after;
	struct native_code code;
	const char *why;
	struct cond_env env = {.term = env_term, .reg = env_reg, .read = env_read,
			       .thread = env_thread, .arg = &before};
	int err = cond_native(c, &place, &code, &why);

	/* It may come before all that can be decided. */
	if (err == -E2BIG || (err == -EOPNOTSUPP && has_unknown(text)))
		return;
	compiled++;
	assert_int_equal(err, 0);
	place_code(&code);
	for (int i = 0; i < STATES; i++) {
		random_machine(&before);
		memcpy(stack, stack_memory, sizeof(stack));
		after = before;
		machine_now = &after;
		machine_run();
		int holds = cond_eval(c, &env);
		int is_wrong = is_exact(text) ? (uint64_t)(holds > 0) != after.was_true :
						holds && !after.was_true;

		if (is_wrong)
			print_message("# %s\n# interpreter %d, machine %d\n", text, holds,
				      (int)after.was_true);
		assert_false(is_wrong);
		check_untouched(&before, &after, stack, flags_are_live);
	}
}

static void parse(const char *text, struct condition *out)
{
	struct trapline_condition_error error;
	struct trapline_condition_opts opts = {.size = sizeof(opts), .error = &error};
	int err = cond_parse(text, &opts, out, &error);

	if (err)
		print_message("# %s: %s\n", text, error.message);
	assert_int_equal(err, 0);
}

static void random_conditions_are_as_in_the_interpreter(void **state)
{
	static char text[1 << 16];
	static struct condition c;
	const char *wanted = getenv("TRAPLINE_CONDITIONS");
	uint64_t n = wanted ? strtoull(wanted, NULL, 0) : CONDITIONS;

	random_seed();
	compiled = 0;
	for (uint64_t i = 0; i < n; i++) {
		FILE *out = fmemopen(text, sizeof(text), "w");

		write_tree(out, (uint32_t)random_below(i % 10 ? 8 : 24));
		fclose(out);
		parse(text, &c);
		thread_number = (int)random_below(2) * 4711;
		tid_in_thread_is_known = thread_number != 0;
		run_both(text, &c, (int)random_below(2));
	}
	assert_true(compiled > n / 2);
}

static void usual_conditions_are_as_in_the_interpreter(void **state)
{
	static const char *const texts[] = {
		"arg0 == 1", "arg0 != 0 && arg1 < 3", "arg0 == 1 || arg0 == 2 || arg0 == -1",
		"(int32_t)arg0 < 0", "(arg0 & 1) == 0", "1", "0", "0 || arg0", "1 && arg0 > 1",
		"1 || arg0", "0 && arg0", "rax", "!rax", "!(rax && rcx)", "rsp & 1", "caller != 0",
		"tid == 4711", "tid != 4711 || arg0 == 1", "arg0 ? arg1 : arg2", "arg0 << 63 | 1",
		"(arg0 == 1) + (arg1 == 1) == 2", "!(arg0 == 1 || arg1 == 1) && arg2 != 5",
	};
	static struct condition c;

	for (size_t i = 0; i < ARRAY_LEN(texts) * 2; i++) {
		parse(texts[i / 2], &c);
		thread_number = 4711;
		tid_in_thread_is_known = 1;
		run_both(texts[i / 2], &c, i & 1);
	}
}

static void a_comparison_is_two_instructions(void **state)
{
	static struct condition c;
	struct native_place place = {ADDRESS, 1, 0, 0};
	struct native_code code;
	const char *why;

	parse("arg0 == 5", &c);
	assert_int_equal(cond_native(&c, &place, &code, &why), 0);
	/* cmp rdi, 5; jne to the end; jmp away */
	assert_int_equal(code.length, 4 + 6 + 5);
}

static int was_true_at(const char *text, uint64_t arg0)
{
	struct native_place place = {ADDRESS, 4700, 1, thread_number_at()};
	static struct condition c;
	struct native_code code;
	struct machine m;
	const char *why;

	parse(text, &c);
	assert_int_equal(cond_native(&c, &place, &code, &why), 0);
	place_code(&code);
	random_machine(&m);
	m.regs[7] = (ADDR(stack_memory) + STACK_BYTES / 2) & ~4095ull;
	m.regs[7] += 2048;
	m.regs[5] = arg0 ? arg0 : m.regs[7] + 64;
	memcpy((void *)(uintptr_t)(m.regs[7] + 64), &(uint32_t){77}, 4);
	machine_now = &m;
	machine_run();
	return (int)m.was_true;
}

/* The stack's page is read; what may fault is the interpreter's to read. */
static void loads_are_decided_where_they_cannot_fault(void **state)
{
	assert_int_equal(was_true_at("*(u32 *)arg0 == 77", 0), 1);
	assert_int_equal(was_true_at("*(u32 *)arg0 == 78", 0), 0);
	assert_int_equal(was_true_at("*(u32 *)(rsp + 64) != 77", 0), 0);
	assert_int_equal(was_true_at("*(u32 *)arg0 == 78", 8), 1);
	assert_int_equal(was_true_at("*(u32 *)arg0 == 78", UINT64_MAX), 1);
	assert_int_equal(was_true_at("*(u32 *)arg0 == 78", 0x800000000000), 1);
}

/* What machine code can decide before is decided there. */
static void the_interpreter_is_asked_only_when_it_has_to_be(void **state)
{
	assert_int_equal(was_true_at("arg0 == 5 && thread == \"x\"", 5), 1);
	assert_int_equal(was_true_at("arg0 == 5 && thread == \"x\"", 6), 0);
	assert_int_equal(was_true_at("arg0 == 5 && str(arg0) == \"x\"", 6), 0);
	assert_int_equal(was_true_at("arg0 == 5 && *(u32 *)arg0 == 1", 5), 1);
	assert_int_equal(was_true_at("arg0 == 5 || cpu == 0", 6), 1);
}

static void what_only_the_interpreter_can_is_refused(void **state)
{
	static const char *const texts[] = {"hits > 3", "arg0 == 1 && hits > 3", "thread == \"x\"",
					    "str(arg0) == \"x\"", "cpu == 0"};
	static struct condition c;
	struct native_place place = {ADDRESS, 1, 0, 0};
	struct native_code code;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *why = NULL;

		parse(texts[i], &c);
		assert_int_equal(cond_native(&c, &place, &code, &why), -EOPNOTSUPP);
		assert_non_null(why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_conditions_are_as_in_the_interpreter),
		cmocka_unit_test(random_conditions_are_as_in_the_interpreter),
		cmocka_unit_test(a_comparison_is_two_instructions),
		cmocka_unit_test(loads_are_decided_where_they_cannot_fault),
		cmocka_unit_test(the_interpreter_is_asked_only_when_it_has_to_be),
		cmocka_unit_test(what_only_the_interpreter_can_is_refused),
	};

	code_page = mmap((void *)(ADDR(machine_run) & ~0xfffffull) - (64 << 20), 8192,
			 PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
