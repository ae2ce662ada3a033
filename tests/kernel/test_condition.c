/* SPDX-License-Identifier: MIT */
/*
 * test_condition.c - a false condition has no side effect: no signal, no record, no wake-up, no
 * use of a limit; a true one does what a hit does. Decided in the kernel, in the handler
 * (callbacks without BPF), and by the reader (records without BPF).
 */
#include "crew.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <trapline/condition.h>

static volatile uint64_t word __attribute__((aligned(64)));
static volatile uint64_t second __attribute__((aligned(64)));
static struct trapline_event *other; /* what count(other) reads */

#define TEST_EACH_PLACE(f) TEST_EACH_MODE(f), TEST_IN(f, handler)

/* The reader comes late: what it finds in memory is not what the hit saw. */
#define TEST_AT_HIT(f) TEST_IN(f, callback), TEST_IN(f, bpf), TEST_IN(f, handler)

static int find_function(void *arg, const char *name, uint64_t *address, uint64_t *bytes);

static struct trapline_event *find_event(void *arg, const char *name)
{
	return strcmp(name, "other") ? NULL : other;
}

static struct trapline_condition *condition(const char *text)
{
	struct trapline_condition_error error;
	struct trapline_condition *parsed = NULL;
	TRAPLINE_OPTS(condition, opts);

	opts.find_symbol = find_function;
	opts.find_event = find_event;
	opts.error = &error;
	if (trapline_condition_parse(text, &opts, &parsed))
		print_message("# %s: column %d: %s\n", text, error.column, error.message);
	assert_non_null(parsed);
	return parsed;
}

static void rig_watch_if(struct rig *rig, const char *text, struct trapline_event_opts *opts)
{
	TRAPLINE_OPTS(event, plain);
	struct trapline_condition *parsed = condition(text);

	if (!opts)
		opts = &plain;
	opts->condition = parsed;
	rig_watch(rig, &word, opts);
	trapline_condition_free(parsed); /* the event has a copy */
}

static void rig_break_if(struct rig *rig, void (*function)(uint64_t, const char *),
			 const char *text)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *parsed = condition(text);

	opts.condition = parsed;
	rig_prepare(rig, &opts);
	expect_ok(trapline_break(rig->target, ADDR(function), &opts, &rig->event));
	trapline_condition_free(parsed);
}

/* Where it must be decided: in the kernel where it can, and tried by this test's own means. */
static bool kernel_can_veto(void)
{
	struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_PERF_EVENT,
		.insn_cnt = 2,
		.insns = ADDR(insns),
		.license = ADDR("GPL"),
	};
	static volatile uint64_t tried __attribute__((aligned(8)));
	sigset_t trap, before, pending;
	struct timespec now = {0};
	int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	int fd = bare_open(&tried, 0, true);

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, &before);
	bool attached = program >= 0 && fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_SET_BPF, program);
	store(&tried, 1);
	sigpending(&pending);
	bool signalled = sigismember(&pending, SIGTRAP);
	if (signalled)
		sigtimedwait(&trap, NULL, &now);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(fd);
	close(program);
	return attached && !signalled;
}

static enum trapline_evaluated expected_place(enum mode mode)
{
	if (mode == BY_RING)
		return TRAPLINE_EVALUATED_BY_READER;
	if (mode == BY_BPF)
		return TRAPLINE_EVALUATED_IN_KERNEL;
	return mode == BY_CALLBACK && kernel_can_veto() ? TRAPLINE_EVALUATED_IN_KERNEL :
							  TRAPLINE_EVALUATED_IN_HANDLER;
}

static void only_true_hits_are_delivered(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	enum trapline_evaluated place = expected_place(MODE(state));

	rig_watch_if(&rig, "hits == 31 || hits == 64", NULL);
	store_many(&word, 100);
	assert_int_equal(rig_hits(&rig), 2);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.evaluated_in, place);
	assert_int_equal(s.taken, 100);
	assert_int_equal(s.hits, 100);
	assert_int_equal(s.rejected_condition, 98);
	assert_int_equal(s.condition_faults, 0);
	assert_int_equal(stats_lost(&s), 0);
	rig_close(&rig);
}

static void the_value_at_the_hit_decides(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	store(&word, 1000);
	rig_watch_if(&rig, "new == 42 || new == 43 && old == 42", NULL);
	store_many(&word, 100);
	expect_hits(&rig, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig.seen[i].new_value, 42 + i);
		assert_int_equal(rig.seen[i].old_known, 1);
		/* Rejected hits are hits: the chain has no gap. */
		assert_int_equal(rig.seen[i].old_value, 41 + i);
		assert_int_equal(rig.seen[i].value_when, TRAPLINE_VALUE_AT_HIT);
	}
	rig_close(&rig);
}

static void changed_compares_with_the_hit_before(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	store(&word, 5);
	rig_watch_if(&rig, "changed", NULL);
	for (int i = 0; i < 10; i++)
		store(&word, 5);
	expect_hits(&rig, 0);
	store(&word, 6);
	store(&word, 6);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

/* The store whose hit has the value 7: the next one where a hit has the value before. */
#define FIRST_TRUE (7 + !ACCESS_DONE)

static void a_false_condition_raises_no_signal(void **state)
{
	struct rig rig;
	sigset_t trap, pending;

	rig_open(&rig, BY_CALLBACK);
	if (!kernel_can_veto())
		skip_because("a kernel whose BPF programs hold back signals (6.10)");
	rig_watch_if(&rig, "new == 7", NULL);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, NULL);
	for (uint64_t i = 0; i < FIRST_TRUE; i++) {
		store(&word, i);
		sigpending(&pending);
		assert_false(sigismember(&pending, SIGTRAP));
	}
	store(&word, FIRST_TRUE);
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGTRAP));
	sigprocmask(SIG_UNBLOCK, &trap, NULL);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void a_false_condition_wakes_no_reader(void **state)
{
	struct rig rig;

	rig_open(&rig, BY_BPF);
	rig_watch_if(&rig, "new == 7", NULL);

	struct pollfd fd = {.fd = trapline_fd(rig.target), .events = POLLIN};

	assert_true(fd.fd >= 0);
	store_many(&word, FIRST_TRUE);
	assert_int_equal(poll(&fd, 1, 20), 0);
	assert_int_equal(stats_of(rig.event).unread, 0);
	store(&word, FIRST_TRUE);
	assert_int_equal(poll(&fd, 1, 1000), 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void a_false_condition_uses_no_limit(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.limit = 3;
	rig_watch_if(&rig, "hits % 10 == 0", &opts);
	store_many(&word, 29);
	assert_int_equal(rig_hits(&rig), 2);
	store_many(&word, 100);
	assert_int_equal(rig_hits(&rig), 3);
	/* Re-armed, the count of hits goes on where the event was off. */
	assert_int_equal(trapline_event_rearm(rig.event, 2), 0);
	store_many(&word, 100);
	assert_int_equal(rig_hits(&rig), 5);
	rig_close(&rig);
}

static void no_signal_comes_after_the_last_hit(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct crew crew;
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);
	if (!kernel_can_veto())
		skip_because("a kernel whose BPF programs hold back signals (6.10)");
	crew_muster(&crew, 16, &word);
	opts.limit = 50;
	rig_watch(&rig, &word, &opts);
	crew_run(&crew, 2000);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.delivered, 50);
	assert_int_equal(s.evaluated_in, TRAPLINE_EVALUATED_IN_KERNEL);
	/* What came until the event was off was rejected before it became a signal. */
	assert_int_equal(s.taken, 50 + s.rejected_limit + s.rejected_duplicate);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void one_of_all_hits_of_many_threads(void **state)
{
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	crew_muster(&crew, 16, &word);
	rig_watch_if(&rig, "hits == 5000", NULL);
	crew_run(&crew, 1000);
	if (MODE(state) == BY_RING) {
		/* 16,000 records are more than its ring holds. */
		rig_hits(&rig);
	} else {
		expect_hits(&rig, 1);
		/* A hypervisor can lose the cause of a trap: the kernel counts no hit then, and we do. */
		const struct trapline_stats s = stats_of(rig.event);
		assert_int_equal(s.hits + s.lost_causes, 16000);
	}
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void hits_are_counted_in_each_thread(void **state)
{
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	crew_muster(&crew, 8, &word);
	rig_watch_if(&rig, "hits_in_thread == 17", NULL);
	crew_run(&crew, 40);
	expect_hits(&rig, 8);
	for (unsigned int i = 0; i < crew.count; i++)
		assert_int_equal(seen_from(&rig, crew.tids[i]), 1);
	rig_close(&rig);
	/* Another event begins at 0 in the same threads. */
	rig_open(&rig, MODE(state));
	rig_watch_if(&rig, "hits_in_thread == 17", NULL);
	crew_run(&crew, 40);
	expect_hits(&rig, 8);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static void one_thread_of_many_by_its_id(void **state)
{
	struct crew crew;
	struct rig rig;
	char text[64];

	rig_open(&rig, MODE(state));
	crew_muster(&crew, 8, &word);
	snprintf(text, sizeof(text), "tid == %d && pid == %d", crew.tids[3], getpid());
	rig_watch_if(&rig, text, NULL);
	crew_run(&crew, 30);
	expect_hits(&rig, 30);
	assert_int_equal(seen_from(&rig, crew.tids[3]), 30);
	rig_close(&rig);
	crew_dismiss(&crew);
}

static _Atomic bool names_are_read;

static void *named_main(void *arg)
{
	prctl(PR_SET_NAME, arg);
	store_many(&word, 5);
	WAIT_UNTIL(names_are_read); /* by ring later than the hit, while the thread lives */
	return NULL;
}

static void a_thread_by_its_name(void **state)
{
	static char names[3][16] = {"reader", "writer", "writer2"};
	pthread_t threads[3];
	struct rig rig;

	names_are_read = false;
	rig_open(&rig, MODE(state));
	rig_watch_if(&rig, "thread == \"writer\"", NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, named_main, names[i]);
	WAIT_UNTIL(rig_hits(&rig) >= 5);
	names_are_read = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	expect_hits(&rig, 5);
	rig_close(&rig);
}

static NOINLINE void request(uint64_t number, const char *method)
{
	__asm__ volatile("" ::"r"(number), "r"(method) : "memory");
}

static NOINLINE void caller_one(uint64_t number)
{
	request(number, "GET /");
	__asm__ volatile("");
}

static NOINLINE void caller_two(uint64_t number)
{
	request(number, "PUT /");
	__asm__ volatile("");
}

/* Sizes are not known to a program of itself: these functions are shorter than that. */
static int find_function(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	if (!strcmp(name, "caller_one"))
		*address = ADDR(caller_one);
	else if (!strcmp(name, "caller_two"))
		*address = ADDR(caller_two);
	else if (!strcmp(name, "word"))
		*address = ADDR(&word);
	else
		return -ENOENT;
	*bytes = 24;
	return 0;
}

static void call_both(void)
{
	for (uint64_t i = 0; i < 10; i++) {
		caller_one(i);
		caller_two(i);
	}
}

static void arguments_of_a_function_decide(void **state)
{
	static const struct {
		const char *text;
		uint64_t hits;
		bool on_stack; /* read later, it holds something else */
	} cases[] = {
		{"arg0 == 3", 2, false},
		{"(s32)arg0 > 7", 4, false},
		{"str(arg1) == \"GET\"", 10, false},
		{"str(arg1) != \"GET\" && arg0 < 4", 4, false},
		{"*(u8 *)arg1 == 'P' && *(u8 *)(arg1 + 4) == '/'", 10, false},
		{"caller in caller_two", 10, true},
		{"caller in caller_one && arg0 >= 5", 5, true},
		{"hits == 20 ? 1 : 0", 1, false},
		{"*(u64 *)&word == 77", 20, false},
		{"*(u64 *)&word == 78", 0, false},
	};

	store(&word, 77);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rig rig;

		if (cases[i].on_stack && MODE(state) == BY_RING)
			continue;
		rig_open(&rig, MODE(state));
		rig_break_if(&rig, request, cases[i].text);
		call_both();
		if (rig_hits(&rig) != cases[i].hits)
			print_message("# %s\n", cases[i].text);
		assert_int_equal(rig_hits(&rig), cases[i].hits);

		struct trapline_stats s = rig_stats(&rig);

		assert_int_equal(s.condition_faults, 0);
		assert_int_equal(s.taken, 20);
		rig_close(&rig);
	}
}

static void what_cannot_be_read_is_false_and_counted(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch_if(&rig, "!*(u64 *)16 || 1 / (hits - hits)", NULL);
	store_many(&word, 10);
	expect_hits(&rig, 0);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.rejected_condition, 10);
	assert_int_equal(s.condition_faults, 10);
	rig_close(&rig);
}

static void another_events_count_decides(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig first;
	struct rig rig;

	rig_open(&first, MODE(state));
	require_each_watch_reported();
	/* A callback's hits are counted where its condition is decided. */
	struct trapline_condition *always = condition("1");

	opts.condition = always;
	rig_prepare(&first, &opts);
	expect_ok(trapline_watch(first.target, ADDR(&second), 8, TRAPLINE_WRITE, &opts,
				 &first.event));
	trapline_condition_free(always);
	other = first.event;
	rig_open(&rig, MODE(state));
	rig_watch_if(&rig, "count(other) == 3", NULL);
	for (uint64_t i = 0; i < 6; i++) {
		store(&word, i);
		rig_hits(&rig); /* readers count as they read */
		store(&second, i);
		rig_hits(&first);
	}
	assert_int_equal(rig_hits(&rig), 1);
	/* The counted event may end first. */
	rig_close(&first);
	store(&word, 1);
	rig_hits(&rig);
	rig_close(&rig);
	other = NULL;
}

static void a_storm_of_false_hits_leaves_nothing(void **state)
{
	struct crew crew;
	struct rig rig;

	rig_open(&rig, MODE(state));
	crew_muster(&crew, 32, &word);
	rig_watch_if(&rig, "new == ~0ull && 0 || addr != &word", NULL);
	crew_run(&crew, 500);
	expect_hits(&rig, 0);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, s.rejected_condition + s.rejected_duplicate);
	assert_int_equal(s.hits, 16000);
	rig_close(&rig);
	crew_dismiss(&crew);
}

/* A program of the test's own: the hit passes when the second argument register holds want. */
static int own_filter(uint64_t want)
{
	struct bpf_insn insns[] = {
		{.code = BPF_LDX | BPF_MEM | BPF_DW,
		 .dst_reg = 1,
		 .src_reg = 1,
#if defined(__x86_64__)
		 .off = 14 * 8}, /* rdi in struct pt_regs */
#else
		 .off = 0},
#endif
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 1, .off = 1, .imm = (int)want},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_PERF_EVENT,
		.insn_cnt = 5,
		.insns = ADDR(insns),
		.license = ADDR("GPL"),
	};

	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

/* The kernel's perf_skip selftest, through the library: a program skips hits, then does not. */
static void own_program_skips_hits(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	int filter = own_filter(6);

	if (filter < 0)
		skip_because("BPF programs on perf events (CAP_BPF and CAP_PERFMON)");
	rig_open(&rig, MODE(state));
	opts.filter_fd = filter;
	rig_prepare(&rig, &opts);
	int err = trapline_break(rig.target, ADDR(request), &opts, &rig.event);
	close(filter);
	if (MODE(state) == BY_CALLBACK && !kernel_can_veto()) {
		assert_int_equal(err, -EOPNOTSUPP);
		close_target(rig.target);
		return;
	}
	expect_ok(err);
	call_both();
	assert_int_equal(rig_hits(&rig), 2);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.rejected_condition, 18);
	assert_int_equal(stats_lost(&s), 0);
	trapline_event_close(rig.event);
	/* Without the program each hit comes. */
	TRAPLINE_OPTS(event, plain);
	rig_prepare(&rig, &plain);
	rig.hits = 0;
	expect_ok(trapline_break(rig.target, ADDR(request), &plain, &rig.event));
	call_both();
	expect_hits(&rig, 20);
	rig_close(&rig);
}

/* A software event: each first touch of a page is one hit. */
static void a_counter_takes_a_condition_too(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *parsed = condition("hits % 10 == 0");
	uint64_t pages = 100;
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.condition = parsed;
	opts.period = 1;
	opts.scope = TRAPLINE_CALLER;
	rig_prepare(&rig, &opts);
	char *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
	expect_ok(trapline_count(rig.target, TRAPLINE_PAGE_FAULTS, &opts, &rig.event));
	trapline_condition_free(parsed);
	for (uint64_t i = 0; i < pages; i++)
		memory[i * 4096] = 1;
	trapline_event_disable(rig.event);
	munmap(memory, pages * 4096);

	/* The library's own first touches may be among them. */
	uint64_t hits = rig_hits(&rig);
	struct trapline_stats s = stats_of(rig.event);

	assert_true(s.hits >= pages);
	assert_int_equal(hits, s.hits / 10);
	assert_int_equal(s.rejected_condition, s.hits - hits);
	rig_close(&rig);
}

static void wrong_conditions_are_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *value = condition("new == 1");
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.condition = value;
	rig_prepare(&rig, &opts);
	/* A value where there is none. */
	assert_int_equal(trapline_break(rig.target, ADDR(request), &opts, &rig.event), -EINVAL);
	opts.filter_fd = 1;
	assert_int_equal(trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts,
					&rig.event), -EINVAL);
	trapline_condition_free(value);
	opts.condition = NULL;
	opts.filter_fd = -1;
	assert_int_equal(trapline_watch(rig.target, ADDR(&word), 8, TRAPLINE_WRITE, &opts,
					&rig.event), -EINVAL);
	close_target(rig.target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_PLACE(only_true_hits_are_delivered),
		TEST_AT_HIT(the_value_at_the_hit_decides),
		TEST_AT_HIT(changed_compares_with_the_hit_before),
		TEST(a_false_condition_raises_no_signal),
		TEST(a_false_condition_wakes_no_reader),
		TEST_EACH_PLACE(a_false_condition_uses_no_limit),
		TEST(no_signal_comes_after_the_last_hit),
		TEST_EACH_PLACE(one_of_all_hits_of_many_threads),
		TEST_EACH_PLACE(hits_are_counted_in_each_thread),
		TEST_EACH_PLACE(one_thread_of_many_by_its_id),
		TEST_EACH_PLACE(a_thread_by_its_name),
		TEST_EACH_PLACE(arguments_of_a_function_decide),
		TEST_EACH_PLACE(what_cannot_be_read_is_false_and_counted),
		TEST_EACH_PLACE(another_events_count_decides),
		TEST_AT_HIT(a_storm_of_false_hits_leaves_nothing),
		TEST_IN(own_program_skips_hits, callback),
		TEST_IN(own_program_skips_hits, ring),
		TEST_EACH_PLACE(a_counter_takes_a_condition_too),
		TEST_EACH_PLACE(wrong_conditions_are_refused),
	};

	return run_group(tests);
}
