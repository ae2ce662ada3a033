/* SPDX-License-Identifier: MIT */
/* race_functions.h - the addresses of libc's memory functions, and the stack of its threads. */
#ifndef RACE_FUNCTIONS_H
#define RACE_FUNCTIONS_H

#include <pthread.h>
#include <stddef.h>

void race_functions_prepare(void);
/* What libc needs of a thread's stack, for the thread's own variables above all; 0: not known. */
size_t race_least_stack(const pthread_attr_t *attr);

#endif
