/* SPDX-License-Identifier: MIT */
/* test_traps.c - int3 that stay: each kind of instruction under one, and what is refused. */
#include "kinds.h"
#include "sites.h"

#include <sys/syscall.h>
#include <ucontext.h>

static volatile uint64_t callbacks;

static void count(const struct trapline_trap_hit *hit)
{
	__atomic_fetch_add(&callbacks, 1, __ATOMIC_RELAXED);
}

static uint64_t hits_of(const struct trapline_traps *traps, size_t index)
{
	uint64_t hits = UINT64_MAX;

	assert_int_equal(trapline_traps_hits(traps, index, NULL, &hits), 0);
	return hits;
}

static int set_up(void **state)
{
	callbacks = 0;
	return 0;
}

static void every_kind_of_instruction_is_passed(void **state)
{
	size_t n = (size_t)(__stop_all_sites - __start_all_sites);
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps;
	size_t failed = 0;

	opts.callback = count;
	opts.failed = &failed;
	for (uint64_t i = 1; i < 20; i++) {
		struct outcome plain = run_kinds(i);
		int err = trapline_traps_set(__start_all_sites, n, &opts, &traps);

		if (err) {
			fail_with(err, "traps");
			print_error("site %zu of %zu\n", failed, n);
		}
		assert_int_equal(err, 0);
		uint64_t before = callbacks;
		struct outcome trapped = run_kinds(i);
		assert_memory_equal(&plain, &trapped, sizeof(plain));
		uint64_t sum = 0;
		for (size_t s = 0; s < n; s++)
			sum += hits_of(traps, s);
		assert_int_equal(callbacks - before, sum);
		assert_int_equal(hits_of(traps, 0), 1);
		assert_int_equal(hits_of(traps, 6), i); /* the head of the loop */
		assert_int_equal(hits_of(traps, 19), 0); /* behind jrcxz */
		assert_int_equal(trapline_traps_remove(traps), 0);
		struct outcome after = run_kinds(i);
		assert_memory_equal(&plain, &after, sizeof(plain));
		assert_int_equal(callbacks - before, sum);
	}
}

/* A function of 5-byte nop and a known result. */
static struct site make_one(uint8_t **code)
{
	uint8_t image[BLOCK_BYTES];
	struct site site;

	*code = code_or_skip(4096);
	memset(image, 0xcc, sizeof(image));
	far_a = far_b = far_c = *code;
	make_site(&site, *code, image, 2);
	assert_int_equal(trapline_code_write(*code, image, sizeof(image)), 0);
	return site;
}

static const struct trapline_trap_hit *expected_hit;
static bool hit_was_right;

static void compare(const struct trapline_trap_hit *hit)
{
	const ucontext_t *context = hit->context;

	hit_was_right = hit->size == sizeof(*hit) && hit->arg == expected_hit->arg &&
			hit->index == expected_hit->index &&
			hit->address == expected_hit->address &&
			(uint64_t)context->uc_mcontext.gregs[REG_RIP] == hit->address &&
			context->uc_mcontext.gregs[REG_RAX] == 7;
}

static void callback_is_told_where_and_for_whom(void **state)
{
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t addresses[2] = {ADDR(code) + 5, ADDR(code)};
	struct trapline_trap_hit expected = {.arg = &site, .index = 1, .address = ADDR(code)};
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps;

	expected_hit = &expected;
	opts.callback = compare;
	opts.arg = &site;
	assert_int_equal(trapline_traps_set(&addresses[1], 1, &opts, &traps), 0);
	expected.index = 0;
	assert_int_equal(run_site(code), 1);
	assert_true(hit_was_right);
	assert_int_equal(trapline_traps_remove(traps), 0);
	hit_was_right = false;
	assert_int_equal(run_site(code), 1);
	assert_false(hit_was_right);
	assert_int_equal(trapline_code_free(code), 0);
}

static void skip_the_function(const struct trapline_trap_hit *hit)
{
	greg_t *gregs = ((ucontext_t *)hit->context)->uc_mcontext.gregs;

	gregs[REG_RAX] = 99;
	gregs[REG_RIP] = *(greg_t *)gregs[REG_RSP];
	gregs[REG_RSP] += 8;
}

static void callback_may_send_the_thread_elsewhere(void **state)
{
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t address = ADDR(site.code);
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps;

	opts.callback = skip_the_function;
	assert_int_equal(trapline_traps_set(&address, 1, &opts, &traps), 0);
	assert_int_equal(run_site(code), 99);
	assert_int_equal(trapline_traps_remove(traps), 0);
	assert_int_equal(run_site(code), 1);
	trapline_code_free(code);
}

static uint8_t *nested_code;
static struct trapline_traps *own_traps;
static int errors_in_callback[3];

static void misbehave(const struct trapline_trap_hit *hit)
{
	struct trapline_poke_site change = {hit->address, "\xcc", "\x90", 1};

	callbacks++;
	run_site(nested_code);
	errors_in_callback[0] = trapline_traps_remove(own_traps);
	errors_in_callback[1] = trapline_poke(&change, 1, NULL);
	errors_in_callback[2] = trapline_log_code(NULL, NULL);
}

static void nested_passes_run_no_callback_and_changes_are_refused(void **state)
{
	struct site site = make_one(&nested_code);
	uint64_t address = ADDR(site.code);
	uint64_t nested = 0;
	uint64_t hits = 0;
	TRAPLINE_OPTS(traps, opts);

	opts.callback = misbehave;
	assert_int_equal(trapline_traps_set(&address, 1, &opts, &own_traps), 0);
	assert_int_equal(run_site(nested_code), 1);
	assert_int_equal(trapline_traps_hits(own_traps, 0, &nested, &hits), 0);
	assert_int_equal(hits, 2);
	assert_int_equal(nested, 1);
	assert_int_equal(callbacks, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(errors_in_callback[i], -EDEADLK);
	assert_int_equal(trapline_traps_hits(own_traps, 1, NULL, &hits), -EINVAL);
	assert_int_equal(trapline_traps_remove(own_traps), 0);
	trapline_code_free(nested_code);
}

static void expect_refused(uint64_t address, int expected)
{
	struct trapline_traps *traps = NULL;
	char why[300] = "";
	int err = trapline_traps_set(&address, 1, NULL, &traps);

	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, expected);
	assert_null(traps);
	assert_true(strlen(why) > 10);
}

extern char __start_trap_path[];

static void what_cannot_be_trapped_is_refused_with_a_reason(void **state)
{
	uint64_t action[4] = {0};
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t address = ADDR(site.code);
	struct trapline_traps *traps;

	assert_int_equal(trapline_traps_set(&address, 1, NULL, &traps), 0);
	expect_refused(address, -EBUSY);
	expect_refused(ADDR(code) + 2048, -EBUSY); /* a foreign int3 */
	assert_int_equal(trapline_traps_remove(traps), 0);
	expect_refused(16, -EFAULT);
	expect_refused(ADDR(__start_trap_path), -EINVAL);
	syscall(SYS_rt_sigaction, SIGTRAP, NULL, action, 8);
	expect_refused(action[2], -EINVAL);
	assert_int_equal(trapline_code_write(code, "\x06\x06\x06", 3), 0);
	expect_refused(ADDR(code), -EINVAL); /* no instruction in 64-bit mode */
	assert_int_equal(trapline_code_write(code, "\x0f\x0b\x90", 3), 0);
	expect_refused(ADDR(code), -EOPNOTSUPP); /* ud2 */
	trapline_code_free(code);
}

/* sequence_run(offset of struct rseq from fs, word): adds one to it in a restartable sequence. */
void sequence_run(ptrdiff_t area, uint64_t *word);
extern const uint8_t sequence_start[];
extern const uint8_t sequence_last[];
extern const uint8_t sequence_end[];
extern const uint8_t sequence_signature[];
__asm__(".section trap_test_cs, \"aw\"\n"
	".balign 32\n"
	"11: .long 0, 0\n"
	".quad sequence_start, sequence_end - sequence_start, 12f\n"
	".text\n"
	".globl sequence_run, sequence_start, sequence_last, sequence_end, sequence_signature\n"
	"sequence_run:\n"
	"	lea 11b(%rip), %rax\n"
	"	mov %rax, %fs:8(%rdi)\n"
	"sequence_start:\n"
	"	mov (%rsi), %rax\n"
	"	inc %rax\n"
	"sequence_last:\n"
	"	mov %rax, (%rsi)\n"
	"sequence_end:\n"
	"	lea 1(%rax), %rax\n"
	"	ret\n"
	"	.byte 0x0f, 0xb9, 0x3d\n"
	"sequence_signature:\n"
	"	.long 0x53053053\n"
	"12:	jmp sequence_run\n");
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/*
 * A trap there would abort it for ever; and the handler would not know the trap. With another signature
 * the kernel ends the process at the next abort.
 */
static void restartable_sequences_are_refused(void **state)
{
	const uint8_t nops[] = {0x90, 0x90, 0x90};
	struct trapline_poke_site poke = {
		.address = ADDR(sequence_last),
		.expect = sequence_last,
		.bytes = nops,
		.len = 3,
	};
	uint64_t after = ADDR(sequence_end);
	struct trapline_traps *traps;
	uint64_t word = 0;

	if (!&__rseq_size || !__rseq_size) {
		print_message("# SKIP rseq registered by the C library (glibc 2.35)\n");
		skip();
	}
	expect_refused(ADDR(sequence_start), -EOPNOTSUPP);
	expect_refused(ADDR(sequence_last), -EOPNOTSUPP);
	for (unsigned int i = 0; i < 2; i++) /* push %rbx; xor %al, ... */
		expect_refused(ADDR(sequence_signature) + i, -EOPNOTSUPP);
	assert_int_equal(trapline_poke(&poke, 1, NULL), -EOPNOTSUPP);
	assert_int_equal(trapline_traps_set(&after, 1, NULL, &traps), 0);
	sequence_run(__rseq_offset, &word);
	assert_int_equal(word, 1);
	assert_int_equal(hits_of(traps, 0), 1);
	assert_int_equal(trapline_traps_remove(traps), 0);
}

static void one_bad_address_places_no_trap(void **state)
{
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t addresses[3] = {ADDR(site.code), ADDR(site.code) + 5, 16};
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps = NULL;
	size_t failed = 99;

	opts.failed = &failed;
	assert_int_equal(trapline_traps_set(addresses, 3, &opts, &traps), -EFAULT);
	assert_int_equal(failed, 2);
	assert_memory_equal(code, site.variants[0], 5);
	addresses[2] = addresses[0];
	assert_int_equal(trapline_traps_set(addresses, 3, &opts, &traps), -EBUSY);
	assert_memory_equal(code, site.variants[0], 5);
	trapline_code_free(code);
}

static void threads_with_sigtrap_blocked_are_noticed(void **state)
{
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t address = ADDR(site.code);
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps = NULL;
	sigset_t mask;
	sigset_t before;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	int refused = trapline_traps_set(&address, 1, NULL, &traps);
	opts.flags = TRAPLINE_TRAPS_ANY_MASK;
	int allowed = trapline_traps_set(&address, 1, &opts, &traps);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(refused, -EBUSY);
	assert_int_equal(allowed, 0);
	assert_int_equal(run_site(code), 1);
	assert_int_equal(hits_of(traps, 0), 1);
	assert_int_equal(trapline_traps_remove(traps), 0);
	trapline_code_free(code);
}

static int is_blocked;
static int is_to_unblock;

/* As a thread does that begins: it has all signals blocked until it has run for a moment. */
static void *unblock_when_told(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	__atomic_store_n(&is_blocked, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&is_to_unblock, __ATOMIC_SEQ_CST))
		;
	pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	return NULL;
}

static void bind_to(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(sched_setaffinity(tid, sizeof(set), &set), 0);
}

#define NO_REAL_TIME 77

/* A process that takes all of a CPU at real-time priority for a third of a second. */
static pid_t occupy(int cpu)
{
	const struct sched_param fifo = { .sched_priority = 1 };
	pid_t child = fork();

	if (child)
		return child;
	bind_to(0, cpu);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo))
		_exit(NO_REAL_TIME);
	struct timespec start;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 330);
	_exit(0);
}

static void a_thread_that_waits_for_a_cpu_is_waited_for(void **state)
{
	uint8_t *code;
	struct site site = make_one(&code);
	uint64_t address = ADDR(site.code);
	struct trapline_traps *traps = NULL;
	cpu_set_t before;
	pthread_t thread;
	int status = 0;

	if (geteuid() != 0 || sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		print_message("# SKIP a real-time process on a CPU of its own (root, 2 CPUs)\n");
		skip();
	}
	is_blocked = 0;
	is_to_unblock = 0;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	bind_to(0, 1);
	assert_int_equal(pthread_create(&thread, NULL, unblock_when_told, NULL), 0);
	while (!__atomic_load_n(&is_blocked, __ATOMIC_SEQ_CST))
		sched_yield();
	bind_to(0, 0);
	pid_t child = occupy(1);
	usleep(20000);
	__atomic_store_n(&is_to_unblock, 1, __ATOMIC_SEQ_CST);
	int err = trapline_traps_set(&address, 1, NULL, &traps);
	pthread_join(thread, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	sched_setaffinity(0, sizeof(before), &before);
	assert_int_equal(err, 0);
	assert_int_equal(trapline_traps_remove(traps), 0);
	trapline_code_free(code);
	/* A control group may have no share of the real-time scheduler. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_REAL_TIME) {
		print_message("# SKIP the right to run in real time\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void text_that_went_away_is_left_alone(void **state)
{
	struct trapline_code_stats before = read_stats();
	static const uint8_t text[] = {0x0f, 0x1f, 0x44, 0, 0, 0xc3};
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t address = ADDR(page);
	struct trapline_traps *traps;
	struct trapline_traps *again;

	memcpy(page, text, sizeof(text));
	assert_int_equal(trapline_traps_set(&address, 1, NULL, &traps), 0);
	/* Another library comes to stand at the same place. */
	mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(page, text, sizeof(text));
	assert_int_equal(trapline_traps_set(&address, 1, NULL, &again), 0);
	assert_int_equal(trapline_traps_remove(traps), 0);
	assert_int_equal(page[0], 0xcc);
	((void (*)(void))page)();
	assert_int_equal(hits_of(again, 0), 1);
	munmap(page, 4096);
	assert_int_equal(trapline_traps_remove(again), 0);
	assert_int_equal(read_stats().gone - before.gone, 2);
}

static void a_foreign_int3_goes_to_the_action_before(void **state)
{
	fflush(NULL);
	pid_t child = fork();
	int status;

	if (!child) {
		uint8_t *code;
		struct site site = make_one(&code);
		uint64_t address = ADDR(site.code);
		struct trapline_traps *traps;

		trapline_traps_set(&address, 1, NULL, &traps);
		run_site(code);
		__asm__ volatile("int3");
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTRAP);
}

/* int $3 in two bytes: what stands before its pc is no int3, and never was. */
static void the_long_form_of_int3_is_foreign_too(void **state)
{
	fflush(NULL);
	pid_t child = fork();
	int status;

	if (!child) {
		uint8_t *code;
		struct site site = make_one(&code);
		uint64_t address = ADDR(site.code);
		struct trapline_traps *traps;

		trapline_traps_set(&address, 1, NULL, &traps);
		run_site(code);
		__asm__ volatile(".byte 0xcd, 0x03");
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTRAP);
}

static volatile uint64_t event_hits;
static volatile uint64_t foreign_signals;
static volatile uint64_t watched;

static enum trapline_action count_event(const struct trapline_hit *hit)
{
	event_hits++;
	/* An event's callback comes by a trap: its callback runs too. */
	run_site((const uint8_t *)hit->arg);
	return TRAPLINE_GO_ON;
}

static void write_watched(const struct trapline_trap_hit *hit)
{
	callbacks++;
	watched++;
}

static void on_foreign(int sig, siginfo_t *info, void *context)
{
	foreign_signals += info->si_code == SI_TKILL || info->si_code == TRAP_TRACE;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

/* One handler: an int3 of ours, an event of ours, a step and a raised signal of others. */
static void traps_share_the_signal_with_events_and_others(void **state)
{
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO};
	TRAPLINE_OPTS(event, event_opts);
	TRAPLINE_OPTS(traps, opts);
	struct trapline_event *event;
	struct trapline_traps *traps;
	struct trapline *target;
	uint8_t *code;
	struct site site;

	/* The library puts its own over it, and gives it what is not ours. */
	sigaction(SIGTRAP, &action, NULL);
	site = make_one(&code);
	uint64_t address = ADDR(site.code);
	opts.callback = write_watched;
	assert_int_equal(trapline_traps_set(&address, 1, &opts, &traps), 0);
	assert_int_equal(trapline_open(0, NULL, &target), 0);
	event_opts.callback = count_event;
	event_opts.arg = code;
	int err = trapline_watch(target, ADDR(&watched), 8, TRAPLINE_WRITE, &event_opts, &event);
	if (err) {
		fail_with(err, "# SKIP watch");
		trapline_traps_remove(traps);
		skip();
	}
	/* The trap's callback writes, the event's callback passes the trap again, nested. */
	for (int i = 0; i < 50; i++)
		assert_int_equal(run_site(code), 1);
	assert_int_equal(callbacks, 50);
	assert_int_equal(event_hits, 50);
	assert_int_equal(hits_of(traps, 0), 100);
	/* The event comes first: its callback passes the trap, whose callback writes: nested. */
	watched = 0;
	assert_int_equal(event_hits, 51);
	assert_int_equal(callbacks, 51);
	raise(SIGTRAP);
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\t"
			 "lea 128(%%rsp), %%rsp" : : : "memory", "cc");
	assert_int_equal(foreign_signals, 2);
	assert_int_equal(trapline_traps_remove(traps), 0);
	trapline_close(target);
	trapline_code_free(code);
}

static void sets_that_come_and_go_cost_no_memory(void **state)
{
	uint64_t *addresses = (uint64_t *)__start_all_sites;
	size_t n = (size_t)(__stop_all_sites - __start_all_sites);
	struct trapline_traps *traps;
	char path[64];
	size_t pages[2];

	snprintf(path, sizeof(path), "/proc/%d/statm", getpid());
	for (int i = 0; i < 400; i++) {
		assert_int_equal(trapline_traps_set(addresses, n, NULL, &traps), 0);
		run_kinds(3);
		assert_int_equal(trapline_traps_remove(traps), 0);
		if (i != 100 && i != 399)
			continue;
		FILE *statm = fopen(path, "r");
		assert_int_equal(fscanf(statm, "%zu", &pages[i == 399]), 1);
		fclose(statm);
	}
	assert_in_range(pages[1], 1, pages[0] + 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_kind_of_instruction_is_passed, set_up),
		cmocka_unit_test_setup(callback_is_told_where_and_for_whom, set_up),
		cmocka_unit_test_setup(callback_may_send_the_thread_elsewhere, set_up),
		cmocka_unit_test_setup(nested_passes_run_no_callback_and_changes_are_refused, set_up),
		cmocka_unit_test_setup(what_cannot_be_trapped_is_refused_with_a_reason, set_up),
		cmocka_unit_test_setup(restartable_sequences_are_refused, set_up),
		cmocka_unit_test_setup(one_bad_address_places_no_trap, set_up),
		cmocka_unit_test_setup(threads_with_sigtrap_blocked_are_noticed, set_up),
		cmocka_unit_test_setup(a_thread_that_waits_for_a_cpu_is_waited_for, set_up),
		cmocka_unit_test_setup(text_that_went_away_is_left_alone, set_up),
		cmocka_unit_test_setup(a_foreign_int3_goes_to_the_action_before, set_up),
		cmocka_unit_test_setup(the_long_form_of_int3_is_foreign_too, set_up),
		cmocka_unit_test_setup(sets_that_come_and_go_cost_no_memory, set_up),
		cmocka_unit_test_setup(traps_share_the_signal_with_events_and_others, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
