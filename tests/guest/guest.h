/* SPDX-License-Identifier: MIT */
/*
 * guest.h - a program that behaves in one way again and again, and checks itself.
 *
 * PROGRAM BEHAVIOUR CONTROL: it repeats the round of that behaviour until the file CONTROL says stop. A round
 * that sees anything else than without Trapline ends the program with status 1 and one line. The right end is
 * the line "ok". Two threads work all the while: they call step(), allocate, read and write a counter, so that
 * each tool has something to observe.
 *
 * CONTROL is shared memory, not a descriptor: some behaviours close all of theirs, or leave their root.
 */
#ifndef TESTS_GUEST_H
#define TESTS_GUEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* matrix.py knows these offsets. */
struct control {
	volatile uint32_t stop; /* the round that runs is the last one */
	volatile uint32_t hold; /* wait between two rounds */
	volatile uint32_t held; /* so it does */
	volatile uint32_t pid;
	volatile uint32_t rounds;
	volatile uint32_t entered; /* for what must happen once in the whole life */
	char wrong[232];
};

enum {
	ALONE = 1, /* no threads that work */
	LEADERLESS = 2, /* the first thread ends at once */
	OWN_PROCESS = 4, /* the round is not for a process that others share */
};

struct behaviour {
	const char *name;
	/* NULL: right. Else what is wrong. arg is of this row. */
	const char *(*round)(long arg);
	long arg;
	int flags;
	/* Before any thread is there. 0, or the exit status: 77 is that this machine cannot. */
	int (*prepare)(long arg);
	/* How it ends, after the line "ok": for those that do not return from main(). */
	void (*last)(long arg);
};

extern const struct behaviour behaviours[]; /* the last one has no name */
extern struct control *control;
extern volatile long counter;

long step(long x);
void work(void);
/* Text for a round to return; the first one is kept. */
const char *wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* After a second or so the machine is not just slow. */
#define PATIENCE 20
double now(void);

#define EXPECT(condition, ...)                                                                      \
	do {                                                                                        \
		if (!(condition))                                                                   \
			return wrong(__VA_ARGS__);                                                  \
	} while (0)

#define EXPECT_THREAD(call)                                                                         \
	do {                                                                                        \
		const int expect_error = (call);                                                    \
		EXPECT(!expect_error, "cannot create a thread: %s", strerror(expect_error));        \
	} while (0)

#ifdef __cplusplus
}
#endif
#endif
