/* SPDX-License-Identifier: MIT */
/* text_byte.h - what lies in the program's text, asked inside SIGTRAP. */
#ifndef BASE_TEXT_BYTE_H
#define BASE_TEXT_BYTE_H

#include <stdint.h>

/*
 * The byte at an address that the thread has just run, or the one before or after it; -1: nothing
 * can be read there. AS-Safe.
 */
int text_byte(uint64_t address);

/* From now on without a system call: a seccomp filter may kill for it. */
void text_byte_make_no_calls(void);

#endif
