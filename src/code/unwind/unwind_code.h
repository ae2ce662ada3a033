/* SPDX-License-Identifier: MIT */
/*
 * unwind_code.h - what the unwind tables of this process state about code. Not AS-Safe: the
 * unwinder of the C library finds the table.
 */
#ifndef CODE_UNWIND_UNWIND_CODE_H
#define CODE_UNWIND_UNWIND_CODE_H

#include <stdint.h>

/* The end of the function that begins at an address; 0: not known. */
uint64_t unwind_function_end(uint64_t address);

/*
 * 1: at pc, the return address lies on the stack, above the stack pointer. 0: a register has it, or
 * the table does not state where it is.
 */
int unwind_return_is_on_stack(uint64_t pc);

#endif
