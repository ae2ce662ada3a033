/* SPDX-License-Identifier: MIT */
/*
 * inject_call.h - the system call that a thread is stopped in continues afterwards as if it had not
 * been interrupted.
 *
 * The kernel itself continues most calls, for the time that is left. Some end with EINTR at each
 * stop, such as epoll_wait(2). These begin again, with a timeout that is shorter by the time
 * that they have taken. And some end with a part of what they have to transfer, such as write(2),
 * which nothing can undo: a thread in one of these is left alone.
 */
#ifndef INJECT_CALL_H
#define INJECT_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum call_kind {
	CALL_CONTINUES, /* or the thread is in none */
	CALL_IS_TIMED,	/* by a timeout that only its beginning gives a meaning */
	CALL_TRANSFERS, /* a part may be done */
};

/* Where a thread was just before it was stopped. */
struct call_look {
	enum call_kind kind;
	long number; /* -1: it was in no call */
	uint64_t arguments[6];
	uint64_t since_ns;    /* it sleeps since then; 0: not known */
	uint64_t deadline_ns; /* it is in a call that began again, until then; 0: it is not */
};

enum call_kind call_kind_of(pid_t pid, pid_t tid);
void call_look(pid_t pid, pid_t tid, struct call_look *look);
/* Its stack pointer; false: it runs. */
bool call_stack(pid_t pid, pid_t tid, uint64_t *sp);

/* The timeout of a call that is to begin again. */
struct call_timeout {
	const struct call_timed *call; /* NULL: none */
	uint64_t deadline_ns;	       /* 0: it waits without end */
	int fd;			       /* a copy of its socket; -1: none */
	int option;		       /* that has the timeout there */
	int64_t timeout[2];	       /* that of the program: a struct timeval */
	char sleeps[24];	       /* how often it has slept, before it was resumed */
};

/*
 * Changes the registers of the stopped thread so that an interrupted call begins again. A handler
 * that is called first still makes it end with EINTR.
 */
void call_repair(pid_t pid, const struct call_look *look, struct user_regs_struct *regs,
		 struct call_timeout *t);
/* Takes the time for which the thread was stopped from the timeout. */
void call_resume(pid_t pid, pid_t tid, struct user_regs_struct *regs, struct call_timeout *t);
/* The thread was resumed: waits until the call has begun, and restores the socket's own timeout. */
void call_resumed(pid_t pid, pid_t tid, struct call_timeout *t);

#endif
