/* SPDX-License-Identifier: MIT */
/* own_thread.c - see own_thread.h. */
#include "guest/own_thread.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/sys.h"

#define BIT(signal) (1ull << ((signal)-1))
#define OF_INSTRUCTIONS (BIT(SIGTRAP) | BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE))
#define OF_LIBC (BIT(32) | BIT(33))

typedef size_t (*least_stack)(const pthread_attr_t *);

/* glibc's own name for it, which language runtimes use as well (glibc bug 11787). */
static least_stack least;

void own_thread_prepare(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		return;
	atomic_set(&least, (least_stack)dlsym(libc, "__pthread_get_minstack"));
	dlclose(libc);
}

static int create_masked(own_thread_create create, pthread_t *thread, const pthread_attr_t *attr,
			 void *(*run)(void *), void *arg)
{
	const uint64_t mask = ~(OF_INSTRUCTIONS | OF_LIBC);
	uint64_t before;

	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, sizeof(mask));
	int err = create(thread, attr, run, arg);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return err;
}

int own_thread_start_joinable(pthread_t *thread, void *(*run)(void *), void *arg)
{
	return -create_masked(pthread_create, thread, NULL, run, arg);
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
