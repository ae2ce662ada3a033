/* SPDX-License-Identifier: MIT */
/*
 * general_regs.h - included first: all functions of the file leave the vector registers alone.
 *
 * A thread that comes from a probe is asked for its condition before those are saved, which costs
 * more than the question. Where the compiler cannot promise it, they are saved first.
 */
#ifndef BASE_GENERAL_REGS_H
#define BASE_GENERAL_REGS_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("general-regs-only")
#define GENERAL_REGS_ONLY 1
#else
#define GENERAL_REGS_ONLY 0
#endif

#endif
