/* SPDX-License-Identifier: MIT */
/* heap_signals.h - what the files of the program heap_signals share. */
#ifndef HEAP_SIGNALS_H
#define HEAP_SIGNALS_H

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

extern int failed;
extern const char *self; /* the file of the program */
extern volatile int entered;

#define CHECK(what)                                                      \
	do {                                                             \
		if (!(what)) {                                           \
			printf("wrong: line %d: %s\n", __LINE__, #what); \
			failed = 1;                                      \
		}                                                        \
	} while (0)

/* A use after free, which natively does nothing. */
unsigned read_freed(void);
/* Reads a byte of a block, or beside it. */
unsigned beside(size_t bytes, long at);
int is_blocked(int signal);
void change(int how, int signal);
void block_all(void);
void act(int signal, void (*handler)(int, siginfo_t *, void *), int flags);
/* A handler that counts. */
void on_any(int signal, siginfo_t *info, void *context);

/* The new program: what it got, as its exit status. */
int show(void);
void start_handlers(void);
void start_ignored(void);
void start_blocked(void);
void start_failed(void);

#endif
