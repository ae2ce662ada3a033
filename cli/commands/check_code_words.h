/* SPDX-License-Identifier: MIT */
/* check_code_words.h - a function that returns 1 or 2, by its first instruction. */
#ifndef CLI_COMMANDS_CHECK_CODE_WORDS_H
#define CLI_COMMANDS_CHECK_CODE_WORDS_H

#include <stdint.h>

#if defined(__x86_64__)

#define WORDS_CHANGED 5 /* mov $n, %eax */
static const uint8_t words_of[2][6] = {
	{ 0xb8, 2, 0, 0, 0, 0xc3 },
	{ 0xb8, 1, 0, 0, 0, 0xc3 },
};

#elif defined(__aarch64__)

#define WORDS_CHANGED 4 /* mov w0, #n */
static const uint8_t words_of[2][8] = {
	{ 0x40, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6 },
	{ 0x20, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6 },
};

#endif

#endif
