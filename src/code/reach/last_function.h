/* SPDX-License-Identifier: MIT */
/*
 * last_function.h - names of imported functions that never return: those that libc and the runtimes
 * of C++ have. What follows a call of one need not be code. Not for handlers.
 */
#ifndef CODE_LAST_FUNCTION_H
#define CODE_LAST_FUNCTION_H

int last_function_is(const char *name);

#endif
