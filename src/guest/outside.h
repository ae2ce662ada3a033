/* SPDX-License-Identifier: MIT */
/*
 * outside.h - whether a thread of the program can still be in what is Trapline's, so that its
 * memory can go.
 */
#ifndef GUEST_OUTSIDE_H
#define GUEST_OUTSIDE_H

#include <stdint.h>

#define OUTSIDE_MOST_NS 2000000000ull /* what a command may wait for it longer than before */

/*
 * In a thread of Trapline, when nothing leads into Trapline's code any more. 0: since then each
 * thread of the program has been seen outside of Trapline's code, and on no stack has it a frame
 * that returns there. -ETIMEDOUT: one was not, or could not be inspected. -errno: /proc cannot be
 * read.
 */
int outside_wait(uint64_t most_ns);

#endif
