/* SPDX-License-Identifier: MIT */
/*
 * heap_life.c KIND - a program without errors of the heap, whose life is difficult: threads with tiny
 * stacks, signals, children, faults of its own. It prints "went on" at its end.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define ROUNDS 500
#define KEPT 32

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 8;
}

static void fail(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
	_exit(1);
}

/* Blocks of all sizes, each with its content checked when it is freed. */
static void churn(uint32_t seed, int rounds)
{
	unsigned char *kept[KEPT] = { NULL };
	size_t bytes[KEPT] = { 0 };

	for (int i = 0; i < rounds; i++) {
		uint32_t at = next_random(&seed) % KEPT;
		unsigned char *p = kept[at];

		if (p && (p[0] != at || p[bytes[at] - 1] != at))
			fail("a block has changed");
		free(p);
		bytes[at] = 2 + next_random(&seed) % (i % 16 ? 300 : 20000);
		kept[at] = malloc(bytes[at]);
		memset(kept[at], (int)at, bytes[at]);
	}
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
}

static void *churn_thread(void *arg)
{
	churn((uint32_t)(uintptr_t)arg, ROUNDS);
	return NULL;
}

static void run_threads(size_t stack_bytes)
{
	pthread_t threads[16];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (stack_bytes)
		pthread_attr_setstacksize(&attr, stack_bytes);
	for (uintptr_t i = 0; i < 16; i++)
		if (pthread_create(&threads[i], &attr, churn_thread, (void *)(i + 1)))
			fail("no thread");
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
}

static void threads(void)
{
	run_threads(0);
}

static void tiny_stacks(void)
{
	run_threads(PTHREAD_STACK_MIN);
}

/* A handler that allocates, as programs do although they must not: libc's malloc() is left out. */
static volatile sig_atomic_t is_in_libc;
static volatile sig_atomic_t handled;

static void on_alarm(int signal)
{
	handled++;
	if (!is_in_libc)
		churn((uint32_t)handled, 20);
}

static void in_handlers(void)
{
	struct itimerval every = { { 0, 5000 }, { 0, 5000 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	for (volatile long i = 0; handled < 40 && i < 2000000000; i++)
		;
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
}

/* What the parent allocated is freed in the child, and the other way round it stays. */
static void children(void)
{
	for (int i = 0; i < 20; i++) {
		char *p = malloc(50);
		char *q = malloc(60);
		int status = 0;

		memset(p, 3, 50);
		pid_t child = fork();
		if (!child) {
			free(p);
			churn((uint32_t)i, 100);
			memset(q, 4, 60);
			exit(0);
		}
		waitpid(child, &status, 0);
		if (status || p[49] != 3)
			fail("a child");
		free(p);
		free(q);
	}
}

static sigjmp_buf back;
static void *volatile fault_at;
static volatile int fault_code;

static void on_segv(int signal, siginfo_t *info, void *context)
{
	fault_at = info->si_addr;
	fault_code = info->si_code;
	siglongjmp(back, 1);
}

static void on_segv_skip(int signal, siginfo_t *info, void *arg)
{
	ucontext_t *context = arg;

	fault_at = info->si_addr;
	context->uc_mcontext.gregs[REG_RIP] += 2; /* movb (%rax), %al */
}

static void read_there(void *at)
{
	__asm__ volatile("movb (%%rax), %%al" : : "a"(at) : "memory");
}

static void own_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
	struct sigaction old;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < 100; i++) {
		if (!sigsetjmp(back, 1))
			read_there(page + i);
		if (fault_at != page + i || fault_code != SEGV_ACCERR)
			fail("the address of a fault");
		churn((uint32_t)i, 20);
	}
	sigaction(SIGSEGV, NULL, &old);
	if (old.sa_sigaction != on_segv || !(old.sa_flags & SA_SIGINFO))
		fail("the handler that was set");
	action.sa_sigaction = on_segv_skip;
	sigaction(SIGSEGV, &action, &old);
	if (old.sa_sigaction != on_segv)
		fail("the handler before");
	read_there(page + 9);
	if (fault_at != page + 9)
		fail("the address of the second handler");
	if (signal(SIGSEGV, SIG_DFL) != (sighandler_t)(void (*)(void))on_segv_skip)
		fail("signal()");
}

/* A stack for signals that has room for little more than the frame of one. */
static void own_stack(void)
{
	static char room[16384];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < 10; i++) {
		if (!sigsetjmp(back, 1))
			read_there((void *)16);
		churn((uint32_t)i, 50);
	}
}

/* A use after free while all signals are blocked: the one error of this program. */
static void *use_blocked(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	volatile char *p = malloc(20);
	free((void *)p);
	p[3] = 1;
	return NULL;
}

static void blocked(void)
{
	pthread_t thread;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	pthread_create(&thread, NULL, use_blocked, NULL);
	pthread_join(thread, NULL);
}

/*
 * Each thread uses blocks after free: faults at the same time, on stacks that are almost full. Behind
 * what glibc keeps in a freed block, so that one that is not sampled does not end the program.
 */
static void *use_freed(void *arg)
{
	for (int i = 0; i < 200; i++) {
		volatile char *p = malloc(24);
		free((void *)p);
		p[16 + i % 8] = 1;
	}
	return NULL;
}

/* Many threads allocate their first blocks at one moment. */
static pthread_barrier_t all_here;

static void *allocate_first(void *arg)
{
	char *blocks[8];

	pthread_barrier_wait(&all_here);
	for (int i = 0; i < 8; i++)
		blocks[i] = memset(malloc(40), 1, 40);
	for (int i = 0; i < 8; i++)
		free(blocks[i]);
	return NULL;
}

static void at_once(void)
{
	pthread_t threads[64];

	pthread_barrier_init(&all_here, NULL, 64);
	for (int i = 0; i < 64; i++)
		if (pthread_create(&threads[i], NULL, allocate_first, NULL))
			fail("no thread");
	for (int i = 0; i < 64; i++)
		pthread_join(threads[i], NULL);
}

static void many_errors(void)
{
	pthread_t threads[8];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], &attr, use_freed, NULL))
			fail("no thread");
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void dies(void)
{
	churn(1, 100);
	read_there((void *)16);
}

static void is_killed(void)
{
	raise(SIGSEGV);
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "threads", threads },	    { "tiny_stacks", tiny_stacks }, { "in_handlers", in_handlers },
	{ "children", children },   { "own_faults", own_faults },   { "own_stack", own_stack },
	{ "blocked", blocked },	    { "many_errors", many_errors }, { "dies", dies },
	{ "is_killed", is_killed }, { "at_once", at_once },
};

int main(int argc, char **argv)
{
	int is_known = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (argc > 1 && !strcmp(kinds[i].name, argv[1])) {
			kinds[i].run();
			is_known = 1;
		}
	if (!is_known)
		return 2;
	puts("went on");
	return 0;
}
