/* SPDX-License-Identifier: MIT */
/*
 * test_poke_arm64.c - arm64: what a poke and a trap do, what they refuse, and that each form of
 * instruction under a trap does what it does without one.
 */
#include "forms_arm64.h"

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
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, map_text, unmap_text);
}
