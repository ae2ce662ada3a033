/* SPDX-License-Identifier: MIT */
/*
 * copied_code.h - threads that are in code of Trapline, and where the program itself is in the
 * meantime.
 */
#ifndef REPORT_CODE_COPIED_CODE_H
#define REPORT_CODE_COPIED_CODE_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>

/*
 * pc is in a copy of instructions, which ends with a jump behind the originals: where it would be
 * without the copy. code: n bytes from pc on. 0: it is not such a copy.
 */
uint64_t copied_code_origin(const uint8_t *code, size_t n, uint64_t pc);

/*
 * At the first instruction of a function: the registers become those behind the call. stack: from
 * sp on. false: it is too short, or the architecture has the address elsewhere.
 */
bool copied_code_called(const uint8_t *stack, size_t length, uint64_t *regs);

/*
 * The stack of a thread that is in a signal handler of Trapline, with its registers by DWARF
 * number: they become those of the interrupted code. frames: as they were unwound. false: none of
 * them returns from a signal of Trapline.
 */
bool copied_code_interrupted(struct symbols *s, const uint64_t *frames, size_t count,
			     const uint8_t *stack, size_t length, uint64_t *regs);

#endif
