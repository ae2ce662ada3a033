/* SPDX-License-Identifier: MIT */
/* patched.h - see patched.c. */
#ifndef VICTIMS_PATCHED_H
#define VICTIMS_PATCHED_H

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noipa))
#endif

int more(int x);
int answer(int x);
int first_half(void);
int second_half(void);
int twice(int x);
int sleeper(int x);
int chosen(int x);

#endif
