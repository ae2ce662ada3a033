/* SPDX-License-Identifier: MIT */
/*
 * own_text.h - where the library's own code is, in any object that it was linked into. The build
 * includes this before each of its files, one row for each.
 *
 * A program that has the library inside must not be searched or stopped in the very code that does
 * it. The assembler puts subsection 0 of .text first and 8191 last, no matter what the compiler's
 * order is.
 */
#ifndef BASE_OWN_TEXT_H
#define BASE_OWN_TEXT_H

#ifdef __x86_64__
__asm__(".text 0\n"
	".Ltrapline_own_start:\n"
	".text 8191\n"
	".Ltrapline_own_end:\n"
	".text 0\n"
	".pushsection trapline_own, \"a\", @progbits\n"
	".balign 4\n"
	".long .Ltrapline_own_start - .\n"
	".long .Ltrapline_own_end - .\n"
	".popsection\n");
#endif

#endif
