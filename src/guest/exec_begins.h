/* SPDX-License-Identifier: MIT */
/* exec_begins.h - a tool sees what a program gets that the process starts or becomes. */
#ifndef GUEST_EXEC_BEGINS_H
#define GUEST_EXEC_BEGINS_H

#include <stdint.h>

struct exec_call {
	const char *name;
	const void *function; /* of libc, which is called next */
	const void *back;     /* where Trapline's function before it returns to */
	char *const *argv;    /* NULL: the tool sees them in the function of libc */
	char *const *envp;
	int becomes; /* the process itself becomes the program */
};

/*
 * NULL: none wants it. In the thread, perhaps in a window, or in a child that shares the memory of
 * its parent. Leaves errno alone.
 */
extern void (*exec_begins)(const struct exec_call *call);

#define EXEC_BEGINS(name, function, argv, envp, becomes)                                     \
	do {                                                                                 \
		void (*const begins)(const struct exec_call *) =                             \
			__atomic_load_n(&exec_begins, __ATOMIC_ACQUIRE);                     \
                                                                                             \
		if (begins)                                                                  \
			begins(&(struct exec_call){ name, (const void *)(function),          \
						    __builtin_return_address(0), argv, envp, \
						    becomes });                              \
	} while (0)

#endif
