/* SPDX-License-Identifier: MIT */
/*
 * common.h - what the kernel tests share: a rig (target, event, what was seen), a crew of threads
 * that write on command, and honest skips.
 *
 * A skip is decided by bare system calls, never by the library: where the kernel can, it must.
 * Only the main thread asserts. Each test runs under alarm(300), so that none can hang.
 */
#ifndef TESTS_KERNEL_COMMON_H
#define TESTS_KERNEL_COMMON_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <trapline/trapline.h>

#include "../stress.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A function of its own: not inlined, not cloned. */
#if defined(__clang__)
#define NOINLINE __attribute__((noinline, unused))
#else
#define NOINLINE __attribute__((noipa, unused))
#endif

#define ADDR(p) ((uint64_t)(uintptr_t)(p))

/* x86-64 reports a data access after it, arm64 before it. */
#if defined(__x86_64__)
#define ACCESS_DONE 1
#else
#define ACCESS_DONE 0
#endif

/* Told when the test's alarm comes. */
static const char *volatile waiting_for __attribute__((unused));
static pid_t test_process __attribute__((unused));

/* Only where a test's alarm bounds it. */
#define WAIT_UNTIL(condition)             \
	do {                              \
		waiting_for = #condition; \
		while (!(condition))      \
			usleep(100);      \
		waiting_for = NULL;       \
	} while (0)

enum mode {
	BY_CALLBACK,
	BY_BPF,
	BY_RING,
	BY_HANDLER, /* a callback whose condition is not the kernel's to decide */
};

static const enum mode mode_callback __attribute__((unused)) = BY_CALLBACK;
static const enum mode mode_bpf __attribute__((unused)) = BY_BPF;
static const enum mode mode_ring __attribute__((unused)) = BY_RING;
static const enum mode mode_handler __attribute__((unused)) = BY_HANDLER;

#define MODE(state) (*(const enum mode *)*(state))

#define TEST(f) {#f, f, test_begin, test_end, NULL}
#define TEST_IN(f, m) {#f "_by_" #m, f, test_begin, test_end, (void *)&mode_##m}
#define TEST_RECORDS(f) TEST_IN(f, bpf), TEST_IN(f, ring)
#define TEST_EACH_MODE(f) TEST_IN(f, callback), TEST_RECORDS(f)

/* One line of what hung. A child ends as it would without us. */
static inline void on_alarm_of_test(int number)
{
	const char *parts[] = {"\nBail out! the alarm came while waiting for ",
			       waiting_for ? waiting_for : "something else than a condition", "\n"};

	signal(number, SIG_DFL);
	for (size_t i = 0; getpid() == test_process && i < ARRAY_LEN(parts); i++)
		if (write(STDOUT_FILENO, parts[i], strlen(parts[i])) < 0)
			break;
	raise(number);
}

static inline int test_begin(void **state)
{
	test_process = getpid();
	waiting_for = NULL;
	signal(SIGALRM, on_alarm_of_test);
	alarm(300);
	return 0;
}

/* What a failed or skipped test leaves open would hold registers: closed by test_end(). */
static struct trapline *left_open[4] __attribute__((unused));

static inline void keep_target(struct trapline *target)
{
	size_t i = 0;

	while (left_open[i])
		i++;
	left_open[i] = target;
}

static inline void close_target(struct trapline *target)
{
	for (size_t i = 0; i < ARRAY_LEN(left_open); i++)
		if (left_open[i] == target)
			left_open[i] = NULL;
	trapline_close(target);
}

static inline int test_end(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(left_open); i++)
		if (left_open[i])
			close_target(left_open[i]);
	alarm(0);
	return 0;
}

/* TRAPLINE_TEST=PATTERN runs those tests alone. */
#define run_group(tests)                                                          \
	(setvbuf(stdout, NULL, _IOLBF, 0), /* what ended before a hang is told */ \
	 cmocka_set_test_filter(getenv("TRAPLINE_TEST")),                         \
	 cmocka_run_group_tests(tests, NULL, NULL))

static inline void skip_because(const char *what_is_missing)
{
	print_message("# skipped: %s\n", what_is_missing);
	skip();
}

/* What counting system calls needs. */
static inline void need_syscall_tracepoint(void)
{
	if (access("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", R_OK) &&
	    access("/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id", R_OK))
		skip_because("the tracepoint raw_syscalls:sys_enter (tracefs)");
}

static inline unsigned int test_seed(void)
{
	const char *given = getenv("TRAPLINE_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0)
				  : (unsigned int)(time(NULL) ^ getpid() << 8);

	print_message("# TRAPLINE_SEED=%u\n", seed);
	return seed;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One access each, in a function of its own, so that an ip can be placed. */
static NOINLINE void store(volatile uint64_t *word, uint64_t value)
{
	*word = value;
}

static NOINLINE uint64_t load(const volatile uint64_t *word)
{
	return *word;
}

static inline void store_many(volatile uint64_t *word, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		store(word, i);
}

/* A bare event, without the library. */
static inline int bare_open(const volatile void *addr, pid_t tid, bool sigtrap)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = ADDR(addr),
		.bp_len = 8,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.sigtrap = sigtrap,
		.remove_on_exec = sigtrap,
		.inherit = sigtrap,
		.inherit_thread = sigtrap,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Emulators report one watch of those that an instruction hits, and may add an older one. */
static inline bool is_each_watch_reported(void)
{
	static volatile uint64_t word __attribute__((aligned(8)));
	uint64_t counts[2] = {0};
	int fds[2];

	for (int i = 0; i < 2; i++)
		fds[i] = bare_open(&word, 0, false);
	store(&word, 1);
	for (int i = 0; i < 2; i++) {
		if (fds[i] < 0 || read(fds[i], &counts[i], 8) != 8)
			counts[i] = 1; /* another thing is missing, and is said elsewhere */
		close(fds[i]);
	}
	return counts[0] == 1 && counts[1] == 1;
}

static inline void require_each_watch_reported(void)
{
	if (!is_each_watch_reported())
		skip_because("a processor that reports each of two watches hit at once");
}

static inline bool bpf_is_permitted(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_PERF_EVENT,
		.insn_cnt = 2,
		.insns = ADDR(insns),
		.license = ADDR("GPL"),
	};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static inline void require(enum mode mode)
{
	static uint64_t word __attribute__((aligned(8)));
	int fd = bare_open(&word, 0, true);

	if (fd < 0) {
		print_message("# perf_event_open: %s\n", strerror(errno));
		assert_int_not_equal(errno, ENOSPC); /* an earlier test kept a register */
		skip_because("breakpoint events with sigtrap (kernel or paranoid)");
	}
	close(fd);
	if (mode == BY_BPF && !bpf_is_permitted())
		skip_because("BPF programs on perf events (CAP_BPF and CAP_PERFMON)");
}

static inline bool calls_back(enum mode mode)
{
	return mode == BY_CALLBACK || mode == BY_HANDLER;
}

#define SEEN_MAX 128

struct rig {
	struct trapline *target;
	struct trapline_event *event;
	enum mode mode;
	_Atomic uint64_t hits;
	struct trapline_hit seen[SEEN_MAX]; /* the first ones, their pointers gone stale */
};

static inline enum trapline_action rig_note(const struct trapline_hit *hit)
{
	struct rig *rig = hit->arg;
	uint64_t nth = __atomic_fetch_add(&rig->hits, 1, __ATOMIC_RELAXED);

	if (nth < SEEN_MAX)
		rig->seen[nth] = *hit;
	return TRAPLINE_GO_ON;
}

/* Fails the test with the library's own words. */
static inline void expect_ok(int err)
{
	char why[512];

	if (err >= 0)
		return;
	trapline_explain(err, why, sizeof(why));
	print_message("# %s: %s\n", strerror(-err), why);
	assert_int_equal(err, 0);
}

/* With so much room for records; 0: as much as a program has that does not ask. */
static inline void rig_open_with(struct rig *rig, enum mode mode, pid_t pid,
				 uint32_t records_bytes)
{
	TRAPLINE_OPTS(open, opts);

	require(mode);
	memset(rig, 0, sizeof(*rig));
	rig->mode = mode;
	opts.flags = mode == BY_RING || mode == BY_HANDLER ? TRAPLINE_NO_BPF : 0;
	opts.records_bytes = records_bytes;
	expect_ok(trapline_open(pid, &opts, &rig->target));
	keep_target(rig->target);
}

static inline void rig_open_pid(struct rig *rig, enum mode mode, pid_t pid)
{
	rig_open_with(rig, mode, pid, 0);
}

static inline void rig_open(struct rig *rig, enum mode mode)
{
	rig_open_pid(rig, mode, 0);
}

static inline void rig_prepare(struct rig *rig, struct trapline_event_opts *opts)
{
	if (calls_back(rig->mode) && !opts->callback)
		opts->callback = rig_note;
	if (!opts->arg)
		opts->arg = rig;
}

static inline void expect_mechanism(const struct rig *rig)
{
	static const enum trapline_mechanism wanted[] = {
		[BY_CALLBACK] = TRAPLINE_BY_SIGNAL,
		[BY_BPF] = TRAPLINE_BY_BPF,
		[BY_RING] = TRAPLINE_BY_RING,
		[BY_HANDLER] = TRAPLINE_BY_SIGNAL,
	};

	assert_int_equal(trapline_event_mechanism(rig->event), wanted[rig->mode]);
}

static inline void rig_watch_range(struct rig *rig, const volatile void *addr, size_t len,
				   enum trapline_access access,
				   struct trapline_event_opts *opts)
{
	TRAPLINE_OPTS(event, plain);

	if (!opts)
		opts = &plain;
	rig_prepare(rig, opts);
	expect_ok(trapline_watch(rig->target, ADDR(addr), len, access, opts, &rig->event));
	expect_mechanism(rig);
}

static inline void rig_watch(struct rig *rig, const volatile uint64_t *word,
			     struct trapline_event_opts *opts)
{
	rig_watch_range(rig, word, sizeof(*word), TRAPLINE_WRITE, opts);
}

/* Reads every record there is; nothing to do in callback mode. Returns all hits so far. */
static inline uint64_t rig_hits(struct rig *rig)
{
	if (!calls_back(rig->mode))
		while (trapline_poll(rig->target, 0, rig_note) > 0)
			;
	return __atomic_load_n(&rig->hits, __ATOMIC_RELAXED);
}

static inline struct trapline_stats stats_of(struct trapline_event *event)
{
	struct trapline_stats stats = {.size = sizeof(stats)};

	assert_int_equal(trapline_event_stats(event, &stats), 0);
	return stats;
}

static inline uint64_t stats_lost(const struct trapline_stats *s)
{
	return s->lost_nested + s->lost_late + s->lost_merged + s->lost_ring_full +
	       s->lost_kernel;
}

/* taken = delivered + rejected + lost: promise 1, checked after each test. */
static inline struct trapline_stats expect_identity(struct trapline_event *event)
{
	struct trapline_stats s = stats_of(event);
	uint64_t rejected = s.rejected_limit + s.rejected_duplicate + s.rejected_condition +
			    s.rejected_partial;
	uint64_t sum = s.delivered + rejected + stats_lost(&s) + s.unread;

	if (s.taken != sum)
		print_message("# taken %lu delivered %lu rejected limit %lu duplicate %lu "
			      "condition %lu lost nested %lu late %lu merged %lu ring %lu "
			      "kernel %lu unread %lu\n",
			      s.taken, s.delivered, s.rejected_limit, s.rejected_duplicate,
			      s.rejected_condition, s.lost_nested, s.lost_late, s.lost_merged,
			      s.lost_ring_full, s.lost_kernel, s.unread);
	assert_int_equal(s.taken, sum);
	return s;
}

/* One reading, for while others write: they may be faster than we read, for ever. */
static inline uint64_t rig_glance(struct rig *rig)
{
	if (rig->mode != BY_CALLBACK)
		trapline_poll(rig->target, 0, rig_note);
	return __atomic_load_n(&rig->hits, __ATOMIC_RELAXED);
}

/* The statistics, after checking that they add up and that delivered is what we saw. */
static inline struct trapline_stats rig_stats(struct rig *rig)
{
	uint64_t hits = rig_hits(rig);
	struct trapline_stats s = expect_identity(rig->event);

	assert_int_equal(s.delivered, hits);
	assert_int_equal(s.unread, 0);
	return s;
}

/* Exactly so many hits, and not one of them lost. */
static inline void expect_hits(struct rig *rig, uint64_t hits)
{
	assert_int_equal(rig_hits(rig), hits);

	struct trapline_stats s = rig_stats(rig);

	assert_int_equal(stats_lost(&s), 0);
}

static inline void rig_close(struct rig *rig)
{
	rig_stats(rig);
	trapline_event_close(rig->event);
	close_target(rig->target);
}

/* Runs act in a forked child under its own alarm; returns its wait status. */
static inline int status_of_child(int (*act)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		/* The test library's handlers would end the child by exit(-1), in silence. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		signal(SIGILL, SIG_DFL);
		signal(SIGFPE, SIG_DFL);
		signal(SIGSYS, SIG_DFL);
		alarm(200);
		_exit(act(arg));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void expect_exit(int status, int code)
{
	if (!WIFEXITED(status))
		print_message("# child was killed by signal %d\n", WTERMSIG(status));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

#endif
