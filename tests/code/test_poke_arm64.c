/* SPDX-License-Identifier: MIT */
/*
 * test_poke_arm64.c - arm64: what a poke and a trap do, what they refuse, and that each form of
 * instruction under a trap does what it does without one.
 */
#include "words_arm64.h"

static uint32_t *text;

static int map_text(void **state)
{
	text = map_functions(2);
	return 0;
}

static int unmap_text(void **state)
{
	return munmap(text, 2 * sizeof(function_words));
}

static void expect_reason(int err, int expected, const char *word)
{
	char why[500] = "";

	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, expected);
	if (!strstr(why, word))
		fail_msg("'%s' is not in: %s", word, why);
}

static void a_poke_changes_a_word(void **state)
{
	struct trapline_code_stats before = read_stats();

	for (int to = 1; to <= VARIANTS; to++) {
		assert_int_equal(poke(text, variants[to - 1], variants[to % VARIANTS], 0), 0);
		assert_int_equal(*text, variants[to % VARIANTS]);
		assert_int_equal(run_at(text, 0), results[to % VARIANTS]);
	}
	struct trapline_code_stats after = read_stats();
	assert_int_equal(after.batches - before.batches, VARIANTS);
	assert_int_equal(after.syncs - before.syncs, VARIANTS);
}

/* Behind an instruction that never falls through may be anything: a tail, with a sync of its own. */
static void a_site_of_two_words_takes_two_syncs(void **state)
{
	const uint32_t from[2] = { RET, MOV_W0(2) };
	const uint32_t to[2] = { MOV_W0(7), RET };
	const struct trapline_poke_site there = { ADDR(text + 2), from, to, 8 };
	const struct trapline_poke_site back = { ADDR(text + 2), to, from, 8 };
	struct trapline_code_stats before = read_stats();
	TRAPLINE_OPTS(poke, opts);

	opts.writers = writers();
	assert_int_equal(trapline_poke(&there, 1, &opts), 0);
	assert_int_equal(run_at(text, 0), 7);
	assert_int_equal(read_stats().syncs - before.syncs, 2);
	expect_reason(trapline_poke(&back, 1, &opts), -EINVAL, "not exactly one");
	opts.flags = TRAPLINE_POKE_QUIESCENT;
	assert_int_equal(trapline_poke(&back, 1, &opts), 0);
}

static void wrong_sites_are_refused_with_a_reason(void **state)
{
	const uint32_t nop = NOP;
	struct trapline_poke_site site = { ADDR(text) + 2, &nop, &nop, 4 };

	expect_reason(trapline_poke(&site, 1, NULL), -EINVAL, "whole words");
	site = (struct trapline_poke_site){ ADDR(text), &nop, &nop, 3 };
	expect_reason(trapline_poke(&site, 1, NULL), -EINVAL, "whole words");
	expect_reason(poke(text, B(3), NOP, 0), -EBUSY, "not those expected");
	expect_reason(poke(text, NOP, 0xc85f7c00 /* ldxr x0, [x0] */, 0), -EOPNOTSUPP,
		      "neither be emulated nor run elsewhere");
	assert_int_equal(*text, NOP);
	site = (struct trapline_poke_site){ 64, &nop, &nop, 4 };
	expect_reason(trapline_poke(&site, 1, NULL), -EFAULT, "not mapped");
}

/* The architecture names eight instructions; a move and a conditional branch are not among them. */
static void one_store_changes_only_what_may_change_under_a_thread(void **state)
{
	struct trapline_code_stats before = read_stats();
	uint32_t single = TRAPLINE_POKE_SINGLE_STORE;

	assert_int_equal(poke(text, NOP, B(3), single), 0);
	assert_int_equal(run_at(text, 0), 2);
	assert_int_equal(poke(text, B(3), 0xd5033fdf /* isb */, single), 0);
	assert_int_equal(poke(text, 0xd5033fdf, BRK | 5 << 5, single), 0);
	assert_int_equal(poke(text, BRK | 5 << 5, NOP, single), 0);
	assert_int_equal(run_at(text, 0), 1);
	assert_int_equal(read_stats().emulated, before.emulated);
	assert_int_equal(poke(text, NOP, CBZ_W0(3), single), -EOPNOTSUPP);
	assert_int_equal(poke(text, NOP, MOV_W0(3), single), -EOPNOTSUPP);
	assert_int_equal(poke(text, NOP, B(3), TRAPLINE_POKE_SPIN), -EOPNOTSUPP);
	assert_int_equal(*text, NOP);
}

static uint32_t stages[16];
static size_t stage_count;

static void note_stage(const struct trapline_code_record *record)
{
	if (stage_count < 16)
		stages[stage_count++] = record->stage;
	/* At the trap stage a thread that comes by runs the new instruction. */
	if (record->stage == TRAPLINE_CODE_TRAP)
		assert_int_equal(run_at(text, 0), 2);
	assert_int_equal(record->count, 1);
}

static void the_log_has_each_stage_and_forbids_single_stores(void **state)
{
	static const uint32_t expected[] = { TRAPLINE_CODE_BEGIN, TRAPLINE_CODE_TRAP,
					     TRAPLINE_CODE_OPEN, TRAPLINE_CODE_DONE };
	struct trapline_code_stats before = read_stats();

	assert_int_equal(trapline_log_code(note_stage, NULL), 0);
	assert_int_equal(poke(text, NOP, B(3), 0), 0);
	expect_reason(poke(text, B(3), NOP, TRAPLINE_POKE_SINGLE_STORE), -EOPNOTSUPP, "log");
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	assert_int_equal(stage_count, 4);
	assert_memory_equal(stages, expected, sizeof(expected));
	assert_int_equal(read_stats().emulated - before.emulated, 1);
	assert_int_equal(read_stats().syncs - before.syncs, 2);
	assert_int_equal(poke(text, B(3), NOP, 0), 0);
}

static void each_writer_writes(void **state)
{
	static const uint32_t by[] = { TRAPLINE_WRITE_MEM, TRAPLINE_WRITE_MPROTECT };
	uint32_t from = NOP;
	uint32_t to = B(3);
	struct trapline_poke_site site = { ADDR(text), &from, &to, 4 };
	TRAPLINE_OPTS(poke, opts);
	void *code;

	for (int i = writers() != 0; i < 2; i++) {
		opts.writers = by[i];
		assert_int_equal(trapline_poke(&site, 1, &opts), 0);
		assert_int_equal(run_at(text, 0), 2);
		assert_int_equal(poke(text, to, from, 0), 0);
		assert_int_equal(run_at(text, 0), 1);
	}
	opts.writers = TRAPLINE_WRITE_EXCHANGE;
	assert_int_equal(trapline_poke(&site, 1, &opts), -EACCES);
	if (writers())
		skip();
	assert_int_equal(trapline_code_alloc(ADDR(text), 4096, &code), 0);
	assert_true(ADDR(code) - ADDR(text) + (128u << 20) < 256u << 20);
	assert_int_equal(*(uint32_t *)code, 0);
	assert_int_equal(trapline_code_write(code, function_words, sizeof(function_words)), 0);
	site.address = ADDR(code);
	opts.writers = TRAPLINE_WRITE_ALIAS;
	assert_int_equal(trapline_poke(&site, 1, &opts), 0);
	assert_int_equal(run_at(code, 0), 2);
	assert_int_equal(trapline_code_free(code), 0);
}

/* ---- forms ---- */

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

/* hint #25 (paciasp) signs the link with a key: the same one in the whole process. */
static void each_form_under_a_trap_does_what_it_does_without(void **state)
{
	static struct registers plain[64][INPUTS];
	static struct registers inputs[INPUTS];
	uint64_t sites[64];
	uint64_t hits;
	struct trapline_traps *traps;
	TRAPLINE_OPTS(traps, opts);

	opts.writers = writers();
	assert_in_range(FORMS, 50, 64);
	for (size_t i = 0; i < INPUTS; i++)
		make_input(i, &inputs[i]);
	for (size_t f = 0; f < FORMS; f++) {
		sites[f] = __start_forms[f].site;
		for (size_t i = 0; i < INPUTS; i++) {
			plain[f][i] = inputs[i];
			__start_forms[f].run(&plain[f][i]);
		}
	}
	assert_int_equal(trapline_traps_set(sites, FORMS, &opts, &traps), 0);
	for (size_t f = 0; f < FORMS; f++) {
		assert_int_equal(*(uint32_t *)sites[f] & 0xffe0001f, BRK);
		for (size_t i = 0; i < INPUTS; i++) {
			struct registers got = inputs[i];

			__start_forms[f].run(&got);
			if (memcmp(&got, &plain[f][i], sizeof(got)))
				fail_msg("form %zu, input %zu: way %d, not %d", f, i, (int)got.way,
					 (int)plain[f][i].way);
		}
		assert_int_equal(trapline_traps_hits(traps, f, NULL, &hits), 0);
		assert_int_equal(hits, INPUTS);
	}
	assert_int_equal(trapline_traps_remove(traps), 0);
	for (size_t f = 0; f < FORMS; f++)
		assert_int_not_equal(*(uint32_t *)sites[f] & 0xffe0001f, BRK);
}

/* ---- traps ---- */

/* Between the two a trap would take the reservation each time. */
void count_exclusively(uint64_t *word);
extern const uint32_t exclusive_site[];
__asm__(".globl count_exclusively, exclusive_site\n"
	"count_exclusively:\n"
	"1: ldxr x1, [x0]\n"
	"exclusive_site: add x1, x1, #1\n"
	"stxr w2, x1, [x0]\n"
	"cbnz w2, 1b\n"
	"ret\n");

static void a_trap_in_an_exclusive_sequence_is_refused(void **state)
{
	uint64_t sites[1] = { ADDR(exclusive_site) };
	struct trapline_traps *traps = NULL;
	uint64_t word = 4;

	expect_reason(trapline_traps_set(sites, 1, NULL, &traps), -EOPNOTSUPP, "exclusive");
	sites[0] -= 4;
	expect_reason(trapline_traps_set(sites, 1, NULL, &traps), -EOPNOTSUPP, "neither");
	count_exclusively(&word);
	assert_int_equal(word, 5);
}

static int calls;

static void on_trap(const struct trapline_trap_hit *hit)
{
	ucontext_t *context = hit->context;

	calls++;
	assert_int_equal(context->uc_mcontext.pc, hit->address);
	if (hit->index == 1)
		context->uc_mcontext.regs[0] = 9;
}

static void a_trap_calls_back_and_goes(void **state)
{
	/* ret of both functions. */
	const uint64_t sites[2] = { ADDR(text + 2), ADDR(text + FUNCTION_WORDS + 2) };
	struct trapline_traps *traps;
	uint64_t hits;
	TRAPLINE_OPTS(traps, opts);

	opts.callback = on_trap;
	opts.writers = writers();
	assert_int_equal(trapline_traps_set(sites, 2, &opts, &traps), 0);
	assert_int_equal(run_at(text, 0), 1);
	assert_int_equal(run_at(text + FUNCTION_WORDS, 0), 9);
	assert_int_equal(calls, 2);
	expect_reason(poke(text + 2, RET, NOP, 0), -EBUSY, "");
	expect_reason(trapline_traps_set(sites, 1, &opts, &traps), -EBUSY, "a trap is there");
	assert_int_equal(trapline_traps_hits(traps, 0, NULL, &hits), 0);
	assert_int_equal(hits, 1);
	assert_int_equal(trapline_traps_remove(traps), 0);
	assert_int_equal(run_at(text + FUNCTION_WORDS, 0), 1);
	assert_int_equal(calls, 2);
	assert_int_equal(text[2], RET);
}

static volatile sig_atomic_t own_traps;

static void on_own_trap(int number, siginfo_t *info, void *context)
{
	own_traps++;
	((ucontext_t *)context)->uc_mcontext.pc += 4;
}

/* A brk of the program is the program's, with its pc and its code. */
static void a_brk_of_the_program_reaches_its_own_handler(void **state)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO, .sa_sigaction = on_own_trap };
	struct sigaction before;

	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	__asm__ volatile("brk #7" ::: "memory");
	assert_int_equal(own_traps, 1);
	/* Where a trap of Trapline once was, too. */
	assert_int_equal(poke(text, NOP, BRK | 9 << 5, 0), 0);
	assert_int_equal(run_at(text, 0), 1);
	assert_int_equal(own_traps, 2);
	assert_int_equal(poke(text, BRK | 9 << 5, NOP, 0), 0);
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
}

/* It has no room for the jump of a probe on arm64 yet: the way is a hardware breakpoint. */
static void a_probe_is_refused_in_one_line(void **state)
{
	struct trapline *target;
	struct trapline_event *event;
	char why[500] = "";

	assert_int_equal(trapline_open(getpid(), NULL, &target), 0);
	int err = trapline_probe(target, ADDR(text), NULL, &event);
	assert_int_equal(err, -EOPNOTSUPP);
	trapline_explain(err, why, sizeof(why));
	assert_non_null(strstr(why, "x86-64"));
	trapline_close(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_poke_changes_a_word),
		cmocka_unit_test(a_site_of_two_words_takes_two_syncs),
		cmocka_unit_test(wrong_sites_are_refused_with_a_reason),
		cmocka_unit_test(one_store_changes_only_what_may_change_under_a_thread),
		cmocka_unit_test(the_log_has_each_stage_and_forbids_single_stores),
		cmocka_unit_test(each_writer_writes),
		cmocka_unit_test(each_form_under_a_trap_does_what_it_does_without),
		cmocka_unit_test(a_trap_in_an_exclusive_sequence_is_refused),
		cmocka_unit_test(a_trap_calls_back_and_goes),
		cmocka_unit_test(a_brk_of_the_program_reaches_its_own_handler),
		cmocka_unit_test(a_probe_is_refused_in_one_line),
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, map_text, unmap_text);
}
