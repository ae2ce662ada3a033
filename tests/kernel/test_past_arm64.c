/* SPDX-License-Identifier: MIT */
/*
 * test_past_arm64.c - arm64 reports before the access: each instruction that a watch or a breakpoint
 * reports is executed once, with the result that it has alone, and no access is counted twice.
 */
#include "common.h"

#include <sys/auxv.h>
#include <sys/mman.h>

/* What a form works on: x1 to x6, q0 and q1, the flags; and the memory that x1 points to. */
struct words {
	uint64_t x[8];
	uint64_t q[4];
	uint64_t flags;
};

static struct {
	uint64_t below[512];
	volatile uint64_t watched[8] __attribute__((aligned(64)));
	uint64_t above[64];
} memory;

#define WORD (&memory.watched[0])

/* x0 and x8 are the form's frame. The label is on the instruction that is looked at. */
#define FORM(name, before, text, after)                                               \
	extern const char at_##name[] __attribute__((visibility("hidden")));           \
	void form_##name(struct words *words);                                        \
	__asm__(".pushsection .text\n.arch armv8.5-a+lse+rcpc\n.p2align 4\n"          \
		"form_" #name ":\n"                                                   \
		"ldp x1, x2, [x0, #8]\nldp x3, x4, [x0, #24]\nldp x5, x6, [x0, #40]\n" \
		"ldp q0, q1, [x0, #64]\nldr x7, [x0, #96]\nmsr nzcv, x7\n"             \
		"mov x8, sp\n" before "\n.globl at_" #name "\nat_" #name ":\n" text "\n" after             \
		"\nmov sp, x8\nmrs x7, nzcv\nstr x7, [x0, #96]\n"                      \
		"stp x1, x2, [x0, #8]\nstp x3, x4, [x0, #24]\nstp x5, x6, [x0, #40]\n" \
		"stp q0, q1, [x0, #64]\nret\n.popsection\n");

#define ACCESSES(F)                                              \
	F(str, "", "str x2, [x1]", "")                           \
	F(str_w, "", "str w2, [x1]", "")                         \
	F(strh, "", "strh w2, [x1, #2]", "")                     \
	F(strb, "", "strb w2, [x1, #7]", "")                     \
	F(str_zero, "", "str xzr, [x1]", "")                     \
	F(ldr, "", "ldr x3, [x1]", "")                           \
	F(ldr_base, "", "ldr x1, [x1]", "")                      \
	F(ldrsw, "", "ldrsw x3, [x1]", "")                       \
	F(ldrsb, "", "ldrsb w3, [x1, #1]", "")                   \
	F(stp, "", "stp x2, x3, [x1]", "")                       \
	F(ldp, "", "ldp x3, x4, [x1]", "")                       \
	F(post, "", "str x2, [x1], #8", "")                      \
	F(pre, "sub x1, x1, #8", "str x2, [x1, #8]!", "")        \
	F(sp, "mov sp, x1", "str x2, [sp]", "")                  \
	F(sp_pre, "add sp, x1, #16", "stp x2, x3, [sp, #-16]!", "mov x4, sp") \
	F(indexed, "mov x4, #-2", "str x2, [x1, x4, lsl #3]", "") \
	F(unaligned, "", "stur x2, [x1, #3]", "")                \
	F(stlr, "", "stlr x2, [x1]", "")                         \
	F(ldar, "", "ldar x3, [x1]", "")                         \
	F(ldapr, "", "ldapr x3, [x1]", "")                       \
	F(ldadd, "", "ldaddal x2, x3, [x1]", "")                 \
	F(stadd, "", "stadd x2, [x1]", "")                       \
	F(swp, "", "swpal w2, w3, [x1]", "")                     \
	F(cas_same, "ldr x2, [x0, #48]", "casal x2, x3, [x1]", "") \
	F(cas_other, "", "casal x2, x3, [x1]", "")               \
	F(casp, "", "casp x2, x3, x4, x5, [x1]", "")             \
	F(str_q, "", "str q0, [x1]", "")                         \
	F(ldr_q, "", "ldr q1, [x1]", "")                         \
	F(ldr_s, "", "ldr s1, [x1]", "")                         \
	F(stp_q, "", "stp q0, q1, [x1]", "")                     \
	F(st1, "", "st1 {v0.16b, v1.16b}, [x1], #32", "")        \
	F(ld1_lane, "", "ld1 {v1.s}[2], [x1]", "")               \
	F(zva, "", "dc zva, x1", "")

#define CODE(F)                                                              \
	F(add, "", "add x3, x2, #5", "")                                     \
	F(sub_sp, "", "sub sp, sp, #32", "mov x3, sp\nsub x3, x8, x3")       \
	F(mov_sp, "", "mov x3, sp", "sub x3, x3, x8")                        \
	F(frame, "", "stp x2, x3, [sp, #-16]!", "ldp x4, x5, [sp], #16")     \
	F(subs, "", "subs x3, x2, x4", "")                                   \
	F(adcs, "", "adcs x3, x2, x4", "")                                   \
	F(ccmp, "", "ccmp x2, x3, #4, ne", "")                               \
	F(csel, "", "csel x3, x2, x4, mi", "")                               \
	F(madd, "", "madd x3, x2, x4, x5", "")                               \
	F(adr, "", "adr x3, at_adr", "adr x4, at_adr\nsub x3, x3, x4")       \
	F(adrp, "", "adrp x3, memory", "")                                   \
	F(literal, "", "ldr x3, 9f", "b 8f\n.p2align 3\n9: .quad 77\n8:")    \
	F(literal_q, "", "ldr d1, 9f", "b 8f\n.p2align 3\n9: .quad 78\n8:")  \
	F(jump, "", "b 8f", "mov x3, #1\n8:")                                \
	F(cbz, "mov x4, #0", "cbz x4, 8f", "mov x3, #1\n8:")                 \
	F(cbnz, "mov x4, #0", "cbnz x4, 8f", "mov x3, #1\n8:")               \
	F(tbnz, "", "tbnz x2, #3, 8f", "mov x3, #1\n8:")                     \
	F(beq, "cmp x2, x2", "b.eq 8f", "mov x3, #1\n8:")                    \
	F(bl, "mov x6, x30", "bl 8f", "8: mov x30, x6\nmov x6, #0")                      \
	F(br, "adr x4, 8f", "br x4", "mov x3, #1\n8: mov x4, #0")            \
	F(blr, "mov x6, x30\nadr x30, 8f", "blr x30", "mov x3, #1\n8: mov x30, x6\nmov x6, #0") \
	F(sign, "mov x6, x30", "paciasp", "autiasp\nmov x3, x30\nsub x3, x3, x6\nmov x30, x6\nmov x6, #0") \
	F(check_sign, "mov x6, x30\npaciasp", "autiasp", "mov x3, x30\nsub x3, x3, x6\nmov x30, x6\nmov x6, #0") \
	F(nop, "", "nop", "")                                                \
	F(bti, "", "bti c", "")                                              \
	F(dmb, "", "dmb ish", "")                                            \
	F(mrs, "", "mrs x3, tpidr_el0", "")                                  \
	F(fadd, "", "fadd v1.2d, v0.2d, v1.2d", "")                          \
	F(fmov, "", "fmov x3, d0", "")                                       \
	F(fcmp, "", "fcmp d0, d1", "")                                       \
	F(store_too, "", "str x2, [x1]", "")

ACCESSES(FORM)
CODE(FORM)
FORM(svc, "mov x8, #172", "svc #0", "mov x8, sp\nadr x7, 8f\n8:")
FORM(exclusive, "", "ldxr x3, [x1]", "")
FORM(brk, "b 8f", "brk #1", "8:")

struct form {
	const char *name;
	const char *at;
	void (*run)(struct words *words);
};

#define ROW(name, before, text, after) { #name, at_##name, form_##name },
static const struct form accesses[] = { ACCESSES(ROW) };
static const struct form code[] = { CODE(ROW) };

static void set_words(struct words *words)
{
	memset(words, 0, sizeof(*words));
	for (int i = 1; i < 8; i++)
		words->x[i] = 0x1234567890abcdefull * (unsigned int)(i + 2);
	words->x[1] = ADDR(WORD);
	words->q[0] = 0x3ff8000000000000ull;
	words->q[1] = 0x4000000000000000ull;
	words->q[2] = 0x4010000000000000ull;
	words->q[3] = 0x1122334455667788ull;
	words->flags = 0xa0000000u;
	for (int i = 0; i < 8; i++)
		memory.watched[i] = 0x0102030405060708ull * (unsigned int)(i + 1);
	/* for cas that succeeds */
	words->x[6] = memory.watched[0];
}

/* A form may have the stack pointer in memory of its own: signals are elsewhere. */
static void use_signal_stack(void)
{
	static char room[65536] __attribute__((aligned(16)));
	const stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };

	assert_int_equal(sigaltstack(&stack, NULL), 0);
}

static void expect_same(const struct form *form, const struct words *now,
			const struct words *wanted, const uint64_t *bytes)
{
	if (memcmp(now, wanted, sizeof(*now)) || memcmp((void *)WORD, bytes, 64))
		fail_msg("%s had another result than alone", form->name);
}

static void each_access_is_executed_once(void **state)
{
	use_signal_stack();
	for (size_t i = 0; i < ARRAY_LEN(accesses); i++) {
		const struct form *form = &accesses[i];
		struct words wanted, now;
		uint64_t bytes[8];
		struct rig rig;

		set_words(&wanted);
		form->run(&wanted);
		memcpy(bytes, (void *)WORD, sizeof(bytes));
		rig_open(&rig, MODE(state));
		rig_watch_range(&rig, WORD, 8, TRAPLINE_READ_WRITE, NULL);
		for (int round = 0; round < 3; round++) {
			trapline_event_disable(rig.event);
			set_words(&now);
			trapline_event_enable(rig.event);
			form->run(&now);
			trapline_event_disable(rig.event);
			expect_same(form, &now, &wanted, bytes);
		}
		if (rig.hits != 3 * (strcmp(form->name, "indexed") != 0))
			fail_msg("%s: %lu hits", form->name, rig.hits);
		if (rig.hits) {
			assert_int_equal(rig.seen[0].ip, ADDR(form->at));
			assert_int_equal(rig.seen[0].done, 0);
		}
		struct trapline_stats s = expect_identity(rig.event);
		assert_int_equal(s.taken, rig.hits);
		rig_close(&rig);
	}
}

static void each_instruction_is_executed_once(void **state)
{
	use_signal_stack();
	for (size_t i = 0; i < ARRAY_LEN(code); i++) {
		const struct form *form = &code[i];
		TRAPLINE_OPTS(event, opts);
		struct words wanted, now;
		uint64_t bytes[8];
		struct rig rig;

		set_words(&wanted);
		form->run(&wanted);
		memcpy(bytes, (void *)WORD, sizeof(bytes));
		rig_open(&rig, MODE(state));
		rig_prepare(&rig, &opts);
		expect_ok(trapline_break(rig.target, ADDR(form->at), &opts, &rig.event));
		for (int round = 0; round < 3; round++) {
			set_words(&now);
			form->run(&now);
			expect_same(form, &now, &wanted, bytes);
		}
		if (rig.hits != 3)
			fail_msg("%s: %lu hits", form->name, rig.hits);
		assert_int_equal(expect_identity(rig.event).taken, 3);
		rig_close(&rig);
	}
}

static void what_cannot_be_passed_is_refused(void **state)
{
	const char *const where[] = { at_svc, at_exclusive, at_brk };

	for (size_t i = 0; i < ARRAY_LEN(where); i++) {
		TRAPLINE_OPTS(event, opts);
		struct rig rig;
		char why[500];

		rig_open(&rig, BY_CALLBACK);
		rig_prepare(&rig, &opts);
		int err = trapline_break(rig.target, ADDR(where[i]), &opts, &rig.event);
		assert_int_equal(err, -EOPNOTSUPP);
		trapline_explain(err, why, sizeof(why));
		assert_non_null(strstr(why, "taken past"));
		close_target(rig.target);
	}
}

static NOINLINE void add_exclusively(volatile uint64_t *word)
{
	uint64_t value;
	uint32_t failed;

	__asm__ volatile("1:	ldxr %0, [%2]\n"
			 "	add %0, %0, #1\n"
			 "	stxr %w1, %0, [%2]\n"
			 "	cbnz %w1, 1b\n"
			 : "=&r"(value), "=&r"(failed)
			 : "r"(word)
			 : "memory");
}

/* The reservation is lost with each exception: the program continues, and the event ends. */
static void exclusive_accesses_end_the_event(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	*WORD = 0;
	rig_watch(&rig, WORD, NULL);
	for (int i = 0; i < 100; i++)
		add_exclusively(WORD);
	assert_int_equal(*WORD, 100);
	struct trapline_stats s = expect_identity(rig.event);
	assert_int_equal(s.rseq_stops, 1);
	assert_int_equal(s.delivered, 1);
	rig_close(&rig);
}

static NOINLINE void add(volatile uint64_t *word)
{
	__asm__ volatile(".arch_extension lse\nstaddl %0, [%1]" : : "r"(1ull), "r"(word) : "memory");
}

#define THREADS 4
#define ADDS 500

static void *add_often(void *arg)
{
	for (int i = 0; i < ADDS; i++)
		add(arg);
	return NULL;
}

static void add_in_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add_often, (void *)WORD);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void expect_all(struct rig *rig, uint64_t all)
{
	rig_hits(rig);
	struct trapline_stats s = expect_identity(rig->event);

	assert_int_equal(s.taken - s.rejected_duplicate, all);
	assert_int_equal(s.delivered + s.lost_merged, all);
}

/* Two callbacks, one of them for half of the word, and records of both kinds, in all threads. */
static void events_on_one_word_count_alike(void **state)
{
	const enum mode modes[] = { BY_BPF, BY_CALLBACK, BY_RING, BY_HANDLER };
	struct rig rigs[ARRAY_LEN(modes)];

	memset((void *)WORD, 0, 8);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		if (modes[i] == BY_BPF && !bpf_is_permitted())
			skip_because("BPF programs");
		rig_open_with(&rigs[i], modes[i], 0, 16u << 20);
		rig_watch_range(&rigs[i], WORD, i == 1 ? 4 : 8, TRAPLINE_WRITE, NULL);
	}
	add_in_threads();
	assert_int_equal(*WORD, THREADS * ADDS);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		expect_all(&rigs[i], THREADS * ADDS);
	assert_int_equal(rigs[1].hits + rigs[3].hits, THREADS * ADDS);
	for (size_t i = ARRAY_LEN(modes); i-- > 0;)
		rig_close(&rigs[i]);
}

static _Atomic int ticks;

static void on_tick(int number)
{
	add(WORD);
	ticks++;
}

/* The program's own handler comes between, and accesses the word as well. */
static void signals_in_between_lose_nothing(void **state)
{
	const struct itimerspec often = { { 0, 300000 }, { 0, 300000 } };
	struct sigevent by = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	uint64_t adds = 0;
	timer_t timer;
	struct rig rig;

	signal(SIGUSR1, on_tick);
	*WORD = 0;
	ticks = 0;
	rig_open(&rig, MODE(state));
	rig_watch(&rig, WORD, NULL);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &by, &timer), 0);
	timer_settime(timer, 0, &often, NULL);
	for (; ticks < 200; adds++)
		add(WORD);
	timer_delete(timer);
	assert_int_equal(*WORD, adds + (uint64_t)ticks);
	struct trapline_stats s = expect_identity(rig.event);
	assert_int_equal(s.taken, *WORD);
	assert_int_equal(s.delivered + s.lost_nested, *WORD);
	rig_close(&rig);
	signal(SIGUSR1, SIG_DFL);
}

static void blocked_signals_execute_nothing_twice(void **state)
{
	sigset_t trap;
	struct rig rig;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	*WORD = 0;
	rig_open(&rig, MODE(state));
	rig_watch(&rig, WORD, NULL);
	for (int i = 0; i < 10; i++) {
		pthread_sigmask(SIG_BLOCK, &trap, NULL);
		add(WORD);
		add(WORD);
		pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
	}
	assert_int_equal(*WORD, 20);
	struct trapline_stats s = expect_identity(rig.event);
	assert_int_equal(s.taken, 20);
	assert_int_equal(s.async, 10);
	assert_int_equal(s.lost_merged, 10);
	rig_close(&rig);
}

static struct rig both[2];

/* The breakpoint's hit is first. That of the watch is counted, and has no signal of its own. */
static void breakpoint_on_a_store_counts_its_watch(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct words first;

	set_words(&first);
	for (int i = 0; i < 2; i++)
		rig_open(&both[i], MODE(state));
	rig_watch(&both[0], WORD, NULL);
	rig_prepare(&both[1], &opts);
	expect_ok(trapline_break(both[1].target, ADDR(at_store_too), &opts, &both[1].event));
	for (int i = 0; i < 20; i++) {
		struct words words = first;

		form_store_too(&words);
	}
	assert_int_equal(both[1].hits, 20);
	struct trapline_stats s = expect_identity(both[0].event);
	assert_int_equal(s.taken, 20);
	assert_int_equal(s.delivered, 0);
	assert_int_equal(s.lost_merged, 20);
	rig_close(&both[1]);
	rig_close(&both[0]);
}

static enum trapline_action store_another(const struct trapline_hit *hit)
{
	ucontext_t *context = hit->context;

	context->uc_mcontext.regs[2] = 4242;
	return TRAPLINE_GO_ON;
}

static void callback_may_change_what_is_stored(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct words words;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	opts.callback = store_another;
	set_words(&words);
	rig_watch(&rig, WORD, &opts);
	form_str(&words);
	assert_int_equal(*WORD, 4242);
	close_target(rig.target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN(each_access_is_executed_once, callback),
		TEST_IN(each_access_is_executed_once, handler),
		TEST_IN(each_instruction_is_executed_once, callback),
		TEST(what_cannot_be_passed_is_refused),
		TEST_IN(exclusive_accesses_end_the_event, callback),
		TEST_IN(exclusive_accesses_end_the_event, handler),
		TEST(events_on_one_word_count_alike),
		TEST_IN(signals_in_between_lose_nothing, callback),
		TEST_IN(signals_in_between_lose_nothing, handler),
		TEST_IN(blocked_signals_execute_nothing_twice, callback),
		TEST_IN(breakpoint_on_a_store_counts_its_watch, callback),
		TEST_IN(breakpoint_on_a_store_counts_its_watch, handler),
		TEST(callback_may_change_what_is_stored),
	};

	return run_group(tests);
}
