/* SPDX-License-Identifier: MIT */
/* test_sites.c - breakpoints without number: in the code's page, for all threads, by uprobes. */
#include "crew.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <trapline/condition.h>

/* Each does something else, so that none is folded into another. */
#define SITE(n)                                                             \
	static NOINLINE uint64_t site_##n(uint64_t a, uint64_t b)           \
	{                                                                   \
		__asm__ volatile("" ::: "memory");                          \
		return a + b * (n);                                         \
	}
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)
SITE(8)

typedef uint64_t (*site_function)(uint64_t, uint64_t);
static const site_function sites[] = {site_1, site_2, site_3, site_4,
				      site_5, site_6, site_7, site_8};

static void require_uprobes(struct rig *rig)
{
	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK))
		skip_because("uprobes (CONFIG_UPROBE_EVENTS)");
	if (geteuid())
		skip_because("root (CAP_SYS_ADMIN, for uprobes)");
	rig_open(rig, BY_BPF);
}

static int try_sites(struct rig *rig, size_t count, struct trapline_event_opts *opts)
{
	uint64_t addrs[ARRAY_LEN(sites)];
	TRAPLINE_OPTS(event, plain);

	if (!opts)
		opts = &plain;
	opts->arg = rig;
	for (size_t i = 0; i < count; i++)
		addrs[i] = ADDR(sites[i]);
	return trapline_break_sites(rig->target, addrs, count, opts, &rig->event);
}

static void rig_sites(struct rig *rig, size_t count, struct trapline_event_opts *opts)
{
	expect_ok(try_sites(rig, count, opts));
	assert_int_equal(trapline_event_mechanism(rig->event), TRAPLINE_BY_UPROBE);
}

static void call_all(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		for (size_t s = 0; s < ARRAY_LEN(sites); s++)
			sites[s](i, s);
}

static void each_call_of_each_function_is_one_hit(void **state)
{
	struct rig rig;

	require_uprobes(&rig);
	rig_sites(&rig, 6, NULL);
	call_all(10);
	expect_hits(&rig, 60);
	for (size_t i = 0; i < 60; i++) {
		assert_int_equal(rig.seen[i].address, ADDR(sites[i % 6]));
		assert_int_equal(rig.seen[i].ip, ADDR(sites[i % 6]));
		assert_int_equal(rig.seen[i].tid, gettid());
		assert_int_equal(rig.seen[i].returned, 0);
	}
	assert_int_equal(stats_of(rig.event).registers, 0);
	rig_close(&rig);
}

static uint64_t returned_values[SEEN_MAX];

static enum trapline_action note_return(const struct trapline_hit *hit)
{
	struct rig *rig = hit->arg;

	/* DWARF register 0 holds a result on x86-64 and arm64. */
	trapline_hit_register(hit, 0, &returned_values[rig->hits % SEEN_MAX]);
	return rig_note(hit);
}

static void returns_are_hits_with_the_result(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	opts.flags = TRAPLINE_RETURNS;
	rig_sites(&rig, 3, &opts);
	call_all(5);
	while (trapline_poll(rig.target, 0, note_return) > 0)
		;
	expect_hits(&rig, 30);
	for (size_t i = 0; i < 30; i++) {
		size_t nth = i / 2;

		assert_int_equal(rig.seen[i].returned, i % 2);
		assert_int_equal(rig.seen[i].address, ADDR(sites[nth % 3]));
		if (i % 2)
			assert_int_equal(returned_values[i],
					 nth / 3 + nth % 3 * (nth % 3 + 1));
	}
	rig_close(&rig);
}

static void returns_are_those_of_calls_that_passed(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *condition;
	struct rig rig;

	require_uprobes(&rig);
	assert_int_equal(trapline_condition_parse("arg0 >= 90", NULL, &condition), 0);
	opts.condition = condition;
	opts.flags = TRAPLINE_RETURNS;
	opts.limit = 7;
	rig_sites(&rig, 8, &opts);
	trapline_condition_free(condition);
	call_all(100);
	expect_hits(&rig, 14);
	for (size_t i = 0; i < 14; i++) {
		assert_int_equal(rig.seen[i].returned, i % 2);
		assert_int_equal(rig.seen[i].address, rig.seen[i / 2 * 2].address);
	}

	struct trapline_stats s = stats_of(rig.event);

	/* Returns of rejected calls are no hits: nobody has to account for them. */
	assert_int_equal(s.rejected_condition, 90 * 8);
	assert_int_equal(s.taken, s.delivered + s.rejected_condition + s.rejected_limit);
	rig_close(&rig);
}

static NOINLINE uint64_t outer(uint64_t depth)
{
	uint64_t below = depth ? outer(depth - 1) : 0;

	__asm__ volatile("" ::: "memory");
	return below + 1;
}

static void a_recursive_function_returns_as_often_as_it_is_called(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	uint64_t addr = ADDR(outer);

	require_uprobes(&rig);
	opts.flags = TRAPLINE_RETURNS;
	opts.arg = &rig;
	expect_ok(trapline_break_sites(rig.target, &addr, 1, &opts, &rig.event));
	assert_int_equal(outer(9), 10);
	expect_hits(&rig, 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(rig.seen[i].returned, i >= 10);
	rig_close(&rig);
}

static uint64_t caller_seen;
static char text_seen[64];
static int text_status;

static enum trapline_action note_caller(const struct trapline_hit *hit)
{
	const char *text;

	caller_seen = hit->caller;
	/* DWARF register 5: the first argument on x86-64. */
	text_status = trapline_hit_text(hit, 5, &text);
	snprintf(text_seen, sizeof(text_seen), "%s", text_status ? "" : text);
	return rig_note(hit);
}

static void the_caller_and_texts_are_read_at_the_hit(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	char text[100];

	require_uprobes(&rig);
	opts.texts = 1u << 5 | 1u << 4;
	rig_sites(&rig, 8, &opts);
	memset(text, 'x', sizeof(text));
	snprintf(text, sizeof(text), "as it was");
	site_1(ADDR(text), 0);
	snprintf(text, sizeof(text), "as it is");
	while (trapline_poll(rig.target, 0, note_caller) > 0)
		;
	assert_int_equal(text_status, 0);
	assert_string_equal(text_seen, "as it was");
	assert_true(caller_seen > ADDR(the_caller_and_texts_are_read_at_the_hit) &&
		    caller_seen < ADDR(the_caller_and_texts_are_read_at_the_hit) + 4096);
	memset(text, 'x', sizeof(text));
	site_2(ADDR(text), 0);
	while (trapline_poll(rig.target, 0, note_caller) > 0)
		;
	assert_int_equal(strlen(text_seen), 63);
	site_3(3, 0);
	while (trapline_poll(rig.target, 0, note_caller) > 0)
		;
	assert_int_equal(text_status, -ENODATA);
	expect_hits(&rig, 3);
	rig_close(&rig);
}

static void *call_later(void *arg)
{
	pthread_barrier_wait(arg);
	call_all(100);
	return NULL;
}

static void old_and_new_threads_are_covered(void **state)
{
	pthread_barrier_t go;
	pthread_t old[4];
	pthread_t new[4];
	struct rig rig;

	require_uprobes(&rig);
	pthread_barrier_init(&go, NULL, 9);
	for (int i = 0; i < 4; i++)
		pthread_create(&old[i], NULL, call_later, &go);
	rig_sites(&rig, 8, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&new[i], NULL, call_later, &go);
	pthread_barrier_wait(&go);
	for (int i = 0; i < 4; i++) {
		pthread_join(old[i], NULL);
		pthread_join(new[i], NULL);
	}
	expect_hits(&rig, 8 * 100 * 8);
	rig_close(&rig);
}

static int call_in_child(void *arg)
{
	call_all(20);
	return 0;
}

static void other_processes_are_not_counted(void **state)
{
	struct rig rig;

	require_uprobes(&rig);
	rig_sites(&rig, 8, NULL);
	expect_exit(status_of_child(call_in_child, NULL), 0);
	expect_hits(&rig, 0);
	assert_int_equal(stats_of(rig.event).taken, 0);
	call_all(1);
	expect_hits(&rig, 8);
	rig_close(&rig);
}

#define FORKS 300

static int call_in_child_and_grandchild(void *arg)
{
	call_all(1);
	return status_of_child(call_in_child, NULL);
}

static void children_are_followed_from_their_first_instruction(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	uint64_t expected = 0;

	require_uprobes(&rig);
	opts.flags = TRAPLINE_FOLLOW_FORKS;
	rig_sites(&rig, 1, &opts);
	for (int i = 0; i < FORKS; i++) {
		expect_exit(status_of_child(call_in_child_and_grandchild, NULL), 0);
		expected += 21;
		rig_glance(&rig);
	}
	expect_hits(&rig, expected);
	assert_int_not_equal(rig.seen[0].pid, getpid());
	assert_int_equal(rig.seen[0].pid, rig.seen[0].tid);
	assert_int_not_equal(rig.seen[1].pid, rig.seen[0].pid);
	assert_int_equal(stats_of(rig.event).not_followed, 0);
	assert_int_equal(stats_of(rig.event).followed, 0);
	rig_close(&rig);
}

static int call_when_asked(void *arg)
{
	int *pipes = arg;
	char c;

	while (read(pipes[0], &c, 1) == 1) {
		sites[0](1, 1);
		if (write(pipes[3], &c, 1) != 1)
			return 1;
	}
	return 0;
}

static void ask_for_call(const int *pipes)
{
	char c = 0;

	assert_int_equal(write(pipes[1], &c, 1), 1);
	assert_int_equal(read(pipes[2], &c, 1), 1);
}

static void a_process_that_is_added_is_one_more(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	int pipes[4];

	require_uprobes(&rig);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(pipe2(pipes + 2, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		close(pipes[1]);
		_exit(call_when_asked(pipes));
	}
	opts.flags = TRAPLINE_SEVERAL;
	rig_sites(&rig, 1, &opts);
	ask_for_call(pipes);
	expect_hits(&rig, 0);
	assert_int_equal(trapline_event_add(rig.event, child), 0);
	ask_for_call(pipes);
	sites[0](1, 1);
	expect_hits(&rig, 2);
	assert_int_equal(rig.seen[0].pid, child);
	assert_int_equal(rig.seen[1].pid, getpid());
	close(pipes[1]);
	waitpid(child, NULL, 0);
	/* Children of neither are followed. */
	expect_exit(status_of_child(call_in_child, NULL), 0);
	expect_hits(&rig, 2);
	assert_int_equal(trapline_event_add(rig.event, child), -ESRCH);
	rig_close(&rig);
}

static void several_processes_are_asked_for(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	rig_sites(&rig, 1, NULL);
	assert_int_equal(trapline_event_add(rig.event, getppid()), -EINVAL);
	opts.program = "some";
	struct trapline_event *other;
	const uint64_t at = ADDR(site_1);
	assert_int_equal(trapline_break_sites(rig.target, &at, 1, &opts, &other), -EINVAL);
	opts.flags = TRAPLINE_SEVERAL;
	assert_int_equal(trapline_break(rig.target, at, &opts, &other), -EINVAL);
	rig_close(&rig);
}

static void a_condition_and_a_limit_are_evaluated_in_the_kernel(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *condition;
	struct rig rig;

	require_uprobes(&rig);
	assert_int_equal(trapline_condition_parse("arg0 >= 50 && arg1 == 2", NULL, &condition), 0);
	opts.condition = condition;
	opts.limit = 7;
	rig_sites(&rig, 8, &opts);
	trapline_condition_free(condition);
	call_all(100);
	expect_hits(&rig, 7);

	struct trapline_stats s = stats_of(rig.event);

	assert_int_equal(s.evaluated_in, TRAPLINE_EVALUATED_IN_KERNEL);
	/* After the limit the event is off: what comes then is no hit of it. */
	assert_true(s.rejected_condition >= 400);
	assert_int_equal(trapline_event_rearm(rig.event, 3), 0);
	call_all(100);
	expect_hits(&rig, 10);
	rig_close(&rig);
}

static void disabled_it_counts_nothing(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	opts.flags = TRAPLINE_DISABLED;
	rig_sites(&rig, 8, &opts);
	call_all(5);
	expect_hits(&rig, 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	call_all(5);
	expect_hits(&rig, 40);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	call_all(5);
	expect_hits(&rig, 40);
	assert_int_equal(stats_of(rig.event).taken, 40);
	/* The breakpoints stay in the code, and each call is a trap. */
	assert_int_equal(stats_of(rig.event).while_off, 80);
	rig_close(&rig);
}

static void at_rest_the_code_is_as_it_was(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	uint8_t before[16];

	require_uprobes(&rig);
	memcpy(before, (const void *)(uintptr_t)ADDR(sites[0]), sizeof(before));
	opts.limit = 20;
	rig_sites(&rig, 8, &opts);
	call_all(1);
	assert_int_equal(trapline_event_rest(rig.event), 0);
	assert_memory_equal(before, (const void *)(uintptr_t)ADDR(sites[0]), sizeof(before));
	call_all(3);
	assert_int_equal(trapline_event_rest(rig.event), 0);
	assert_int_equal(stats_of(rig.event).while_off, 0);
	/* What was counted stays, and so does the limit. */
	assert_int_equal(trapline_event_enable(rig.event), 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	call_all(5);
	expect_hits(&rig, 20);
	assert_int_equal(stats_of(rig.event).taken, 48);
	assert_int_equal(trapline_event_rest(rig.event), 0);
	rig_close(&rig);
	assert_memory_equal(before, (const void *)(uintptr_t)ADDR(sites[0]), sizeof(before));
}

static void after_a_rest_returns_are_those_of_calls_that_passed(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	opts.flags = TRAPLINE_RETURNS;
	rig_sites(&rig, 2, &opts);
	site_1(1, 2);
	expect_hits(&rig, 2);
	assert_int_equal(trapline_event_rest(rig.event), 0);
	site_1(1, 2);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	site_2(1, 2);
	expect_hits(&rig, 4);
	assert_int_equal(rig.seen[3].returned, TRAPLINE_RETURNED);
	rig_close(&rig);
}

static void closing_puts_the_code_back(void **state)
{
	uint8_t before[ARRAY_LEN(sites)][16];
	struct rig rig;

	require_uprobes(&rig);
	for (size_t i = 0; i < ARRAY_LEN(sites); i++)
		memcpy(before[i], (const void *)(uintptr_t)ADDR(sites[i]), 16);
	rig_sites(&rig, 8, NULL);
	assert_int_not_equal(memcmp(before[0], (const void *)(uintptr_t)ADDR(sites[0]), 16), 0);
	call_all(1);
	expect_hits(&rig, 8);
	rig_close(&rig);
	for (size_t i = 0; i < ARRAY_LEN(sites); i++)
		assert_memory_equal(before[i], (const void *)(uintptr_t)ADDR(sites[i]), 16);
	call_all(1);
}

static void what_cannot_be_is_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	uint64_t anonymous = ADDR(mmap(NULL, 4096, PROT_READ | PROT_EXEC,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	char why[256];

	require_uprobes(&rig);
	opts.arg = &rig;
	assert_int_equal(trapline_break_sites(rig.target, &anonymous, 1, &opts, &rig.event),
			 -ENOENT);
	trapline_explain(-ENOENT, why, sizeof(why));
	assert_non_null(strstr(why, "that code is not from a file"));
	assert_int_equal(trapline_break_sites(rig.target, &anonymous, 0, &opts, &rig.event),
			 -EINVAL);
	opts.callback = rig_note;
	assert_int_equal(try_sites(&rig, 1, &opts), -EINVAL);
	opts.callback = NULL;
	opts.flags = TRAPLINE_RETURNS;
	assert_int_equal(trapline_break(rig.target, ADDR(site_1), &opts, &rig.event), -EINVAL);
	munmap((void *)(uintptr_t)anonymous, 4096);
	close_target(rig.target);
	TRAPLINE_OPTS(open, without);
	without.flags = TRAPLINE_NO_BPF;
	expect_ok(trapline_open(0, &without, &rig.target));
	assert_int_equal(try_sites(&rig, 1, NULL), -EOPNOTSUPP);
	trapline_close(rig.target);
}

#if defined(__x86_64__)
static NOINLINE void halt(void)
{
	__asm__ volatile("hlt");
}

static void instruction_that_takes_no_breakpoint_is_refused(void **state)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t addr = ADDR(halt);
	struct rig rig;
	char why[512];

	require_uprobes(&rig);
	while (*(const uint8_t *)(uintptr_t)addr != 0xf4)
		addr++;
	int err = trapline_break_sites(rig.target, &addr, 1, &opts, &rig.event);
	assert_int_equal(err, -EOPNOTSUPP);
	trapline_explain(err, why, sizeof(why));
	assert_non_null(strstr(why, "cannot put a breakpoint on an instruction"));
	close_target(rig.target);
}

/* The opcode behind the prefix is that of a jump, of a return, or of neither. */
#define BYTES_AT(name, bytes)                                  \
	extern const char name[];                              \
	__asm__(".pushsection .text\n" #name ":\n.byte " bytes \
		"\n ret\n.popsection")

BYTES_AT(vpbroadcastb, "0x62, 0xe2, 0x7d, 0x08, 0x7a, 0xc6");
BYTES_AT(vpor, "0xc5, 0xf9, 0xeb, 0xc1");
BYTES_AT(vcmpps, "0xc5, 0xf8, 0xc2, 0xc1, 0x00");
BYTES_AT(vpor_segment, "0x65, 0xc5, 0xf9, 0xeb, 0x07");
BYTES_AT(vphadd_xop, "0x8f, 0xe9, 0x78, 0xc2, 0xc1");
BYTES_AT(pop_memory, "0x8f, 0x44, 0x24, 0xf8"); /* no XOP */
BYTES_AT(mov_segment, "0x65, 0x48, 0x8b, 0x07");

static int try_bytes(struct rig *rig, const char *at)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t addresses[2] = {ADDR(site_1), (uintptr_t)at};

	return trapline_break_sites(rig->target, addresses, 2, &opts, &rig->event);
}

static void vector_instruction_that_the_kernel_mistakes_is_refused(void **state)
{
	const char *vectors[] = {vpbroadcastb, vpor, vcmpps, vpor_segment, vphadd_xop};
	const char *others[] = {pop_memory, mov_segment};
	struct rig rig;
	char why[512];

	require_uprobes(&rig);
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		int err = try_bytes(&rig, vectors[i]);

		assert_int_equal(err, -EOPNOTSUPP);
		trapline_explain(err, why, sizeof(why));
		assert_non_null(strstr(why, "vector instruction"));
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		expect_ok(try_bytes(&rig, others[i]));
		trapline_event_close(rig.event);
	}
	close_target(rig.target);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_call_of_each_function_is_one_hit),
#if defined(__x86_64__)
		TEST(instruction_that_takes_no_breakpoint_is_refused),
		TEST(vector_instruction_that_the_kernel_mistakes_is_refused),
#endif
		TEST(returns_are_hits_with_the_result),
		TEST(returns_are_those_of_calls_that_passed),
		TEST(a_recursive_function_returns_as_often_as_it_is_called),
		TEST(the_caller_and_texts_are_read_at_the_hit),
		TEST(old_and_new_threads_are_covered),
		TEST(other_processes_are_not_counted),
		TEST(children_are_followed_from_their_first_instruction),
		TEST(a_process_that_is_added_is_one_more),
		TEST(several_processes_are_asked_for),
		TEST(a_condition_and_a_limit_are_evaluated_in_the_kernel),
		TEST(disabled_it_counts_nothing),
		TEST(at_rest_the_code_is_as_it_was),
		TEST(after_a_rest_returns_are_those_of_calls_that_passed),
		TEST(closing_puts_the_code_back),
		TEST(what_cannot_be_is_refused),
	};

	return run_group(tests);
}
