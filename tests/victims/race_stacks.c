/* SPDX-License-Identifier: MIT */
/*
 * race_stacks.c - how much of a thread's stack is taken by who interrupts it:
 *
 *	used SECONDS		threads race with room enough; the bytes taken below them are printed
 *	room BYTES SECONDS	threads race with that many bytes left, and a page below that kills.
 *				Behind that page is memory that can be read, as another thread's stack
 *				would be.
 *	guests BYTES SECONDS	the same, and signals with a handler of their own come all the time
 *	signal 0		prints the bytes that the kernel takes for a signal
 *	first SECONDS		as used, and the first thread too, deeper in its stack than ever before
 *
 * Ends early by SIGTERM. Exit status 0: nothing was disturbed.
 */
#include "race_common.h"

#include <alloca.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define BELOW_BYTES (64u << 10)
#define PAGE 4096u
#define THREADS 4
#define UNTOUCHED 0xa5

struct own_stack {
	char *memory; /* below, a page, the stack */
	char *bottom;
	uintptr_t racing_at; /* stack pointer */
};

static struct own_stack stacks[THREADS];
static size_t room; /* 0: all of it */
static long shared_word;
static int is_over; /* atomic */
static long guests; /* atomic */

static void on_term(int number)
{
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
}

static void on_guest(int number)
{
	char filled[512];

	__asm__ volatile("" : : "r"(filled) : "memory");
	__atomic_add_fetch(&guests, 1, __ATOMIC_RELAXED);
}

#define RED_ZONE_BYTES 128

static void print_frame(int number, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;

	printf("%lu\n", (unsigned long)interrupted->uc_mcontext.gregs[REG_RSP] - RED_ZONE_BYTES -
				((unsigned long)context - sizeof(void *)));
}

static int print_signal(void)
{
	struct sigaction action = { .sa_sigaction = print_frame, .sa_flags = SA_SIGINFO };

	return sigaction(SIGUSR2, &action, NULL) || raise(SIGUSR2);
}

static NOINLINE void increment(void)
{
	shared_word++;
}

static NOINLINE void race_here(struct own_stack *stack)
{
	stack->racing_at = (uintptr_t)__builtin_frame_address(0);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		for (int i = 0; i < ROUND; i++)
			increment();
}

static void *race_in_little_room(void *arg)
{
	struct own_stack *stack = arg;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t wanted = (uintptr_t)stack->bottom + room;

	if (room && here > wanted + PAGE) {
		volatile char *filled = alloca(here - wanted);
		filled[0] = 0;
	}
	race_here(stack);
	return NULL;
}

static int start(pthread_t *thread, struct own_stack *stack)
{
	pthread_attr_t attr;

	stack->memory = mmap(NULL, BELOW_BYTES + PAGE + STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack->memory == MAP_FAILED)
		return -1;
	memset(stack->memory, UNTOUCHED, BELOW_BYTES + PAGE + STACK_BYTES);
	stack->bottom = stack->memory + BELOW_BYTES + PAGE;
	if (mprotect(stack->bottom - PAGE, PAGE, PROT_NONE))
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack->bottom, STACK_BYTES);
	return pthread_create(thread, &attr, race_in_little_room, stack);
}

static size_t bytes_used(const struct own_stack *stack)
{
	const char *lowest = stack->bottom;

	while ((unsigned char)*lowest == UNTOUCHED)
		lowest++;
	return stack->racing_at - (uintptr_t)lowest;
}

/* Until the time is over. */
static void wait_for_end(const pthread_t *threads, int is_guests)
{
	while (is_running() && !__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		nanosleep(&(struct timespec){ 0, is_guests ? 300000 : 10000000 }, NULL);
		for (int i = 0; is_guests && i < THREADS; i++)
			pthread_kill(threads[i], SIGUSR1);
	}
}

static void race_deep(double seconds)
{
	struct own_stack stack;
	volatile char *filled = alloca(1u << 20);

	filled[0] = 0;
	signal(SIGALRM, on_term);
	double whole = floor(seconds);
	struct itimerval timer = { .it_value = { (time_t)whole,
						 (suseconds_t)((seconds - whole) * 1e6) } };
	setitimer(ITIMER_REAL, &timer, NULL);
	race_here(&stack);
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term };
	pthread_t threads[THREADS];
	size_t most = 0;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "signal"))
		return print_signal();
	int is_guests = strcmp(argv[1], "guests") == 0;
	room = argc > 3 ? (size_t)atol(argv[2]) : 0;
	end_ns = now_ns() + (uint64_t)(atof(argv[argc - 1]) * 1e9);
	sigaction(SIGTERM, &term, NULL);
	signal(SIGUSR1, on_guest);
	for (int i = 0; i < THREADS; i++)
		if (start(&threads[i], &stacks[i]))
			return 1;
	if (!strcmp(argv[1], "first"))
		race_deep(atof(argv[2]));
	wait_for_end(threads, is_guests);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		size_t used = bytes_used(&stacks[i]);
		most = used > most ? used : most;
	}
	printf("%zu bytes\n", most);
	return shared_word == 0 || (is_guests && !guests);
}
