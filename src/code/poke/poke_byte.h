/* SPDX-License-Identifier: MIT */
/* poke_byte.h - one byte of many instructions, without a sync: see poke_byte.c. */
#ifndef CODE_POKE_POKE_BYTE_H
#define CODE_POKE_POKE_BYTE_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/poke.h"

/*
 * Change the byte at n sorted addresses. Other threads see that at some time, each on its own.
 * -EAGAIN: an ordinary poke must do it. -EBUSY: one byte is neither old nor new, and all are as
 * before.
 */
int poke_byte(const uint64_t *addresses, size_t n, uint8_t old, uint8_t new,
	      struct code_problem *problem);

#endif
