/* SPDX-License-Identifier: MIT */
/*
 * waits.c - calls that wait with another signal mask. A handler that runs during the wait
 * has that mask too, and an int3 in it, with SIGTRAP blocked, would kill the program.
 */
#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "guest/signals.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int sigsuspend(const sigset_t *mask)
{
	static int (*next)(const sigset_t *);
	sigset_t changed;

	if (!next)
		next = (int (*)(const sigset_t *))dlsym(RTLD_NEXT, "sigsuspend");
	return next(signals_to_kernel(mask, &changed));
}

EXPORTED int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		   const sigset_t *mask)
{
	static int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	sigset_t changed;

	if (!next)
		next = (int (*)(struct pollfd *, nfds_t, const struct timespec *,
				const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
	return next(fds, n, timeout, signals_to_kernel(mask, &changed));
}

EXPORTED int pselect(int n, fd_set *reads, fd_set *writes, fd_set *others,
		     const struct timespec *timeout, const sigset_t *mask)
{
	static int (*next)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
			   const sigset_t *);
	sigset_t changed;

	if (!next)
		next = (int (*)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
				const sigset_t *))dlsym(RTLD_NEXT, "pselect");
	return next(n, reads, writes, others, timeout, signals_to_kernel(mask, &changed));
}

EXPORTED int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout,
			 const sigset_t *mask)
{
	static int (*next)(int, struct epoll_event *, int, int, const sigset_t *);
	sigset_t changed;

	if (!next)
		next = (int (*)(int, struct epoll_event *, int, int,
				const sigset_t *))dlsym(RTLD_NEXT, "epoll_pwait");
	return next(fd, events, n, timeout, signals_to_kernel(mask, &changed));
}

EXPORTED int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout,
			  const sigset_t *mask)
{
	static int (*next)(int, struct epoll_event *, int, const struct timespec *,
			   const sigset_t *);
	sigset_t changed;

	if (!next)
		next = (int (*)(int, struct epoll_event *, int, const struct timespec *,
				const sigset_t *))dlsym(RTLD_NEXT, "epoll_pwait2");
	return next(fd, events, n, timeout, signals_to_kernel(mask, &changed));
}
