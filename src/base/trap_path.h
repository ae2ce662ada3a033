/* SPDX-License-Identifier: MIT */
/*
 * trap_path.h - code that runs inside SIGTRAP.
 *
 * All of it is in one section, so that a hit inside it is recognised by its address, before
 * anything is written. Else a watch on the library's own data would never end. And so that no trap
 * of Trapline is ever placed in it.
 */
#ifndef BASE_TRAP_PATH_H
#define BASE_TRAP_PATH_H

#define TRAP_PATH __attribute__((section("trap_path"), noinline))
/* A part of such a function, where a call costs as much as what it does. */
#define TRAP_PATH_PART static inline __attribute__((always_inline))

#endif
