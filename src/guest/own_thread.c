/* SPDX-License-Identifier: MIT */
/* own_thread.c - see own_thread.h. */
#include "guest/own_thread.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/atomic.h"
#include "base/own_thread_name.h"
#include "base/signal_bit.h"
#include "base/sys.h"
#include "trap/foreign.h"

#define OF_LIBC (SIGNAL_BIT(32) | SIGNAL_BIT(33))
#define OF_OTHERS (~OF_LIBC)

typedef size_t (*least_stack)(const pthread_attr_t *);

typedef int (*set_mask_of)(pthread_attr_t *, const sigset_t *);

/* glibc's own name for it, which language runtimes use as well (glibc bug 11787). */
static least_stack least;
static set_mask_of set_mask;

void own_thread_prepare(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		return;
	atomic_set(&least, (least_stack)dlsym(libc, "__pthread_get_minstack"));
	atomic_set(&set_mask, (set_mask_of)dlsym(libc, "pthread_attr_setsigmask_np"));
	dlclose(libc);
}

static void block_others(void)
{
	const uint64_t mask = OF_OTHERS;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
}

/*
 * The mask of the new thread alone: in functions that this one calls in the meantime there may be
 * breakpoints of Trapline. Before glibc 2.32 it has that of this thread until it begins: what
 * instructions raise is as it was here.
 */
static int create_masked(own_thread_create create, pthread_t *thread, pthread_attr_t *attr,
			 void *(*run)(void *), void *arg)
{
	const set_mask_of set = atomic_get(&set_mask);
	uint64_t mask = OF_OTHERS;
	uint64_t before;
	sigset_t all;

	sigemptyset(&all);
	memcpy(&all, &mask, sizeof(mask));
	if (set && !set(attr, &all))
		return create(thread, attr, run, arg);
	mask &= ~SIGNALS_OF_INSTRUCTIONS;
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before, sizeof(mask));
	int err = create(thread, attr, run, arg);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return err;
}

int own_thread_start_joinable(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;

	own_thread_prepare();
	int err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = create_masked(pthread_create, thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

int own_thread_start(own_thread_create create, size_t stack_bytes, void *(*run)(void *), void *arg)
{
	least_stack bytes_of = atomic_get(&least);
	pthread_attr_t attr;
	pthread_t thread;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_attr_setstacksize(&attr, stack_bytes + (bytes_of ? bytes_of(&attr) : 0));
	if (!err)
		err = create_masked(create, &thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

/* The clock of a thread has its number. */
pid_t own_thread_lender(void)
{
	clockid_t clock;

	return pthread_getcpuclockid(pthread_self(), &clock) ? sys_gettid() : (pid_t) ~(clock >> 3);
}

void own_thread_begins(void)
{
	block_others();
	sys2(SYS_prctl, PR_SET_NAME, OWN_THREAD_WORKS);
}

void own_thread_rests(void)
{
	sys2(SYS_prctl, PR_SET_NAME, OWN_THREAD_RESTS);
}

/* As the kernel has it: without, a signal of an instruction ends the program, blocked or not. */
static int has_handler(int signal)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} now;

	return !sys4(SYS_rt_sigaction, signal, NULL, &now, sizeof(now.mask)) &&
	       now.handler != SIG_DFL && now.handler != SIG_IGN;
}

static void open_if_handled(int signal)
{
	const uint64_t bit = SIGNAL_BIT(signal);

	if (has_handler(signal))
		sys4(SYS_rt_sigprocmask, SIG_UNBLOCK, &bit, NULL, sizeof(bit));
}

void own_thread_opens(void)
{
	foreign_keep_sent(1);
	open_if_handled(SIGTRAP);
}

void own_thread_opens_to_code(void)
{
	static const int of_instructions[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };

	own_thread_opens();
	for (size_t i = 0; i < sizeof(of_instructions) / sizeof(of_instructions[0]); i++)
		open_if_handled(of_instructions[i]);
}

void own_thread_shuts(void)
{
	block_others();
	foreign_keep_sent(0);
}
