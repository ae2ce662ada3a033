/* SPDX-License-Identifier: MIT */
/* stacks.c - small stacks for signals, coroutines and threads, faults of the processor. See guest.h. */
#include "guest.h"

#include <fcntl.h>
#include <fenv.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define MARGIN 65536
#define PAGE 4096
#define CANARY 0x5a

static volatile long ticks;
static sigjmp_buf back;

/* A stack with MARGIN bytes of canary below and above. */
static char *stack_with_canary(size_t bytes)
{
	char *p = mmap(NULL, 2 * MARGIN + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, CANARY, 2 * MARGIN + bytes);
	return p + MARGIN;
}

static int changed(const char *stack, size_t bytes)
{
	int n = 0;

	for (int i = 0; i < MARGIN; i++)
		n += (stack[-1 - i] != CANARY) + (stack[(ptrdiff_t)bytes + i] != CANARY);
	return n;
}

/* ---- alternate stacks, with a timer of 1 kHz ---- */

static char *alternate[2];

static void on_tick(int signal)
{
	volatile char room[128];

	(void)signal;
	for (int i = 0; i < 128; i++)
		room[i] = (char)i;
	ticks += room[7] == 7;
}

/* The bytes that a signal takes here: the frame of the kernel, which holds all registers, and the handler. */
static size_t bytes_of_signal(void)
{
	char *large = stack_with_canary(MARGIN);
	stack_t stack = { .ss_sp = large, .ss_size = MARGIN };
	size_t unused = 0;

	if (!large)
		return MARGIN;
	sigaltstack(&stack, NULL);
	raise(SIGALRM);
	while (unused < MARGIN && large[unused] == CANARY)
		unused++;
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	munmap(large - MARGIN, 3 * MARGIN);
	return MARGIN - unused;
}

static int with_altstacks(long bytes)
{
	struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };

	sigaction(SIGALRM, &action, NULL);
	if (bytes_of_signal() + 64 > (size_t)bytes)
		return 77;
	for (int i = 0; i < 2; i++)
		if (!(alternate[i] = stack_with_canary((size_t)bytes)))
			return 77;
	ticks = 0;
	setitimer(ITIMER_REAL, &every, NULL);
	return 0;
}

static const char *use_strings(size_t bytes, char *stack)
{
	stack_t here = { .ss_sp = stack, .ss_size = bytes };
	size_t sum = 0;

	if (sigaltstack(&here, NULL))
		return NULL;
	for (int i = 0; i < 100; i++) {
		char *p = malloc((size_t)(20 + i));

		memset(p, 'x', (size_t)(10 + i));
		p[10 + i] = 0;
		char *q = strdup(p + 1);

		sum += strlen(q) + (strrchr(q, 'y') != NULL);
		free(p);
		free(q);
		step(i);
	}
	EXPECT(sum == 100 * 9 + 4950, "the strings have %zu bytes", sum);
	return NULL;
}

static void *in_thread(void *arg)
{
	use_strings(*(size_t *)arg, alternate[1]);
	return NULL;
}

static const char *tick_on_altstack(long bytes)
{
	size_t size = (size_t)bytes;
	pthread_t thread;

	if (!pthread_create(&thread, NULL, in_thread, &size)) {
		use_strings(size, alternate[0]);
		pthread_join(thread, NULL);
	}
	for (double end = now() + PATIENCE; !ticks && now() < end;)
		step(0);
	EXPECT(ticks, "the timer does not tick");
	for (int i = 0; i < 2; i++)
		EXPECT(!changed(alternate[i], size), "%d bytes beside a stack of %ld bytes were overwritten",
		       changed(alternate[i], size), bytes);
	return NULL;
}

/* ---- coroutines ---- */

static ucontext_t outside, inside;
static char *small;
static int zero;

static void coroutine(void)
{
	char b[16];

	for (long i = 0;; i++) {
		step(i);
		if (read(zero, b, 8) != 8)
			wrong("read() in a coroutine fails");
		counter += b[3];
		void *volatile p = malloc(24);

		free(p);
		swapcontext(&inside, &outside);
	}
}

static int with_coroutine(long bytes)
{
	zero = open("/dev/zero", O_RDONLY);
	small = stack_with_canary((size_t)bytes);
	if (!small || zero < 0)
		return 77;
	/* What binds at the first call does so on a large stack. */
	getcontext(&inside);
	if (read(zero, &(char[8]){}, 8) != 8)
		return 77;
	free(malloc(24));
	inside.uc_stack.ss_sp = small;
	inside.uc_stack.ss_size = (size_t)bytes;
	makecontext(&inside, coroutine, 0);
	return 0;
}

static const char *run_coroutine(long bytes)
{
	for (int i = 0; i < 100; i++)
		swapcontext(&outside, &inside);
	EXPECT(!changed(small, (size_t)bytes), "%d bytes beside a coroutine's stack of %ld bytes were overwritten",
	       changed(small, (size_t)bytes), bytes);
	return NULL;
}

/* ---- threads with the smallest stack ---- */

static void *in_small_thread(void *arg)
{
	work();
	return arg;
}

static const char *run_small_thread(long arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	(void)arg;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	EXPECT(!pthread_create(&thread, &attr, in_small_thread, NULL), "cannot create a thread");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	return NULL;
}

/* ---- a stack that overflows, seen on the alternate one ---- */

static void on_overflow(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

__attribute__((noinline)) static long descend(long n)
{
	volatile char room[4096];

	room[n & 4095] = 1;
	return n > 1000000 ? n : descend(n + 1) + room[n & 4095];
}

static void *overflow(void *arg)
{
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&stack, NULL);
	if (!sigsetjmp(back, 1)) {
		descend(0);
		wrong("a stack does not end");
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	free(stack.ss_sp);
	return arg;
}

static const char *overflow_stack(long arg)
{
	struct sigaction action = { .sa_handler = on_overflow, .sa_flags = SA_ONSTACK };
	pthread_attr_t attr;
	pthread_t thread;

	(void)arg;
	sigaction(SIGSEGV, &action, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 131072);
	if (!pthread_create(&thread, &attr, overflow, NULL))
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	return NULL;
}

/* ---- crash handlers ---- */

static void crash(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	control->entered++;
	*(volatile int *)8 = 1;
}

static void install_crash(int flags)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK | flags };
	stack_t stack = { .ss_sp = malloc(1 << 20), .ss_size = 1 << 20 };

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	action.sa_sigaction = crash;
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

static void die(long arg)
{
	install_crash(0);
	free(malloc(10));
	*(volatile int *)(4 + 0 * arg) = 1;
}

static const char *crash_in_child(long arg)
{
	int status;
	const pid_t child = fork();

	if (!child) {
		control->entered = 0;
		die(arg);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a child did not die of SIGSEGV: %x", status);
	EXPECT(control->entered == 1, "a crash handler that faults was entered %u times", control->entered);
	control->entered = 0;
	return NULL;
}

static const char *only_work(long arg)
{
	(void)arg;
	work();
	return NULL;
}

/* ---- faults of the program's own ---- */

static char *fault_page;
static volatile int faults, fault_code;
static void *volatile fault_address;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	faults++;
	fault_code = info->si_code;
	fault_address = info->si_addr;
	if (signal == SIGILL)
		c->uc_mcontext.gregs[REG_RIP] += 2;
	else if (signal == SIGSEGV)
		mprotect(fault_page, PAGE, PROT_READ | PROT_WRITE);
	else if (signal != SIGTRAP)
		siglongjmp(back, 1);
}

static int with_faults(long signal)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };
	FILE *file = tmpfile();

	if (!file)
		return 77;
	action.sa_sigaction = on_fault;
	sigaction((int)signal, &action, NULL);
	if (signal == SIGBUS)
		fault_page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	else
		fault_page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return fault_page == MAP_FAILED ? 77 : 0;
}

static void cause(long signal)
{
	volatile int nothing = 0;

	if (signal == SIGILL)
		__asm__ volatile("ud2");
	else if (signal == SIGTRAP)
		__asm__ volatile("int3");
	else if (signal == SIGFPE)
		faults += 7 / nothing;
	else if (!sigsetjmp(back, 1))
		fault_page[12] = 1;
}

static const char *fault(long signal)
{
	static const int code[] = { [SIGILL] = ILL_ILLOPN, [SIGTRAP] = SI_KERNEL, [SIGFPE] = FPE_INTDIV,
				    [SIGSEGV] = SEGV_ACCERR, [SIGBUS] = BUS_ADRERR };

	faults = 0;
	if (signal == SIGSEGV)
		mprotect(fault_page, PAGE, PROT_NONE);
	if (signal != SIGFPE || !sigsetjmp(back, 1))
		cause(signal);
	EXPECT(faults == 1, "signal %ld was handled %d times", signal, faults);
	EXPECT(fault_code == code[signal], "signal %ld has code %d", signal, fault_code);
	EXPECT((signal != SIGSEGV && signal != SIGBUS) || fault_address == fault_page + 12,
	       "signal %ld has another address", signal);
	return NULL;
}

/* The program steps itself, as a debugger in the process does. */
static const char *step_itself(long arg)
{
	(void)arg;
	faults = 0;
	__asm__ volatile("pushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop\n\tnop\n\t"
			 "pushfq\n\tandl $~0x100, (%%rsp)\n\tpopfq" ::
			 : "memory", "cc");
	EXPECT(faults == 6 && fault_code == TRAP_TRACE, "%d of 6 steps, code %d", faults, fault_code);
	return NULL;
}

/* ---- what must stay as it is: registers of all kinds, errno ---- */

static const char *keep_state(long arg)
{
	double x = 1.5;

	(void)arg;
	fesetround(FE_UPWARD);
	for (int i = 0; i < 20000; i++) {
		errno = i;
		x = x * 1.0000001;
		if (step(i) != i + 1 || errno != i)
			return wrong("errno or a result changed");
	}
	const int mode = fegetround();

	fesetround(FE_TONEAREST);
	EXPECT(mode == FE_UPWARD, "the rounding mode changed");
	double y = 1.5;

	fesetround(FE_UPWARD);
	for (int i = 0; i < 20000; i++)
		y = y * 1.0000001;
	fesetround(FE_TONEAREST);
	EXPECT(x == y, "a floating point register changed");
	return NULL;
}

#define ALTSTACK(name, bytes) { "altstack_" name, tick_on_altstack, bytes, 0, with_altstacks, NULL }
#define COROUTINE(name, bytes) { "coroutine_" name, run_coroutine, bytes, 0, with_coroutine, NULL }
#define FAULT(name, signal) { "fault_" name, fault, signal, 0, with_faults, NULL }

const struct behaviour behaviours[] = {
	ALTSTACK("2k", 2048), ALTSTACK("4k", 4096), ALTSTACK("8k", 8192), ALTSTACK("16k", 16384),
	ALTSTACK("64k", 65536), COROUTINE("2k", 2048), COROUTINE("4k", 4096), COROUTINE("8k", 8192),
	COROUTINE("16k", 16384), FAULT("segv", SIGSEGV), FAULT("bus", SIGBUS), FAULT("ill", SIGILL),
	FAULT("trap", SIGTRAP), FAULT("fpe", SIGFPE),
	{ "steps_itself", step_itself, SIGTRAP, 0, with_faults, NULL },
	{ "small_threads", run_small_thread, 0, 0, NULL, NULL },
	{ "stack_overflow", overflow_stack, 0, 0, NULL, NULL },
	{ "crash_handler_faults", only_work, 0, 0, NULL, die },
	{ "crash_in_child", crash_in_child, 0, 0, NULL, NULL },
	{ "state", keep_state, 0, 0, NULL, NULL },
	{ "plain", only_work, 0, 0, NULL, NULL },
	{},
};
