/* SPDX-License-Identifier: MIT */
/* test_window.c - windows: where they end, what callbacks see, and that the program notices nothing. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include <trapline/window.h>

static struct trapline_window_stats stats;

static void read_stats(void)
{
	stats.size = sizeof(stats);
	assert_int_equal(trapline_window_stats(&stats), 0);
}

static struct trapline_window_opts plain(void)
{
	return (struct trapline_window_opts){ .size = sizeof(struct trapline_window_opts) };
}

/* Loops, calls, stores, divisions and a system call. */
static __attribute__((noinline)) uint64_t mix(uint64_t n)
{
	return n * 0x9e3779b97f4a7c15u ^ n >> 7;
}

static __attribute__((noinline)) uint64_t work(uint64_t n)
{
	uint64_t table[8] = { 0 };
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		table[i & 7] += mix(i);
		sum += table[i >> 1 & 7] / (i + 1);
		if (i == 5)
			sum += (uint64_t)(getppid() == 0);
	}
	return sum + table[3];
}

static void a_window_ends_after_each_instruction(void **state)
{
	const uint64_t expected = work(12);
	struct trapline_window_opts opts = plain();
	uint64_t last_pc = 0;
	unsigned int places = 0;

	for (opts.max_instructions = 1; opts.max_instructions < 5000; opts.max_instructions++) {
		assert_int_equal(trapline_window(&opts), 0);
		assert_int_equal(work(12), expected);
		const int ended = trapline_window_end();
		read_stats();
		if (!ended)
			break;
		assert_int_equal(stats.reason, TRAPLINE_WINDOW_BUDGET);
		assert_int_equal(stats.instructions, opts.max_instructions);
		places += stats.pc != last_pc;
		last_pc = stats.pc;
	}
	/* It went on to the end at last, by way of many places. */
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_ENDED);
	assert_true(places > 150);
}

static void options_are_checked(void **state)
{
	struct trapline_window_opts opts = plain();
	struct {
		struct trapline_window_opts opts;
		uint64_t newer;
	} newer = { plain(), 1 };

	opts.flags = 1u << 31;
	assert_int_equal(trapline_window(&opts), -EINVAL);
	newer.opts.size = sizeof(newer);
	assert_int_equal(trapline_window(&newer.opts), -E2BIG);
	stats.size = 1;
	assert_int_equal(trapline_window_stats(&stats), -EINVAL);
	assert_int_equal(trapline_window_stats(NULL), -EINVAL);
}

/* ---- callbacks ---- */

static uint64_t seen_insns, seen_blocks, seen_reads, seen_writes, wanted;
static int nested;

static int on_block(uint64_t pc, uint32_t insns, const uint64_t *regs, void *arg)
{
	seen_blocks++;
	seen_insns += insns;
	if (arg == &nested)
		nested = trapline_window(&(struct trapline_window_opts){
			.size = sizeof(struct trapline_window_opts) });
	return arg == &wanted && seen_insns >= wanted;
}

static void blocks_are_told(void **state)
{
	struct trapline_window_opts opts = plain();

	opts.on_block = on_block;
	seen_insns = seen_blocks = 0;
	assert_int_equal(trapline_window(&opts), 0);
	const uint64_t sum = work(100);
	trapline_window_end();
	read_stats();
	assert_int_equal(sum, work(100));
	assert_int_equal(seen_insns, stats.instructions);
	assert_true(seen_blocks > 100);
}

static void a_callback_ends_the_window(void **state)
{
	struct trapline_window_opts opts = plain();

	opts.on_block = on_block;
	opts.arg = &wanted;
	wanted = 200;
	seen_insns = 0;
	assert_int_equal(trapline_window(&opts), 0);
	const uint64_t sum = work(100);
	assert_int_equal(trapline_window_end(), -ESRCH);
	read_stats();
	assert_int_equal(sum, work(100));
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_CALLBACK);
	/* The block that it saw last did not run. */
	assert_true(stats.instructions < 200 && seen_insns >= 200);
}

static void a_window_in_a_window_is_refused(void **state)
{
	struct trapline_window_opts opts = plain();

	opts.on_block = on_block;
	opts.arg = &nested;
	nested = 0;
	assert_int_equal(trapline_window(&opts), 0);
	trapline_window_end();
	assert_int_equal(nested, -EBUSY);
}

static uint64_t watched[4];

static int on_access(uint64_t pc, uint64_t address, uint32_t bytes, uint32_t access,
		     const uint64_t *regs, void *arg)
{
	const uint64_t at = address - (uint64_t)(uintptr_t)watched;

	if (at < sizeof(watched)) {
		seen_reads += (access & 1) * bytes;
		seen_writes += (access >> 1) * bytes;
	}
	return arg && at == 8 && access & 2;
}

/* In machine code, so that the accesses are these. */
static __attribute__((noinline)) void touch(uint64_t *p)
{
	__asm__ volatile("movq (%0), %%rax\n\t"
			 "movl %%eax, 8(%0)\n\t"
			 "addw $1, 16(%0)\n\t"
			 "leaq 24(%0), %%rax\n\t"
			 "prefetcht0 24(%0)\n\t"
			 "movq $3, %%rcx\n\t"
			 "movb $9, (%0, %%rcx, 8)"
			 :
			 : "r"(p)
			 : "rax", "rcx", "memory");
}

static void accesses_are_told(void **state)
{
	struct trapline_window_opts opts = plain();

	opts.on_access = on_access;
	seen_reads = seen_writes = 0;
	assert_int_equal(trapline_window(&opts), 0);
	touch(watched);
	trapline_window_end();
	assert_int_equal(seen_reads, 8 + 2);
	assert_int_equal(seen_writes, 4 + 2 + 1);
}

static void an_access_ends_the_window_before_it(void **state)
{
	struct trapline_window_opts opts = plain();

	opts.on_access = on_access;
	opts.arg = &wanted;
	watched[0] = 0x55;
	watched[1] = 0;
	assert_int_equal(trapline_window(&opts), 0);
	touch(watched);
	trapline_window_end();
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_CALLBACK);
	assert_true(stats.pc - (uint64_t)(uintptr_t)touch < 16);
	assert_int_equal(watched[1], 0x55); /* natively */
}

/* All vector registers that a callback may use are the program's again. */
static int on_block_with_vectors(uint64_t pc, uint32_t insns, const uint64_t *regs, void *arg)
{
	__asm__ volatile("vpcmpeqd %%ymm7, %%ymm7, %%ymm7\n\tvpxor %%ymm1, %%ymm1, %%ymm1\n\tfninit"
			 :
			 :
			 : "xmm7", "xmm1");
	return 0;
}

static void vector_registers_are_kept(void **state)
{
	static const double in[8] = { 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5 };
	struct trapline_window_opts opts = plain();
	double out[8] = { 0 };
	long double pi;

	if (!__builtin_cpu_supports("avx2"))
		skip();
	for (int i = 0; i < 2; i++) {
		opts.on_block = i ? on_block_with_vectors : NULL;
		assert_int_equal(trapline_window(&opts), 0);
		__asm__ volatile("fldpi\n\tvmovupd (%2), %%ymm1\n\tvmovupd 32(%2), %%ymm7\n\t"
				 "jmp 1f\n\t.skip 3, 0x90\n1:\tcall 2f\n\tjmp 3f\n2:\tret\n3:\n\t"
				 "vmovupd %%ymm1, (%1)\n\tvmovupd %%ymm7, 32(%1)\n\tfstpt %0"
				 : "=m"(pi)
				 : "r"(out), "r"(in)
				 : "xmm1", "xmm7", "memory");
		trapline_window_end();
		assert_memory_equal(in, out, sizeof(in));
		assert_true(pi > 3.14159265358979L && pi < 3.1415926535898L);
	}
}

/* With the flag that makes accesses fault that are not aligned, our own would fault. */
static void the_alignment_flag_ends_a_window(void **state)
{
	struct trapline_window_opts opts = plain();
	uint64_t flags;

	assert_int_equal(trapline_window(&opts), 0);
	__asm__ volatile("pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\tpushfq\n\tpopq %0\n\t"
			 "pushq %0\n\tandl $~0x40000, (%%rsp)\n\tpopfq"
			 : "=r"(flags)
			 :
			 : "cc", "memory");
	assert_int_equal(trapline_window_end(), -ESRCH);
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_INSTRUCTION);
	assert_true(flags & 0x40000);
}

/* ---- another thread writes the code ---- */

static uint8_t *shared_code;
static volatile int writer_ends;

static void *write_code(void *arg)
{
	for (uint32_t i = 0; !writer_ends; i++)
		__atomic_store_n((uint32_t *)(void *)(shared_code + 4), i, __ATOMIC_SEQ_CST);
	return NULL;
}

/* The number in it grows, and no older one comes again. */
static void code_written_by_another_thread_runs_as_it_is(void **state)
{
	struct trapline_window_opts opts = plain();
	uint32_t last = 0;
	int wrong = 0;
	pthread_t thread;

	shared_code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t (*volatile function)(void) = (uint32_t(*)(void))(uintptr_t)shared_code;
	/* nop of 3 bytes; mov $0, %eax, its number aligned; ret */
	memcpy(shared_code, "\x0f\x1f\x00\xb8\0\0\0\0\xc3", 9);
	writer_ends = 0;
	pthread_create(&thread, NULL, write_code, NULL);
	assert_int_equal(trapline_window(&opts), 0);
	for (int i = 0; i < 3000; i++) {
		const uint32_t now = function();

		wrong += now - last > INT32_MAX;
		last = now;
	}
	trapline_window_end();
	writer_ends = 1;
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
	munmap(shared_code, 4096);
}

/* ---- signals, time, threads, processes ---- */

static volatile sig_atomic_t handled;
static uint64_t handler_pc;
static uint64_t blocked_in_handler;

static void on_alarm(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;

	handler_pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	memcpy(&blocked_in_handler, &uc->uc_sigmask, sizeof(blocked_in_handler));
	handled = 1;
}

static __attribute__((noinline)) void wait_for_signal(void)
{
	while (!handled)
		;
}

static void a_signal_meets_the_program_itself(void **state)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO };
	const struct itimerval soon = { .it_value = { 0, 20000 } };
	struct trapline_window_opts opts = plain();

	sigaction(SIGALRM, &action, NULL);
	handled = 0;
	setitimer(ITIMER_REAL, &soon, NULL);
	assert_int_equal(trapline_window(&opts), 0);
	wait_for_signal();
	trapline_window_end();
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_SIGNAL);
	assert_true(handler_pc - (uint64_t)(uintptr_t)wait_for_signal < 64);
	assert_int_equal(blocked_in_handler, 0);
}

static void the_signal_mask_is_the_programs(void **state)
{
	struct trapline_window_opts opts = plain();
	sigset_t set, old, now;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(trapline_window(&opts), 0);
	sigprocmask(SIG_BLOCK, &set, &old);
	sigprocmask(SIG_SETMASK, NULL, &now);
	trapline_window_end();
	const int inside = sigismember(&now, SIGUSR1) + 2 * sigismember(&now, SIGUSR2);
	sigprocmask(SIG_SETMASK, NULL, &now);
	assert_int_equal(inside, 1);
	assert_int_equal(sigismember(&old, SIGUSR1), 0);
	assert_int_equal(sigismember(&now, SIGUSR1), 1);
	assert_int_equal(sigismember(&now, SIGUSR2), 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void a_handler_set_in_a_window_stays(void **state)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO };
	struct trapline_window_opts opts = plain();
	struct sigaction before, old, now;

	sigaction(SIGFPE, NULL, &before);
	assert_int_equal(trapline_window(&opts), 0);
	sigaction(SIGFPE, &action, &old);
	trapline_window_end();
	sigaction(SIGFPE, &before, &now);
	assert_ptr_equal(old.sa_sigaction, before.sa_sigaction);
	assert_ptr_equal(now.sa_sigaction, on_alarm);
}

static void time_ends_a_window(void **state)
{
	struct trapline_window_opts opts = plain();
	uint64_t n = 0;

	opts.max_ns = 1000000;
	assert_int_equal(trapline_window(&opts), 0);
	do
		read_stats();
	while (!stats.reason && ++n);
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_TIME);
}

static void a_blocking_call_ends_the_window(void **state)
{
	struct trapline_window_opts opts = plain();
	const struct timespec nap = { 0, 1000 };

	assert_int_equal(trapline_window(&opts), 0);
	nanosleep(&nap, NULL);
	trapline_window_end();
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_BLOCKING);
	opts.flags = TRAPLINE_WINDOW_BLOCKS;
	assert_int_equal(trapline_window(&opts), 0);
	nanosleep(&nap, NULL);
	trapline_window_end();
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_ENDED);
	assert_true(stats.system_calls >= 1);
}

static void a_fork_ends_the_window(void **state)
{
	struct trapline_window_opts opts = plain();
	const uint64_t expected = work(50);
	int status = 0;

	assert_int_equal(trapline_window(&opts), 0);
	const pid_t pid = fork();
	if (!pid) {
		/* The child's windows leave the parent's translations alone. */
		int failed = trapline_window(&opts) != 0;

		failed |= work(50) != expected;
		_exit(failed || trapline_window_end());
	}
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_SYSTEM_CALL);
	assert_int_equal(trapline_window(&opts), 0);
	const uint64_t sum = work(50);
	trapline_window_end();
	assert_int_equal(sum, expected);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void *run_windows(void *arg)
{
	struct trapline_window_opts opts = plain();
	const uint64_t expected = work(1000);
	intptr_t failed = 0;

	for (int i = 0; i < 200; i++) {
		failed |= trapline_window(&opts) != 0;
		failed |= work(1000) != expected;
		failed |= trapline_window_end() != 0;
	}
	return (void *)failed;
}

static void threads_have_windows_of_their_own(void **state)
{
	pthread_t threads[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, run_windows, NULL), 0);
		for (int i = 0; i < 4; i++) {
			void *failed = NULL;

			pthread_join(threads[i], &failed);
			assert_null(failed);
		}
	}
}

/* ---- from a handler ---- */

static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct trapline_window_opts opts = plain();

	opts.context = context;
	opts.max_instructions = 300;
	handled = trapline_window(&opts) == 0;
}

static void a_window_begins_after_a_handler(void **state)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct sigaction before;
	const uint64_t expected = work(200);
	sigset_t now;

	sigaction(SIGTRAP, &action, &before);
	handled = 0;
	__asm__ volatile("int3");
	assert_int_equal(work(200), expected);
	read_stats();
	sigprocmask(SIG_SETMASK, NULL, &now);
	sigaction(SIGTRAP, &before, NULL);
	assert_int_equal(handled, 1);
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_BUDGET);
	assert_int_equal(stats.instructions, 300);
	assert_int_equal(sigismember(&now, SIGUSR1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(a_window_ends_after_each_instruction),
		cmocka_unit_test(blocks_are_told),
		cmocka_unit_test(a_callback_ends_the_window),
		cmocka_unit_test(a_window_in_a_window_is_refused),
		cmocka_unit_test(accesses_are_told),
		cmocka_unit_test(an_access_ends_the_window_before_it),
		cmocka_unit_test(vector_registers_are_kept),
		cmocka_unit_test(the_alignment_flag_ends_a_window),
		cmocka_unit_test(code_written_by_another_thread_runs_as_it_is),
		cmocka_unit_test(a_signal_meets_the_program_itself),
		cmocka_unit_test(the_signal_mask_is_the_programs),
		cmocka_unit_test(a_handler_set_in_a_window_stays),
		cmocka_unit_test(time_ends_a_window),
		cmocka_unit_test(a_blocking_call_ends_the_window),
		cmocka_unit_test(a_fork_ends_the_window),
		cmocka_unit_test(threads_have_windows_of_their_own),
		cmocka_unit_test(a_window_begins_after_a_handler),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
