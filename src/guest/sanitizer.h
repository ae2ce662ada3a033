/* SPDX-License-Identifier: MIT */
/*
 * sanitizer.h - a program that has the run-time of a sanitizer, which has handlers and blocks of
 * its own.
 */
#ifndef GUEST_SANITIZER_H
#define GUEST_SANITIZER_H

/* The library is one of these, by its name in the loader's list. */
int sanitizer_has_name(const char *object);

/* 1: this process has one as a library. From the first code of the program on; calls nothing. */
int sanitizer_is_loaded(void);

/* The same, and one that is linked into the program: nothing of Trapline runs there. */
int sanitizer_is_here(void);

#endif
