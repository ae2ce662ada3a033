/* SPDX-License-Identifier: MIT */
/*
 * own_thread.h - a thread of Trapline in a program that is not Trapline's.
 *
 * Signals of the program are for its own threads. A daemon that takes SIGTRAP or SIGSEGV by
 * sigwait(3) has it blocked in all of them, and the kernel would give it to the one thread that has
 * not. So a thread of Trapline blocks all but the two that libc sends to all threads: setuid(2)
 * waits until each thread has taken it.
 *
 * A breakpoint kills where SIGTRAP is blocked, and Trapline's may be in any function that is
 * called, such as memcpy(). So such a thread sleeps by system calls of its own (base/sys.h), and
 * what it does between is inside own_thread_opens() and own_thread_shuts().
 */
#ifndef GUEST_OWN_THREAD_H
#define GUEST_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

typedef int (*own_thread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Asks the loader what libc needs of a thread's stack. Once, where its lock may be taken. */
void own_thread_prepare(void);

/* To be joined, by libc's pthread_create() and with its usual stack. 0 or -errno. */
int own_thread_start_joinable(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Detached. stack_bytes are for run; the program's thread-local variables come on top. create is
 * libc's. 0 or -errno.
 */
int own_thread_start(own_thread_create create, size_t stack_bytes, void *(*run)(void *), void *arg);

/*
 * The thread whose thread-local storage the calling thread has: itself. In the loader of an attach
 * it is the thread that the loader was made from. That thread waits for it in no function of libc,
 * and has another table of descriptors.
 */
pid_t own_thread_lender(void);

/* First in run: its name, by which it is known from outside (base/own_thread_name.h). */
void own_thread_begins(void);
void own_thread_rests(void);

/*
 * SIGTRAP is open, if it has a handler or gets Trapline's in the meantime. One that was sent is
 * sent again by own_thread_shuts().
 */
void own_thread_opens(void);
/*
 * The same for code of the program or its patch: of what instructions raise, all that has a handler
 * is open.
 */
void own_thread_opens_to_code(void);
void own_thread_shuts(void);

#endif
