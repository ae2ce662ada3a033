/* SPDX-License-Identifier: MIT */
/*
 * test_probe_arm64.c - probes on arm64: each form of instruction under one, registers, conditions,
 * limits, where a callback may send a thread, and threads that run while probes come and go.
 */
#include "forms_arm64.h"

#include <sys/auxv.h>
#include <ucontext.h>

#include <trapline/condition.h>

static struct trapline *target;
static uint64_t callbacks;
static uint64_t last_ip;

static enum trapline_action count(const struct trapline_hit *hit)
{
	__atomic_fetch_add(&callbacks, 1, __ATOMIC_RELAXED);
	last_ip = hit->ip;
	return TRAPLINE_GO_ON;
}

static int set_up(void **state)
{
	callbacks = 0;
	return trapline_open(0, NULL, &target);
}

static int tear_down(void **state)
{
	trapline_close(target);
	return 0;
}

static void check(int err, const char *what)
{
	if (err)
		fail_with(err, what);
	assert_int_equal(err, 0);
}

static struct trapline_event *probe_with(uint64_t address, const char *condition,
					 struct trapline_event_opts *opts)
{
	struct trapline_condition *parsed = NULL;
	struct trapline_event *event = NULL;

	if (condition)
		check(trapline_condition_parse(condition, NULL, &parsed), condition);
	opts->condition = parsed;
	check(trapline_probe(target, address, opts, &event), "probe");
	trapline_condition_free(parsed);
	return event;
}

static struct trapline_event *probe_at(uint64_t address, const char *condition,
				       trapline_callback callback)
{
	TRAPLINE_OPTS(event, opts);

	opts.callback = callback;
	return probe_with(address, condition, &opts);
}

static struct trapline_stats stats_of(struct trapline_event *event)
{
	struct trapline_stats stats = { .size = sizeof(stats) };

	check(trapline_event_stats(event, &stats), "stats");
	return stats;
}

static bool is_jump(struct trapline_event *event)
{
	return trapline_event_mechanism(event) == TRAPLINE_BY_PROBE;
}

/* ---- instructions ---- */

static void each_form_under_a_probe_does_what_it_does_without(void **state)
{
	size_t jumps = 0;

	assert_in_range(FORMS, 50, 64);
	for (size_t f = 0; f < FORMS; f++) {
		const uint32_t *site = (const void *)(uintptr_t)__start_forms[f].site;
		uint32_t before = *site;
		struct trapline_event *event = NULL;
		struct registers inputs[INPUTS];
		struct registers plain[INPUTS];

		for (size_t i = 0; i < INPUTS; i++) {
			make_input(i, &inputs[i]);
			plain[i] = inputs[i];
			__start_forms[f].run(&plain[i]);
		}
		event = probe_at(ADDR(site), NULL, count);
		assert_int_not_equal(*site, before);
		jumps += is_jump(event);
		callbacks = 0;
		for (size_t i = 0; i < INPUTS; i++) {
			__start_forms[f].run(&inputs[i]);
			if (memcmp(&inputs[i], &plain[i], sizeof(plain[i])))
				fail_msg("form %zu, input %zu", f, i);
		}
		assert_int_equal(callbacks, INPUTS);
		assert_int_equal(last_ip, ADDR(site));
		trapline_event_close(event);
		assert_int_equal(*site, before);
	}
	print_message("# %zu of %zu forms by a branch\n", jumps, FORMS);
	if (!(getauxval(AT_HWCAP2) & 1ul << 23)) /* SME */
		assert_true(jumps > FORMS / 2);
}

/* ---- registers ---- */

/* Fills the vector registers, runs the probed nop, and gives back what they are then. */
void run_vectors(uint64_t *out);
extern const uint32_t vectors_site[];
#define FILL(n) "movi v" #n ".16b, #" #n "\n" "ins v" #n ".d[1], x0\n"
#define DRAIN(n) "str q" #n ", [x1, #16 * " #n "]\n"
#define EACH_V(m) \
	m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15) \
	m(16) m(17) m(18) m(19) m(20) m(21) m(22) m(23) m(24) m(25) m(26) m(27) m(28) m(29) \
	m(30) m(31)
__asm__(".text\n.balign 16\n.globl run_vectors, vectors_site\n"
	"run_vectors:\n"
	"stp d8, d9, [sp, #-64]!\n"
	"stp d10, d11, [sp, #16]\n"
	"stp d12, d13, [sp, #32]\n"
	"stp d14, d15, [sp, #48]\n"
	"mov x1, x0\n"
	EACH_V(FILL)
	"mov x2, #0x10\n"
	"msr fpsr, x2\n"
	"vectors_site: nop\n"
	EACH_V(DRAIN)
	"mrs x2, fpsr\n"
	"str x2, [x1, #512]\n"
	"msr fpsr, xzr\n"
	"ldp d14, d15, [sp, #48]\n"
	"ldp d12, d13, [sp, #32]\n"
	"ldp d10, d11, [sp, #16]\n"
	"ldp d8, d9, [sp], #64\n"
	"ret\n");

#define SPOIL(n) "movi v" #n ".16b, #0xa5\n"
static enum trapline_action spoil_vectors(const struct trapline_hit *hit)
{
	__asm__ volatile(EACH_V(SPOIL) "msr fpsr, xzr\n" ::: "v0", "v1", "v2", "v3", "v4", "v5", "v6",
			 "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
			 "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
			 "v28", "v29", "v30", "v31", "memory");
	return count(hit);
}

static void vector_registers_survive_a_callback(void **state)
{
	uint64_t plain[65];
	uint64_t probed[65];

	run_vectors(plain);
	struct trapline_event *event = probe_at(ADDR(vectors_site), NULL, spoil_vectors);
	for (int i = 0; i < 10; i++) {
		memset(probed, 0, sizeof(probed));
		run_vectors(probed);
		for (int n = 0; n < 32; n++) {
			assert_int_equal(probed[2 * n], plain[2 * n]);
			assert_int_equal(probed[2 * n + 1], ADDR(probed));
		}
		assert_int_equal(probed[64], 0x10);
	}
	assert_int_equal(callbacks, 10);
	trapline_event_close(event);
}

/* Whole registers of SVE, a predicate, and the register of first faults. */
void run_sve(uint8_t *out);
extern const uint32_t sve_site[];
__asm__(".text\n.arch_extension sve\n.balign 16\n.globl run_sve, sve_site\n"
	"run_sve:\n"
	"stp d8, d9, [sp, #-16]!\n"
	"ptrue p0.b\n"
	"setffr\n"
	"index z0.b, #1, #3\n"
	"index z9.b, #2, #5\n"
	"index z31.b, #7, #1\n"
	"ptrue p3.h\n"
	"ptrue p15.s\n"
	"sve_site: nop\n"
	"str z0, [x0]\n"
	"str z9, [x0, #1, mul vl]\n"
	"str z31, [x0, #2, mul vl]\n"
	"rdvl x1, #3\n"
	"add x0, x0, x1\n"
	"str p3, [x0]\n"
	"str p15, [x0, #1, mul vl]\n"
	"rdffr p1.b\n"
	"str p1, [x0, #2, mul vl]\n"
	"ldp d8, d9, [sp], #16\n"
	"ret\n"
	".globl spoil_sve\n"
	"spoil_sve:\n"
	"stp d8, d9, [sp, #-16]!\n"
	"dup z0.b, #0x55\n"
	"dup z9.b, #0x55\n"
	"dup z31.b, #0x55\n"
	"pfalse p3.b\n"
	"pfalse p15.b\n"
	"wrffr p3.b\n"
	"ldp d8, d9, [sp], #16\n"
	"ret\n"
	".arch_extension nosve\n");
void spoil_sve(void);

static enum trapline_action spoil_by_sve(const struct trapline_hit *hit)
{
	spoil_sve();
	return count(hit);
}

static void registers_of_sve_survive_a_callback(void **state)
{
	static uint8_t plain[4 * 256];
	static uint8_t probed[4 * 256];

	if (!(getauxval(AT_HWCAP) & HWCAP_SVE)) {
		print_message("# the processor has no SVE\n");
		skip();
	}
	run_sve(plain);
	struct trapline_event *event = probe_at(ADDR(sve_site), NULL, spoil_by_sve);
	run_sve(probed);
	assert_memory_equal(probed, plain, sizeof(plain));
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

/* ---- conditions and limits ---- */

__attribute__((noipa)) static uint64_t five(uint64_t a, uint64_t b)
{
	return a * 3 + b;
}

__attribute__((noipa)) static uint64_t other(uint64_t a, uint64_t b)
{
	return a + b * 7;
}

static void a_false_condition_calls_nothing(void **state)
{
	struct trapline_event *event = probe_at(ADDR(five), "arg0 == 17 && arg1 > 2", count);

	for (uint64_t a = 0; a < 40; a++)
		for (uint64_t b = 0; b < 10; b++)
			assert_int_equal(five(a, b), a * 3 + b);
	assert_int_equal(callbacks, 7);
	struct trapline_stats stats = stats_of(event);
	assert_int_equal(stats.evaluated_in, TRAPLINE_EVALUATED_IN_HANDLER);
	assert_int_equal(stats.taken, 400);
	assert_int_equal(stats.rejected_condition, 393);
	assert_int_equal(stats.delivered, 7);
	assert_int_equal(stats.registers, 0);
	trapline_event_close(event);
	five(17, 3);
	assert_int_equal(callbacks, 7);
}

#define THREADS 4
#define PASSES 2000

static void *pass_often(void *arg)
{
	for (uint64_t i = 0; i < PASSES; i++)
		if (five(i, 1) != i * 3 + 1)
			return (void *)1;
	return NULL;
}

static void pass_with_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_often, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *bad;

		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
}

static void each_pass_of_each_thread_is_one_hit(void **state)
{
	struct trapline_event *event = probe_at(ADDR(five), NULL, count);

	pass_with_threads();
	assert_int_equal(callbacks, THREADS * PASSES);
	assert_int_equal(stats_of(event).delivered, THREADS * PASSES);
	trapline_event_close(event);
}

static void a_limit_is_exact(void **state)
{
	TRAPLINE_OPTS(event, opts);

	opts.callback = count;
	opts.limit = 777;
	struct trapline_event *event = probe_with(ADDR(five), "arg0 % 2 == 0", &opts);
	pass_with_threads();
	assert_int_equal(callbacks, 777);
	assert_int_equal(stats_of(event).delivered, 777);
	trapline_event_close(event);
}

static void hits_without_a_callback_are_read(void **state);
static uint64_t read_hits;

static enum trapline_action read_hit(const struct trapline_hit *hit)
{
	assert_int_equal(hit->ip, ADDR(five));
	assert_int_equal(hit->regs[0], read_hits++);
	assert_int_equal(hit->regs[1], 2);
	assert_in_range(hit->caller, ADDR(hits_without_a_callback_are_read),
			ADDR(hits_without_a_callback_are_read) + 4096);
	return TRAPLINE_GO_ON;
}

static void hits_without_a_callback_are_read(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = probe_with(ADDR(five), NULL, &opts);

	for (uint64_t i = 0; i < 5; i++)
		five(i, 2);
	while (trapline_poll(target, 0, read_hit) > 0)
		;
	assert_int_equal(read_hits, 5);
	assert_int_equal(stats_of(event).delivered, 5);
	trapline_event_close(event);
}

/* ---- what a callback may do ---- */

static enum trapline_action change_argument(const struct trapline_hit *hit)
{
	ucontext_t *context = hit->context;

	context->uc_mcontext.regs[0] = 100;
	return count(hit);
}

static enum trapline_action go_elsewhere(const struct trapline_hit *hit)
{
	ucontext_t *context = hit->context;

	context->uc_mcontext.pc = ADDR(other);
	return count(hit);
}

static void a_callback_changes_registers_and_the_way(void **state)
{
	struct trapline_event *event = probe_at(ADDR(five), NULL, change_argument);
	stack_t before;
	stack_t after;
	sigset_t mask;

	assert_int_equal(five(1, 2), 302);
	trapline_event_close(event);
	assert_int_equal(five(1, 2), 5);
	sigaltstack(NULL, &before);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	event = probe_at(ADDR(five), NULL, go_elsewhere);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(five(i, 2), i + 14);
	trapline_event_close(event);
	assert_int_equal(five(1, 2), 5);
	assert_int_equal(callbacks, 21);
	/* By the kernel, which takes these from the frame too. */
	sigaltstack(NULL, &after);
	assert_ptr_equal(before.ss_sp, after.ss_sp);
	assert_int_equal(before.ss_flags, after.ss_flags);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGUSR2), 1);
	assert_int_equal(sigismember(&mask, SIGUSR1), 0);
	sigemptyset(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static uint64_t frames[8];
static uint32_t frame_count;

static enum trapline_action note_stack(const struct trapline_hit *hit)
{
	frame_count = hit->stack_count < 8 ? hit->stack_count : 8;
	memcpy(frames, hit->stack, frame_count * sizeof(*frames));
	return count(hit);
}

__attribute__((noipa)) static uint64_t calls_five(uint64_t a)
{
	return five(a, 1) + 1;
}

static void a_stack_continues_at_the_caller(void **state)
{
	TRAPLINE_OPTS(event, opts);

	opts.callback = note_stack;
	opts.stack_depth = 8;
	struct trapline_event *event = probe_with(ADDR(five), NULL, &opts);
	assert_int_equal(calls_five(1), 5);
	trapline_event_close(event);
	assert_true(frame_count >= 3);
	assert_int_equal(frames[0], ADDR(five));
	assert_in_range(frames[1], ADDR(calls_five), ADDR(calls_five) + 64);
}

/* ---- what gets in the way ---- */

static bool stop;

static void *pass_until_stopped(void *arg)
{
	uint64_t *passes = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (five(*passes, 1) != *passes * 3 + 1)
			_exit(3);
		__atomic_fetch_add(passes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void probes_come_and_go_under_threads(void **state)
{
	static uint64_t passes[THREADS];
	pthread_t threads[THREADS];

	stop = false;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, pass_until_stopped, &passes[i]);
	for (unsigned int i = 0; i < scaled(2000); i++) {
		uint64_t before = callbacks;
		struct trapline_event *event = probe_at(ADDR(five), NULL, count);

		five(1, 1);
		trapline_event_close(event);
		assert_true(callbacks > before);
		uint64_t after = callbacks;
		five(1, 1);
		assert_int_equal(callbacks, after);
		if (i % 10 == 0)
			usleep(2000);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(passes[i] > 0);
	}
}

static void what_cannot_be_probed_is_refused(void **state)
{
	struct trapline_event *event = NULL;
	struct trapline_event *second = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.callback = count;
	assert_int_equal(trapline_probe(target, 64, &opts, &event), -EFAULT);
	event = probe_at(ADDR(five), NULL, count);
	assert_int_equal(trapline_probe(target, ADDR(five), &opts, &second), -EBUSY);
	trapline_event_close(event);
	event = probe_at(ADDR(five), NULL, count);
	five(1, 1);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

static void a_child_of_fork_runs_past_the_probes_of_its_parent(void **state)
{
	struct trapline_event *event = probe_at(ADDR(five), NULL, count);
	int status = 1;
	pid_t child = fork();

	if (!child)
		_exit(five(2, 2) != 8 || callbacks != 0);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	five(1, 1);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_false_condition_calls_nothing),
		TEST(each_form_under_a_probe_does_what_it_does_without),
		TEST(vector_registers_survive_a_callback),
		TEST(registers_of_sve_survive_a_callback),
		TEST(each_pass_of_each_thread_is_one_hit),
		TEST(a_limit_is_exact),
		TEST(hits_without_a_callback_are_read),
		TEST(a_callback_changes_registers_and_the_way),
		TEST(a_stack_continues_at_the_caller),
		TEST(probes_come_and_go_under_threads),
		TEST(what_cannot_be_probed_is_refused),
		TEST(a_child_of_fork_runs_past_the_probes_of_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
