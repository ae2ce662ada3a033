/* SPDX-License-Identifier: MIT */
/*
 * test_window_signals.c - what comes from outside into a window, and what leaves it by the stack: handlers
 * see the program itself, and unwinders find its own return addresses.
 */
#include <errno.h>
#include <execinfo.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include <trapline/window.h>

int window_throws(int n);

static struct trapline_window_stats stats;

static void read_stats(void)
{
	stats.size = sizeof(stats);
	assert_int_equal(trapline_window_stats(&stats), 0);
}

static int begin(uint32_t flags)
{
	const struct trapline_window_opts opts = { .size = sizeof(opts), .flags = flags };

	return trapline_window(&opts);
}

static void take(int sig, void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(sig, &action, before);
}

static uint64_t pc_of(const void *context)
{
	return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

static volatile uint64_t handled, seen_pc, seen_registers[3], seen_code;

/* ---- a watch ---- */

static uint64_t watched[2];

static void on_watch(int sig, siginfo_t *info, void *context)
{
	const greg_t *gregs = ((const ucontext_t *)context)->uc_mcontext.gregs;

	handled++;
	seen_pc = pc_of(context);
	seen_registers[0] = (uint64_t)gregs[REG_RAX];
	seen_registers[1] = (uint64_t)gregs[REG_RCX];
	seen_registers[2] = (uint64_t)gregs[REG_RSP];
	seen_code = (uint64_t)info->si_code;
}

static int open_watch(const void *at)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.bp_type = 3, /* read or write */
		.bp_addr = (uintptr_t)at,
		.bp_len = 8,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Each touches rdi once; its end is where the processor stands then. rax and rcx are known there. */
extern const char touch_plain[], touch_plain_end[], touch_call[], touch_call_end[], touch_return[],
	touch_return_end[], touch_jump[], touch_jump_end[], touch_call_memory[],
	touch_call_memory_end[];
__asm__(".text\n"
	"touch_plain: movl $7, %eax\n\tmovl $9, %ecx\n\tmovq %rax, (%rdi)\n"
	"touch_plain_end: ret\n"
	/* The return address is the access: rsp is moved behind it. */
	"touch_call: movq %rsp, %rdx\n\tleaq 8(%rdi), %rsp\n\tmovl $7, %eax\n\tmovl $9, %ecx\n\t"
	"call 1f\n\t"
	"nop\n"
	"1:\n"
	"touch_call_end: movq %rdx, %rsp\n\tret\n"
	"touch_return: movq %rsp, %rdx\n\tmovq %rdi, %rsp\n\tmovl $7, %eax\n\tmovl $9, %ecx\n\tret\n\t"
	"nop\n"
	"touch_return_end: movq %rdx, %rsp\n\tret\n"
	"touch_jump: movl $7, %eax\n\tmovl $9, %ecx\n\tjmp *(%rdi)\n\t"
	"nop\n"
	"touch_jump_end: ret\n"
	"touch_call_memory: movl $7, %eax\n\tmovl $9, %ecx\n\tcall *(%rdi)\n\t"
	"ret\n"
	"touch_call_memory_end: ret\n");

static void watch_in_window(const char *touch, const char *end, int in_window)
{
	void (*function)(void *) = (void (*)(void *))(uintptr_t)touch;
	struct sigaction before;
	const int fd = open_watch(watched);

	if (fd < 0)
		skip();
	take(SIGTRAP, on_watch, &before);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	watched[0] = (uint64_t)(uintptr_t)end;
	handled = 0;
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	if (in_window)
		assert_int_equal(begin(TRAPLINE_WINDOW_BLOCKS), 0);
	function(watched);
	trapline_window_end();
	close(fd);
	sigaction(SIGTRAP, &before, NULL);
	assert_int_equal(handled, 1);
	assert_int_equal(seen_code, 6);
	assert_ptr_equal(seen_pc, end);
	assert_int_equal(seen_registers[0], 7);
	assert_int_equal(seen_registers[1], 9);
	if (!in_window)
		return;
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_TRAP);
	assert_ptr_equal(stats.pc, end);
}

static void a_watch_is_hit_in_the_program(void **state)
{
	static const char *const touches[][2] = {
		{ touch_plain, touch_plain_end },
		{ touch_call, touch_call_end },
		{ touch_return, touch_return_end },
		{ touch_jump, touch_jump_end },
		{ touch_call_memory, touch_call_memory_end },
	};

	if (getenv("TRAPLINE_NO_DEBUG_REGISTERS"))
		skip();
	for (unsigned int i = 0; i < sizeof(touches) / sizeof(touches[0]); i++) {
		watch_in_window(touches[i][0], touches[i][1], 0);
		watch_in_window(touches[i][0], touches[i][1], 1);
	}
}

/* ---- seccomp ---- */

static void on_sys(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	handled++;
	seen_pc = pc_of(context);
	seen_code = (uint64_t)(uintptr_t)info->si_call_addr;
	uc->uc_mcontext.gregs[REG_RAX] = 77;
}

static __attribute__((noinline)) long ask_parent(void)
{
	long result = SYS_getppid;

	__asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
	return result;
}

static int filter_parent(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { 4, code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* In a child: the filter stays. */
static int filtered_call(void)
{
	if (filter_parent())
		return 50;
	take(SIGSYS, on_sys, NULL);
	if (begin(0))
		return 51;
	const long got = ask_parent();
	trapline_window_end();
	stats.size = sizeof(stats);
	trapline_window_stats(&stats);
	if (got != 77 || handled != 1)
		return 52;
	if (seen_pc != seen_code || seen_pc - (uint64_t)(uintptr_t)ask_parent > 32)
		return 53;
	return stats.reason == TRAPLINE_WINDOW_TRAP ? 0 : 54;
}

static void a_filters_signal_meets_the_program(void **state)
{
	int status;
	const pid_t pid = fork();

	handled = 0;
	if (!pid)
		_exit(filtered_call());
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* ---- handlers in blocking calls ---- */

static void on_alarm(int sig, siginfo_t *info, void *context)
{
	handled++;
	seen_pc = pc_of(context);
}

static __attribute__((noinline)) long nap(void)
{
	const struct timespec ten_seconds = { 10, 0 };
	register long r10 __asm__("r10") = 0;
	long result = SYS_clock_nanosleep;

	__asm__ volatile("syscall\n\tnop"
			 : "+a"(result)
			 : "D"(CLOCK_MONOTONIC), "S"(0), "d"(&ten_seconds), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static void alarm_soon(void)
{
	const struct itimerval soon = { .it_value = { 0, 20000 } };

	setitimer(ITIMER_REAL, &soon, NULL);
}

static void a_handler_in_a_blocking_call_meets_the_program(void **state)
{
	struct sigaction before;

	take(SIGALRM, on_alarm, &before);
	handled = 0;
	assert_int_equal(begin(TRAPLINE_WINDOW_BLOCKS), 0);
	alarm_soon();
	const long got = nap();
	const int ended = trapline_window_end();
	sigaction(SIGALRM, &before, NULL);
	read_stats();
	assert_int_equal(handled, 1);
	assert_int_equal(got, -EINTR);
	assert_true(seen_pc - (uint64_t)(uintptr_t)nap < 128);
	assert_int_equal(ended, 0); /* it went on */
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_ENDED);
}

static sigjmp_buf back;

static void on_alarm_leave(int sig)
{
	siglongjmp(back, 1);
}

static void a_jump_out_of_a_blocking_call_ends_the_window(void **state)
{
	struct sigaction before;
	struct sigaction action = { .sa_handler = on_alarm_leave };

	sigaction(SIGALRM, &action, &before);
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1)) {
			assert_int_equal(begin(TRAPLINE_WINDOW_BLOCKS), 0);
			alarm_soon();
			nap();
		}
		assert_int_equal(begin(0), 0);
		assert_int_equal(trapline_window_end(), 0);
	}
	sigaction(SIGALRM, &before, NULL);
}

static volatile int nested_error;

static void on_alarm_begin(int sig)
{
	nested_error = begin(0);
}

static void a_window_on_top_of_a_blocking_call_replaces_it(void **state)
{
	struct sigaction before;
	struct sigaction action = { .sa_handler = on_alarm_begin };

	sigaction(SIGALRM, &action, &before);
	assert_int_equal(begin(TRAPLINE_WINDOW_BLOCKS), 0);
	alarm_soon();
	const long got = nap();
	const int ended = trapline_window_end();
	sigaction(SIGALRM, &before, NULL);
	assert_int_equal(got, -EINTR);
	assert_int_equal(ended, -ESRCH);
	assert_int_equal(nested_error, 0);
}

/* ---- sent signals of those that stay open, and the mask ---- */

static void *send_fault(void *arg)
{
	const struct timespec moment = { 0, 2000000 };

	nanosleep(&moment, NULL);
	pthread_kill(*(pthread_t *)arg, SIGSEGV);
	return NULL;
}

static __attribute__((noinline)) void wait_for_handler(void)
{
	while (!handled)
		;
}

static void a_sent_fault_signal_meets_the_program(void **state)
{
	struct sigaction before;
	pthread_t self = pthread_self();
	pthread_t sender;

	pthread_create(&sender, NULL, send_fault, &self);
	take(SIGSEGV, on_alarm, &before);
	handled = 0;
	assert_int_equal(begin(TRAPLINE_WINDOW_BLOCKS), 0);
	wait_for_handler();
	trapline_window_end();
	pthread_join(sender, NULL);
	sigaction(SIGSEGV, &before, NULL);
	read_stats();
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_SIGNAL);
	assert_int_equal(handled, 1);
	assert_true(seen_pc - (uint64_t)(uintptr_t)wait_for_handler < 64);
}

static void an_unblocked_signal_comes_at_once(void **state)
{
	struct sigaction before;
	sigset_t set;

	take(SIGUSR1, on_alarm, &before);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	handled = 0;
	assert_int_equal(begin(0), 0);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	const uint64_t blocked = handled;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	const uint64_t unblocked = handled;
	trapline_window_end();
	sigaction(SIGUSR1, &before, NULL);
	assert_int_equal(blocked, 0);
	assert_int_equal(unblocked, 1);
}

/* ---- faults of one thread beside windows of another ---- */

static volatile int stops;
static uint64_t wrong_pc;

extern const char faulting[], faulting_end[];
__asm__(".text\n"
	"faulting: xorl %eax, %eax\n\tmovl (%rax), %eax\n\tret\n"
	"faulting_end:\n");

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (pc_of(context) != (uint64_t)(uintptr_t)faulting + 2)
		wrong_pc = pc_of(context);
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)faulting_end - 1;
	handled++;
}

static void *fault_natively(void *arg)
{
	while (!stops)
		((void (*)(void))(uintptr_t)faulting)();
	return NULL;
}

static void faults_beside_windows_are_each_their_own(void **state)
{
	struct sigaction before;
	pthread_t thread;

	take(SIGSEGV, on_fault, &before);
	stops = 0;
	wrong_pc = 0;
	pthread_create(&thread, NULL, fault_natively, NULL);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(begin(0), 0);
		if (i & 1)
			((void (*)(void))(uintptr_t)faulting)();
		trapline_window_end();
	}
	stops = 1;
	pthread_join(thread, NULL);
	sigaction(SIGSEGV, &before, NULL);
	assert_int_equal(wrong_pc, 0);
}

/* ---- unwinding ---- */

static __attribute__((noinline)) int frames_here(void **frames)
{
	int n = backtrace(frames, 16);

	__asm__ volatile("" : : : "memory");
	return n;
}

static void a_backtrace_is_the_programs(void **state)
{
	void *frames[2][16];
	int counts[2];

	backtrace(frames[0], 16); /* loads libgcc */
	/* volatile: one call, and so one return address. */
	for (volatile int i = 0; i < 2; i++) {
		if (i)
			assert_int_equal(begin(0), 0);
		counts[i] = frames_here(frames[i]);
		trapline_window_end();
	}
	assert_int_equal(counts[0], counts[1]);
	assert_true(counts[0] > 3);
	assert_memory_equal(frames[0], frames[1], sizeof(void *) * (size_t)counts[0]);
}

static void exceptions_are_caught(void **state)
{
	const int expected = window_throws(20);

	assert_int_equal(begin(0), 0);
	const int got = window_throws(20);
	const int ended = trapline_window_end();
	read_stats();
	assert_int_equal(got, expected);
	assert_int_equal(ended, 0);
	assert_int_equal(stats.reason, TRAPLINE_WINDOW_ENDED);
}

static volatile int cleaned;

static void clean(void *arg)
{
	cleaned++;
}

static void *exit_in_window(void *arg)
{
	pthread_cleanup_push(clean, NULL);
	begin(TRAPLINE_WINDOW_BLOCKS);
	pthread_exit((void *)&cleaned);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *wait_in_window(void *arg)
{
	pthread_cleanup_push(clean, NULL);
	begin(TRAPLINE_WINDOW_BLOCKS);
	for (;;)
		usleep(1000000);
	pthread_cleanup_pop(0);
	return NULL;
}

static void threads_leave_by_the_unwinder(void **state)
{
	const struct timespec moment = { 0, 2000000 };
	pthread_t thread;
	void *result;

	for (int i = 0; i < 10; i++) {
		cleaned = 0;
		pthread_create(&thread, NULL, exit_in_window, NULL);
		pthread_join(thread, &result);
		assert_true(result == (void *)&cleaned);
		assert_int_equal(cleaned, 1);
		pthread_create(&thread, NULL, wait_in_window, NULL);
		nanosleep(&moment, NULL);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(cleaned, 2);
	}
	/* What they held is given back. */
	struct sigaction now;
	assert_int_equal(begin(0), 0);
	assert_int_equal(trapline_window_end(), 0);
	sigaction(SIGILL, NULL, &now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_is_hit_in_the_program),
		cmocka_unit_test(a_filters_signal_meets_the_program),
		cmocka_unit_test(a_handler_in_a_blocking_call_meets_the_program),
		cmocka_unit_test(a_jump_out_of_a_blocking_call_ends_the_window),
		cmocka_unit_test(a_window_on_top_of_a_blocking_call_replaces_it),
		cmocka_unit_test(a_sent_fault_signal_meets_the_program),
		cmocka_unit_test(an_unblocked_signal_comes_at_once),
		cmocka_unit_test(faults_beside_windows_are_each_their_own),
		cmocka_unit_test(a_backtrace_is_the_programs),
		cmocka_unit_test(exceptions_are_caught),
		cmocka_unit_test(threads_leave_by_the_unwinder),
	};

	return cmocka_run_group_tests_name("window_signals", tests, NULL, NULL);
}
