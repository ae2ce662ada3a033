/* SPDX-License-Identifier: MIT */
/*
 * own_thread.h - a thread of ours in a program that is not ours.
 *
 * Signals of the program are for its own threads. What an instruction raises comes through, and so do the
 * two signals that libc sends to all threads: setuid(2) waits until each thread has taken it.
 */
#ifndef GUEST_OWN_THREAD_H
#define GUEST_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>

typedef int (*own_thread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Asks the loader what libc needs of a thread's stack. Once, where its lock may be taken. */
void own_thread_prepare(void);

/* To be joined, by libc's pthread_create() and with its usual stack. 0 or -errno. */
int own_thread_start_joinable(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Detached. stack_bytes are for run; the program's thread-local variables come on top. create is libc's. 0 or
 * -errno.
 */
int own_thread_start(own_thread_create create, size_t stack_bytes, void *(*run)(void *), void *arg);

#endif
