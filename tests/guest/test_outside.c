/* SPDX-License-Identifier: MIT */
/*
 * test_outside.c - a thread that is in our code, or returns to it, is found; others are not.
 *
 * Our code is an executable page without a file, as a jump's or a window's is: call_from() calls a function from
 * there. TAP.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "guest/outside.h"

/* The test itself is not ours (own_code.h). */
__asm__(".pushsection trapline_own, \"a\"\n.long 0, 0\n.popsection\n"
	".pushsection trap_path, \"ax\"\nnop\n.popsection\n");

#define SHORT_NS 100000000ull
#define LONG_NS 20000000000ull

static uint8_t *page;
static uint32_t is_there;
static uint32_t may_go;
static volatile uint64_t work;
static int count;

static void say(int ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++count, name);
}

static void make_page(void)
{
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof(code)); /* push rbp; mov rsp, rbp; call *rdi; pop rbp; ret */
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static void call_from(void (*function)(void))
{
	void (*call)(void (*)(void));

	memcpy(&call, &page, sizeof(call));
	call(function);
}

static void wait_asleep(void)
{
	const struct timespec step = { 0, 1000000 };

	atomic_set(&is_there, 1u);
	while (!atomic_get(&may_go))
		nanosleep(&step, NULL);
}

static void wait_running(void)
{
	atomic_set(&is_there, 1u);
	while (!atomic_get(&may_go))
		work++;
}

static void on_signal(int sig)
{
	(void)sig;
	wait_asleep();
}

static void interrupt_self(void)
{
	raise(SIGUSR1);
}

static void asleep_inside(void)
{
	call_from(wait_asleep);
}

static void running_inside(void)
{
	call_from(wait_running);
}

static void interrupted_inside(void)
{
	call_from(interrupt_self);
}

static void *run(void *arg)
{
	void (*body)(void) = NULL;
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&stack, NULL);
	memcpy(&body, arg, sizeof(body));
	body();
	return NULL;
}

/* While a thread is there, and when it has gone on. */
static void look(void (*body)(void), int is_inside, const char *name)
{
	pthread_t thread;

	atomic_set(&is_there, 0u);
	atomic_set(&may_go, 0u);
	pthread_create(&thread, NULL, run, &body);
	while (!atomic_get(&is_there))
		usleep(1000);
	int err = outside_wait(is_inside ? SHORT_NS : LONG_NS);
	say(err == (is_inside ? -ETIMEDOUT : 0), name);
	atomic_set(&may_go, 1u);
	pthread_join(thread, NULL);
	say(outside_wait(LONG_NS) == 0, "and_not_when_it_has_left");
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	printf("1..10\n");
	make_page();
	sigaction(SIGUSR1, &action, NULL);
	look(wait_asleep, 0, "a_thread_that_sleeps_elsewhere_is_outside");
	look(wait_running, 0, "a_thread_that_runs_elsewhere_is_outside");
	look(asleep_inside, 1, "a_thread_that_sleeps_below_our_frame_is_inside");
	look(running_inside, 1, "a_thread_that_runs_below_our_frame_is_inside");
	look(interrupted_inside, 1, "a_handler_on_another_stack_does_not_hide_our_frame");
	return 0;
}
