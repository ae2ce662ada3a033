// SPDX-License-Identifier: MIT
/*
 * test_at_steps.c [SEED] - many instructions of a stopped process, in a window and one by one: the same registers,
 * vector registers and memory after any number of them.
 *
 * Two children begin alike, since they are forks of the same moment. One is asked for all its instructions at
 * once. The other is asked for so few at a time that each is a step. What they do has nothing of a time or
 * of a process id in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/at/at_state.h"
#include "src/point/host/point_window.h"

#define FEW (POINT_WINDOW_LEAST / 2)
/* Until call_alone() has cleared them, registers have what the forks left there. */
#define UNLIKE 100
#define XSTATE_IN_USE 512 /* XSTATE_BV, behind the legacy area */
#define MOST 14000
#define ROUNDS 8
#define SIGNALS 300
#define XSTATE_BYTES 16384
#define STACK_BYTES 65536
#define THREAD_BYTES 4096 /* of libc's block for it: process id, number of the CPU */

static unsigned int seed;
static sigjmp_buf back;
static char *page;
static uint8_t *code;
static volatile unsigned long caught;
static void *shared;
static void *handler_stack;

/* ---- what the children do ---- */

static void on_fault(int number, siginfo_t *info, void *context)
{
	caught += (unsigned long)number;
	if (number == SIGSEGV)
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
	else
		siglongjmp(back, number);
}

static void use_strings(unsigned int round, char *a, char *b)
{
	uint64_t count = round * 5 % 90;
	char *to = a;
	char *from = b;

	__asm__ volatile("rep movsb" : "+c"(count), "+D"(to), "+S"(from)::"memory");
	count = 25;
	__asm__ volatile("rep stosq" : "+c"(count), "+D"(to) : "a"(round) : "memory");
	count = 100;
	to = a;
	a[round % 100] = 99;
	__asm__ volatile("repne scasb" : "+c"(count), "+D"(to) : "a"(99) : "memory", "cc");
	caught += count;
	count = 100;
	to = a;
	from = b;
	__asm__ volatile("repe cmpsb" : "+c"(count), "+D"(to), "+S"(from)::"memory", "cc");
	caught += count;
	count = 100;
	to = from = a;
	__asm__ volatile("repe cmpsb" : "+c"(count), "+D"(to), "+S"(from)::"memory", "cc");
	caught += count;
}

/* Any flag of a step that they see would count. */
static void use_flags(void)
{
	uint64_t flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags)::"memory");
	caught += flags & 0x100;
	__asm__ volatile("pushfq\n\tpopfq" ::: "cc", "memory");
	__asm__ volatile("movl $110, %%eax\n\tsyscall\n\tmovq %%r11, %0\n\txorl %%eax, %%eax"
			 : "=r"(flags)::"rax", "rcx", "r11");
	caught += flags & 0x100;
}

/* mov $round, %eax; ret: changed each time. */
static void use_new_code(unsigned int round)
{
	int (*function)(void);

	code[0] = 0xb8;
	memcpy(code + 1, &round, 4);
	code[5] = 0xc3;
	memcpy(&function, &code, sizeof(function));
	caught += (unsigned long)function();
}

static void work(void)
{
	static const int faults[] = { SIGSEGV, SIGFPE, SIGILL };
	const struct sigaction action = { .sa_sigaction = on_fault,
					  .sa_flags = SA_SIGINFO | SA_ONSTACK };
	static char a[1000];
	static char b[400];

	sigaltstack(&(stack_t){ .ss_sp = handler_stack, .ss_size = STACK_BYTES }, NULL);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigaction(faults[i], &action, NULL);
	for (unsigned int round = 0; round < 1000; round++) {
		mprotect(page, 4096, PROT_NONE);
		page[round] = 1;
		if (!sigsetjmp(back, 1)) {
			volatile int zero = 0;

			caught += (unsigned long)(1 / zero);
		}
		if (!sigsetjmp(back, 1))
			__asm__ volatile("ud2");
		use_strings(round, a, b);
		use_flags();
		use_new_code(round);
		snprintf(b, sizeof(b), "%g %u %lu %s", caught * 1.5, round, caught, "text");
		char *block = malloc(round % 300 + 1);
		memset(block, (int)round, round % 300);
		free(block);
	}
}

/* ---- a child ---- */

static void wait_for_state(pid_t pid, char wanted)
{
	const struct timespec pause = { 0, 1000000 };
	char path[40];
	char text[512];
	char state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 20000 && state != wanted; i++) {
		FILE *f = fopen(path, "r");

		if (f && fgets(text, sizeof(text), f) && strrchr(text, ')'))
			state = strrchr(text, ')')[2];
		if (f)
			fclose(f);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(state, wanted);
}

/* Those that the child has are its parent's of this moment. */
static void clear_vectors(void)
{
	static _Alignas(64) uint8_t area[XSTATE_BYTES];

	memcpy(area + 24, &(uint32_t){ 0x1f80 }, 4); /* mxcsr */
	__asm__ volatile("xrstor64 (%0)" ::"r"(area), "a"(0xe7), "d"(0) : "memory");
}

/* On a stack of its own, and with nothing in other registers: what the children have of their forks differs. */
static void call_alone(void (*function)(void))
{
	static _Alignas(4096) uint8_t stack[STACK_BYTES];

	__asm__ volatile("movq %0, %%rsp\n\t"
			 "xorl %%ebx, %%ebx\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "xorl %%r12d, %%r12d\n\t"
			 "xorl %%r13d, %%r13d\n\t"
			 "xorl %%r14d, %%r14d\n\t"
			 "xorl %%r15d, %%r15d\n\t"
			 "call *%1\n\t"
			 "ud2" ::"r"(stack + sizeof(stack)),
			 "a"(function)
			 : "memory");
	__builtin_unreachable();
}

/* They are alike, stopped in a read that will end, and then call the function. */
static void start(pid_t pids[], int count, void (*function)(void))
{
	int fds[2];
	char byte = 0;

	assert_int_equal(pipe(fds), 0);
	for (int i = 0; i < count; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			fail_msg("cannot fork");
		if (pid) {
			pids[i] = pid;
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(fds[0], &byte, 1) == 1) {
			clear_vectors();
			call_alone(function);
		}
		_exit(0);
	}
	for (int i = 0; i < count; i++) {
		wait_for_state(pids[i], 'S');
		assert_int_equal(kill(pids[i], SIGSTOP), 0);
		wait_for_state(pids[i], 'T');
	}
	for (int i = 0; i < count; i++)
		assert_int_equal(write(fds[1], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
}

static void make_steps(pid_t pid, uint64_t wanted, uint64_t at_once)
{
	struct at_state state;

	for (uint64_t made = 0; made < wanted; made += state.steps.made) {
		memset(&state, 0, sizeof(state));
		state.steps.wanted = wanted - made < at_once ? wanted - made : at_once;
		assert_int_equal(at_state_read(pid, pid, &state), 0);
		assert_false(state.steps.is_over);
		assert_int_equal(state.steps.made, state.steps.wanted);
	}
}

struct machine {
	struct user_regs_struct regs;
	uint64_t mask;
	uint8_t vectors[XSTATE_BYTES];
	size_t vector_bytes;
};

static void read_machine(pid_t pid, struct machine *out)
{
	struct iovec io = { out->vectors, sizeof(out->vectors) };
	int status;

	memset(out, 0, sizeof(*out));
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &out->regs), 0);
	assert_int_equal(ptrace(PTRACE_GETREGSET, pid, (void *)0x202, &io), 0);
	assert_int_equal(ptrace(PTRACE_GETSIGMASK, pid, (void *)8, &out->mask), 0);
	out->vector_bytes = io.iov_len;
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static size_t read_memory(pid_t pid, uint64_t at, void *to, size_t n)
{
	const struct iovec ours = { to, n };
	const struct iovec its = { (void *)at, n };
	const ssize_t got = process_vm_readv(pid, &ours, 1, &its, 1, 0);

	return got < 0 ? 0 : (size_t)got;
}

/*
 * What the kernel writes for a handler says also which vector registers were used since the last switch of
 * threads: that differs between two that are stepped, too.
 */
static bool is_left_out(uint64_t mapping)
{
	return mapping == (uint64_t)shared || mapping == (uint64_t)handler_stack;
}

static bool is_of_thread(uint64_t address)
{
	const uint64_t own = (uint64_t)__builtin_thread_pointer();

	return address - (own & ~UINT64_C(4095)) < THREAD_BYTES ||
	       address - ((own + (uint64_t)__rseq_offset) & ~UINT64_C(4095)) < 4096;
}

/* All that both can write and use, page by page. */
static int different_pages(pid_t one, pid_t other)
{
	static uint8_t a[4096];
	static uint8_t b[4096];
	char path[40];
	char line[512];
	uint64_t begin;
	uint64_t end;
	char may_write;
	int different = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", one);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %*c%c", &begin, &end, &may_write) != 3 ||
		    may_write != 'w' || is_left_out(begin) || strstr(line, "[stack]"))
			continue;
		for (; begin < end; begin += sizeof(a)) {
			if (is_of_thread(begin))
				continue;
			const size_t n = read_memory(one, begin, a, sizeof(a));
			size_t at = 0;

			memset(b, 0, sizeof(b));
			read_memory(other, begin, b, n);
			while (at < n && a[at] == b[at])
				at++;
			if (at == n)
				continue;
			print_message("# %lx: %x and %x; %s", begin + at, a[at], b[at], line);
			different++;
		}
	}
	fclose(f);
	return different;
}

static int mappings_of_ours(pid_t pid)
{
	char path[40];
	char line[512];
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		count += strtoull(line, NULL, 16) >> 44 == 2;
	fclose(f);
	return count;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/*
 * In the middle of a repeated comparison of strings Intel's processors keep the flags of before; those of AMD,
 * and a window, have them of the last round. No program can see them there.
 */
static void forget_flags_within_a_repeat(pid_t pid, struct machine *m)
{
	const long arithmetic = 0x8d5;
	uint8_t text[2] = { 0 };
	const struct iovec to = { text, sizeof(text) };
	const struct iovec from = { (void *)m->regs.rip, sizeof(text) };

	assert_int_equal(process_vm_readv(pid, &to, 1, &from, 1, 0), sizeof(text));
	const uint8_t prefix = text[0];
	const uint8_t opcode = text[1];
	if ((prefix == 0xf2 || prefix == 0xf3) && opcode >= 0xa4 && opcode <= 0xaf)
		m->regs.eflags &= ~(unsigned long long)arithmetic;
}

/* Whether the x87 has been used is the processor's to track: what it holds is compared all the same. */
static void forget_x87_in_use(struct machine *m)
{
	m->vectors[XSTATE_IN_USE] &= 0xfe;
}

/* ---- the tests ---- */

static void a_window_is_as_exact_as_steps(void **unused)
{
	static struct machine fast;
	static struct machine slow;
	/* Not in memory that is compared: the second child has the number of the first. */
	pid_t *pids = shared;

	for (int i = 0; i < ROUNDS; i++) {
		const uint64_t wanted = UNLIKE + (uint64_t)rand_r(&seed) % MOST;

		start(pids, 2, work);
		const pid_t one = pids[0];
		const pid_t other = pids[1];
		make_steps(one, wanted, UINT64_MAX);
		make_steps(other, wanted, FEW);
		read_machine(one, &fast);
		read_machine(other, &slow);
		forget_flags_within_a_repeat(one, &fast);
		forget_flags_within_a_repeat(other, &slow);
		print_message("# %lu instructions, pc %llx\n", wanted, slow.regs.rip);
		forget_x87_in_use(&fast);
		forget_x87_in_use(&slow);
		assert_memory_equal(&fast.regs, &slow.regs, sizeof(fast.regs));
		assert_int_equal(fast.mask, slow.mask);
		assert_memory_equal(fast.vectors, slow.vectors, slow.vector_bytes);
		assert_int_equal(different_pages(one, other), 0);
		assert_int_equal(mappings_of_ours(one), 0);
		end(one);
		end(other);
	}
}

static volatile unsigned long sum;
static volatile unsigned long signals;

static void on_queued(int number, siginfo_t *info, void *context)
{
	sum += (unsigned long)info->si_value.sival_int;
	signals++;
}

/* Calculates in registers and memory what only an exact machine gets right. */
static void count_signals(void)
{
	volatile uint64_t there[8] = { 0 };
	uint64_t here = 1;

	for (uint64_t i = 0; signals < SIGNALS; i++) {
		here = here * 6364136223846793005u + 1;
		there[i % 8] = here;
		if (there[i % 8] != here)
			_exit(2);
	}
	_exit(sum == SIGNALS * (SIGNALS - 1) / 2 ? 0 : 1);
}

static void signals_in_a_window_arrive_once_and_with_what_they_carry(void **unused)
{
	struct at_state state = { 0 };
	int status = 0;
	pid_t pid;

	start(&pid, 1, count_signals);
	const pid_t sender = fork();
	assert_true(sender >= 0);
	if (!sender) {
		for (int i = 0; i < SIGNALS; i++) {
			const struct timespec pause = { 0, 100000 };

			while (sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = i }))
				;
			nanosleep(&pause, NULL);
		}
		_exit(0);
	}
	for (int i = 0; i < 20 && !state.steps.is_over; i++) {
		state.steps = (struct at_steps){ .wanted = 50000 };
		assert_int_equal(at_state_read(pid, pid, &state), 0);
	}
	kill(pid, SIGCONT);
	/* The steps may have waited for it already. */
	waitpid(sender, NULL, 0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	assert_int_equal(status, 0);
}

static void fork_in_a_window(void)
{
	int status = 0;

	for (volatile int i = 0; i < 1000; i++)
		;
	const pid_t pid = fork();
	if (!pid)
		_exit(mappings_of_ours(getpid()));
	for (volatile int i = 0; i < 20000; i++)
		;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(status ? 3 : 4);
}

static void a_forked_child_has_no_mapping_of_ours(void **unused)
{
	struct at_state state = { .steps.wanted = 9000 };
	int status = 0;
	pid_t pid;

	start(&pid, 1, fork_in_a_window);
	assert_int_equal(at_state_read(pid, pid, &state), 0);
	assert_int_equal(state.steps.made, 9000);
	assert_int_equal(mappings_of_ours(pid), 0);
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 4 << 8);
}

static void execute_in_a_window(void)
{
	for (volatile int i = 0; i < 1000; i++)
		;
	execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
	_exit(1);
}

static void a_program_that_is_executed_is_let_alone(void **unused)
{
	struct at_state state = { .steps.wanted = 100000 };
	int status = 0;
	pid_t pid;

	start(&pid, 1, execute_in_a_window);
	assert_int_equal(at_state_read(pid, pid, &state), 0);
	assert_true(state.steps.is_over);
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 9 << 8);
}

static void load_flags(void)
{
	for (int i = 0; i < 500; i++)
		__asm__ volatile("pushfq\n\tpopfq\n\tpushfq\n\tpopfq" ::: "cc", "memory");
	_exit(7);
}

static void steps_over_popf_leave_no_trap_flag(void **unused)
{
	/* By the number at once, the steps begin at each instruction of the loop, a popf too. */
	for (uint64_t i = 0; i < 12; i++) {
		const uint64_t at_once = (i % 2 ? 1 : 20) * FEW + i / 2;
		int status = 0;
		pid_t pid;

		start(&pid, 1, load_flags);
		make_steps(pid, 1500, at_once);
		kill(pid, SIGCONT);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 7);
	}
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_is_as_exact_as_steps),
		cmocka_unit_test(signals_in_a_window_arrive_once_and_with_what_they_carry),
		cmocka_unit_test(a_forked_child_has_no_mapping_of_ours),
		cmocka_unit_test(a_program_that_is_executed_is_let_alone),
		cmocka_unit_test(steps_over_popf_leave_no_trap_flag),
	};

	/* A function's first call would keep the vector registers in memory, with the same. */
	if (!getenv("LD_BIND_NOW")) {
		setenv("LD_BIND_NOW", "1", 1);
		execv("/proc/self/exe", argv);
	}
	seed = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 0) : (unsigned int)time(NULL);
	fprintf(stderr, "# seed %u\n", seed); /* the header of TAP is first */
	sigaction(SIGRTMIN, &action, NULL);
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	handler_stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || code == MAP_FAILED || shared == MAP_FAILED ||
	    handler_stack == MAP_FAILED)
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
