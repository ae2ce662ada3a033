/* SPDX-License-Identifier: MIT */
/* instruction.h - bytes of code, and which of them a breakpoint in the code may be on. */
#ifndef REPORT_DWARF_INSTRUCTION_H
#define REPORT_DWARF_INSTRUCTION_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>

#define INSTRUCTION_BYTES_MAX 15

/*
 * Where to break on a function: after its landing pad (endbr64), which the kernel would have to
 * single-step. In Go, it is behind what the function does again after its stack has grown. No
 * register or stack memory has changed there, so arguments are where they were.
 */
uint64_t code_entry(struct symbols *s, uint64_t function);

/*
 * Does the kernel emulate this instruction at a uprobe? Then a hit costs one trap, else it is
 * single-stepped out of line, which is a second trap of another kind.
 */
bool code_is_emulated(struct symbols *s, uint64_t address);

/*
 * Why the kernel would refuse a uprobe there, or execute the instruction wrongly, as a number that
 * instructions refused for one reason share; 0: nothing speaks against it. A guess.
 */
#define CODE_REFUSALS 0x201 /* numbers are below */
unsigned int code_uprobe_refusal(struct symbols *s, uint64_t address);

/*
 * Does an instruction begin at address? Decoded from the start of its function on. 1 yes, 0 no;
 * -ENOENT: no known function contains it, so it is unknown.
 */
int code_is_boundary(struct symbols *s, uint64_t function, uint64_t address);

/* The bytes of code as its file has them, or else the process. 0 or -EFAULT. */
int code_bytes(struct symbols *s, uint64_t address, void *buf, size_t n);

struct insn;
/* The instruction at address, of code that ends at end. 0 or -EILSEQ. */
int code_decode(struct symbols *s, uint64_t address, uint64_t end, struct insn *out);

/* Does the instruction begin with a lock prefix, behind others or not? */
bool code_has_lock(struct symbols *s, uint64_t address, size_t length);

/*
 * The return instructions of a function that has no data in its code, at most max. 0; -EILSEQ: some
 * of it is not an instruction; -EOPNOTSUPP: a jump leads to another function; -E2BIG.
 */
int code_returns(struct symbols *s, uint64_t function, uint64_t size, uint64_t *out, size_t max,
		 size_t *count);

#endif
