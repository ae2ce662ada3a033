/* SPDX-License-Identifier: MIT */
/*
 * heap_signals.c - a program that checks what it sees of signals, masks and stacks: each is a promise of the
 * kernel, which holds under trapline heap too. heap_signals [-w FILE] CASE: waits for FILE first.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heap_signals.h"

/* Of a stack, by our handlers until they leave it (guest/stack_call.h), beside the frame of the kernel. */
#define HANDLER_BYTES 2048u
#define PAINT 0x5a

int failed;
const char *self;

volatile int entered;
static volatile int last_code;
static volatile int was_blocked;
static sigjmp_buf back;

__attribute__((noinline)) static void fault(void)
{
	*(volatile int *)(uintptr_t)8 = 1;
}

__attribute__((noinline)) unsigned read_freed(void)
{
	volatile unsigned *p = malloc(48);

	*p = 1;
	free((void *)p);
	return *p;
}

int is_blocked(int signal)
{
	sigset_t set;

	sigprocmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signal);
}

static int is_pending(int signal)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, signal);
}

void change(int how, int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	sigprocmask(how, &set, NULL);
}

void block_all(void)
{
	sigset_t set;

	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

void on_any(int signal, siginfo_t *info, void *context)
{
	(void)context;
	entered++;
	last_code = info->si_code;
	was_blocked = is_blocked(signal);
}

void act(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(signal, &action, NULL);
}

static stack_t set_alternate(size_t bytes)
{
	stack_t stack = { .ss_size = bytes };

	stack.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(stack.ss_sp, PAINT, bytes);
	sigaltstack(&stack, NULL);
	return stack;
}

/* How a child ends: its exit status, or 128 and the signal. */
static int ends(void (*run)(void))
{
	const struct rlimit none = { 0, 0 };
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		run();
		_exit(failed);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- alternate stacks ---- */

static volatile long ticks;

static void on_tick(int signal)
{
	volatile char room[512];

	(void)signal;
	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = (char)i;
	ticks += room[7] == 7;
}

static void tick_every(int us)
{
	const struct itimerval every = { { 0, us }, { 0, us } };
	const struct sigaction action = { .sa_handler = on_tick,
					  .sa_flags = SA_ONSTACK | SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

unsigned beside(size_t bytes, long at)
{
	volatile unsigned char *p = malloc(bytes);
	volatile unsigned char value;

	p[0] = 1;
	value = p[at];
	free((void *)p);
	return value;
}

static void alternate_beside(void)
{
	set_alternate(65536);
	for (int i = 0; i < 20; i++)
		beside(20, i & 1 ? 20 : -1);
}

#define F(n)                                                 \
	__attribute__((noinline)) static unsigned f##n(void) \
	{                                                    \
		return read_freed() + (n);                   \
	}
F(0)
F(1)
F(2)
F(3)
F(4)
F(5) F(6) F(7)

	static void alternate_errors_and_timer(void)
{
	static unsigned (*const each[])(void) = { f0, f1, f2, f3, f4, f5, f6, f7 };
	unsigned sum = 0;

	set_alternate(65536);
	tick_every(50);
	for (int k = 0; k < 2000; k++)
		for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
			sum += each[i]();
	CHECK(ticks > 0 && sum != 1);
}

static time_t until;

static void *work(void *arg)
{
	size_t sum = 0;

	set_alternate(65536);
	for (size_t i = 0; time(NULL) < until; i++) {
		char *p = malloc(20 + i % 300);

		memset(p, 'x', 10 + i % 300);
		p[10 + i % 300] = 0;
		sum += strlen(p + 1);
		free(p);
	}
	return sum ? arg : NULL;
}

static void alternate_strings_and_timer(void)
{
	pthread_t thread;

	until = time(NULL) + 2;
	tick_every(100);
	pthread_create(&thread, NULL, work, &until);
	work(&until);
	pthread_join(thread, NULL);
	CHECK(ticks > 0);
}

static size_t depth(const stack_t *stack)
{
	const char *end = (const char *)stack->ss_sp + stack->ss_size;
	const char *at = stack->ss_sp;

	while (at < end && *at == PAINT)
		at++;
	return (size_t)(end - at);
}

/* Beside what any handler of the program needs. */
static void alternate_depth(void)
{
	const stack_t stack = set_alternate(65536);
	const struct sigaction tick = { .sa_handler = on_tick, .sa_flags = SA_ONSTACK };
	stack_t now;

	sigaction(SIGUSR2, &tick, NULL);
	raise(SIGUSR2);
	size_t before = depth(&stack);
	memset(stack.ss_sp, PAINT, stack.ss_size);
	act(SIGSEGV, on_any, SA_ONSTACK);
	beside(20, 20);
	read_freed();
	size_t used = depth(&stack);
	printf("# %zu bytes, %zu by a handler of the program\n", used, before);
	CHECK(used <= before + HANDLER_BYTES);
	sigaltstack(NULL, &now);
	CHECK(now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size && !now.ss_flags);
}

static void see_stack(int signal, siginfo_t *info, void *context)
{
	stack_t now;

	on_any(signal, info, context);
	sigaltstack(NULL, &now);
	was_blocked = now.ss_flags & SS_ONSTACK;
	siglongjmp(back, 1);
}

static void alternate_in_handler(void)
{
	set_alternate(65536);
	act(SIGSEGV, see_stack, SA_ONSTACK);
	for (volatile int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			fault();
		CHECK(was_blocked);
		read_freed();
	}
	CHECK(entered == 3);
}

/* ---- the program's own faults ---- */

static void on_crash(int signal, siginfo_t *info, void *context)
{
	on_any(signal, info, context);
	if (entered > 1)
		_exit(3);
	fault();
}

static void crash_in_handler(void)
{
	set_alternate(1 << 20);
	act(SIGSEGV, on_crash, SA_ONSTACK);
	free(malloc(10));
	fault();
}

static void crash_in_other_handler(void)
{
	struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO };

	act(SIGSEGV, see_stack, 0);
	sigaddset(&action.sa_mask, SIGSEGV);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static void crash_blocked(void)
{
	act(SIGSEGV, see_stack, 0);
	change(SIG_BLOCK, SIGSEGV);
	fault();
}

static void crash_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	fault();
}

static void crash_twice(void)
{
	act(SIGSEGV, see_stack, SA_RESETHAND);
	if (!sigsetjmp(back, 1))
		fault();
	if (entered != 1)
		_exit(3);
	fault();
}

static void fault_deadly(void)
{
	CHECK(ends(crash_in_handler) == 128 + SIGSEGV);
	CHECK(ends(crash_in_other_handler) == 128 + SIGSEGV);
	CHECK(ends(crash_blocked) == 128 + SIGSEGV);
	CHECK(ends(crash_ignored) == 128 + SIGSEGV);
	CHECK(ends(crash_twice) == 128 + SIGSEGV);
	CHECK(ends(fault) == 128 + SIGSEGV);
}

static void on_twice(int signal, siginfo_t *info, void *context)
{
	on_any(signal, info, context);
	if (entered < 3)
		fault();
	siglongjmp(back, 1);
}

static void fault_nested(void)
{
	act(SIGSEGV, on_twice, SA_NODEFER);
	if (!sigsetjmp(back, 1))
		fault();
	CHECK(entered == 3 && !was_blocked && !is_blocked(SIGSEGV));
}

static void see_mask(int signal, siginfo_t *info, void *context)
{
	on_any(signal, info, context);
	CHECK(is_blocked(SIGSEGV) && is_blocked(SIGUSR1) && !is_blocked(SIGTRAP));
	CHECK(!is_blocked(SIGRTMAX) && !is_blocked(SIGSTKFLT));
	read_freed();
	siglongjmp(back, 1);
}

static void fault_mask(void)
{
	struct sigaction action = { .sa_sigaction = see_mask, .sa_flags = SA_SIGINFO };
	struct sigaction old;

	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < 20; i++) {
		if (!sigsetjmp(back, 1))
			fault();
		CHECK(!is_blocked(SIGSEGV) && !is_blocked(SIGUSR1));
	}
	CHECK(entered == 20);
	sigaction(SIGSEGV, NULL, &old);
	CHECK(old.sa_sigaction == see_mask && (old.sa_flags & SA_SIGINFO) &&
	      sigismember(&old.sa_mask, SIGUSR1) && !sigismember(&old.sa_mask, SIGTRAP));
}

/* ---- what is sent ---- */

static void sent_waits(void)
{
	act(SIGSEGV, on_any, 0);
	change(SIG_BLOCK, SIGSEGV);
	CHECK(is_blocked(SIGSEGV) && !is_blocked(SIGRTMAX));
	kill(getpid(), SIGSEGV);
	CHECK(entered == 0 && is_pending(SIGSEGV));
	change(SIG_UNBLOCK, SIGSEGV);
	CHECK(entered == 1 && last_code == SI_USER && was_blocked && !is_pending(SIGSEGV));
	raise(SIGSEGV);
	CHECK(entered == 2 && last_code == SI_TKILL);
}

static void sent_taken(void)
{
	const struct timespec most = { 5, 0 };
	siginfo_t info;
	sigset_t set;

	block_all();
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	for (int i = 0; i < 10; i++) {
		sigqueue(getpid(), SIGSEGV, (union sigval){ .sival_int = 7 });
		CHECK(is_pending(SIGSEGV));
		CHECK(sigtimedwait(&set, &info, &most) == SIGSEGV && info.si_value.sival_int == 7);
		CHECK(!is_pending(SIGSEGV));
		read_freed();
	}
}

/* All signals were blocked when the command came. */
static void before_taken(void)
{
	block_all();
	CHECK(is_blocked(SIGSEGV) && is_blocked(SIGRTMAX));
	beside(20, 20);
	sent_taken();
}

/* The command comes and goes meanwhile. */
static void before_throughout(void)
{
	const struct timespec most = { 5, 0 };
	const time_t end = time(NULL) + 4;
	int sent = 0;
	int taken = 0;
	sigset_t set;

	block_all();
	change(SIG_UNBLOCK, SIGTRAP);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	for (; time(NULL) < end; sent++) {
		free(malloc(40));
		kill(getpid(), SIGSEGV);
		taken += sigtimedwait(&set, NULL, &most) == SIGSEGV;
		usleep(500);
	}
	printf("# %d sent, %d taken\n", sent, taken);
	CHECK(sent == taken && is_blocked(SIGSEGV) && !is_blocked(SIGTRAP));
}

static void before_opened(void)
{
	block_all();
	act(SIGSEGV, see_stack, 0);
	change(SIG_UNBLOCK, SIGSEGV);
	CHECK(!is_blocked(SIGSEGV) && is_blocked(SIGRTMAX));
	if (!sigsetjmp(back, 1))
		fault();
	CHECK(entered == 1 && !is_blocked(SIGSEGV));
}

static void sent_read(void)
{
	struct signalfd_siginfo info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_NONBLOCK);
	CHECK(read(fd, &info, sizeof(info)) == -1 && errno == EAGAIN);
	kill(getpid(), SIGSEGV);
	CHECK(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGSEGV);
}

static void sent_to_all(void)
{
	signal(SIGSEGV, SIG_IGN);
	for (int i = 0; i < 3; i++)
		kill(getpid(), SIGSEGV);
	read_freed();
	act(SIGSEGV, on_any, SA_RESETHAND);
	kill(getpid(), SIGSEGV);
	CHECK(entered == 1);
	struct sigaction old;
	sigaction(SIGSEGV, NULL, &old);
	CHECK(old.sa_handler == SIG_DFL);
}

static void kill_by_default(void)
{
	kill(getpid(), SIGSEGV);
	_exit(3);
}

static int to_raise;

static void raise_one(void)
{
	raise(to_raise);
}

static void sent_deadly(void)
{
	static const int each[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP };

	CHECK(ends(kill_by_default) == 128 + SIGSEGV);
	for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++) {
		to_raise = each[i];
		CHECK(ends(raise_one) == 128 + to_raise);
	}
}

/* ---- masks ---- */

static void mask_all(void)
{
	sigset_t set;
	sigset_t seen;

	block_all();
	for (int i = 0; i < 50; i++)
		read_freed();
	sigprocmask(SIG_SETMASK, NULL, &seen);
	for (int n = 1; n <= 64; n++)
		if (n != SIGKILL && n != SIGSTOP && n != 32 && n != 33)
			CHECK(sigismember(&seen, n));
	/* As servers do. */
	static const int faults[] = { SIGSEGV, SIGTRAP, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	sigfillset(&set);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&set, faults[i]);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigprocmask(SIG_SETMASK, NULL, &seen);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		CHECK(!sigismember(&seen, faults[i]));
	CHECK(sigismember(&seen, SIGRTMAX) && sigismember(&seen, SIGSTKFLT));
	read_freed();
}

static void mask_last_signal(void)
{
	const struct timespec most = { 5, 0 };
	sigset_t set;

	act(SIGSEGV, see_stack, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX);
	sigprocmask(SIG_BLOCK, &set, NULL);
	CHECK(is_blocked(SIGRTMAX) && !is_blocked(SIGSEGV));
	kill(getpid(), SIGRTMAX);
	CHECK(sigtimedwait(&set, NULL, &most) == SIGRTMAX);
	if (!sigsetjmp(back, 1))
		fault();
	CHECK(entered == 1 && is_blocked(SIGRTMAX));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "alternate_beside", alternate_beside },
	{ "alternate_errors_and_timer", alternate_errors_and_timer },
	{ "alternate_strings_and_timer", alternate_strings_and_timer },
	{ "alternate_depth", alternate_depth },
	{ "alternate_in_handler", alternate_in_handler },
	{ "fault_deadly", fault_deadly },
	{ "fault_nested", fault_nested },
	{ "fault_mask", fault_mask },
	{ "sent_waits", sent_waits },
	{ "sent_taken", sent_taken },
	{ "sent_read", sent_read },
	{ "before_taken", before_taken },
	{ "before_opened", before_opened },
	{ "before_throughout", before_throughout },
	{ "sent_to_all", sent_to_all },
	{ "sent_deadly", sent_deadly },
	{ "mask_all", mask_all },
	{ "mask_last_signal", mask_last_signal },
	{ "start_handlers", start_handlers },
	{ "start_ignored", start_ignored },
	{ "start_blocked", start_blocked },
	{ "start_failed", start_failed },
};

static void wait_for(const char *file)
{
	const struct timespec step = { 0, 10000000 };

	puts("waits");
	fflush(stdout);
	for (int i = 0; i < 12000 && access(file, F_OK); i++) {
		free(malloc(10));
		nanosleep(&step, NULL);
	}
}

static void run_case(size_t i)
{
	cases[i].run();
	printf("%s %s\n", failed ? "wrong" : "right", cases[i].name);
	fflush(stdout);
}

static void run_each(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t child = fork();

		if (!child) {
			alarm(60);
			run_case(i);
			_exit(failed);
		}
		waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	const char *name = argv[argc - 1];

	self = argv[0];
	if (!strcmp(name, "show"))
		return show();
	if (!strncmp(name, "before_", 7)) {
		block_all();
		change(SIG_UNBLOCK, SIGTRAP); /* a process that blocks it may be refused */
	}
	if (argc == 4)
		wait_for(argv[2]);
	if (!strcmp(name, "each"))
		run_each();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!strcmp(name, "list"))
			puts(cases[i].name);
		if (!strcmp(cases[i].name, name))
			run_case(i);
	}
	return failed;
}
