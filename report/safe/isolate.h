/* SPDX-License-Identifier: MIT */
/*
 * isolate.h - runs a function in a process of its own, without privileges and for a limited time.
 *
 * For code of other projects that reads what a target wrote: when it crashes or does not end, its
 * answer is missing, and the command continues.
 */
#ifndef REPORT_SAFE_ISOLATE_H
#define REPORT_SAFE_ISOLATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Calls fn(arg, answer) in a copy of this process, and copies the n bytes of its answer back; n is
 * at most 4096. The copy does not have the user of this process. Of its descriptors it has those of
 * regular files that are open to be read only. 0; -ETIMEDOUT: it had 2 seconds of a processor, or
 * 20 seconds, and did not end; -ECHILD: it crashed; another -errno: there was no copy. The answer
 * stays untouched on failure.
 */
int isolate(void (*fn)(void *arg, void *answer), void *arg, void *answer, size_t n);

/*
 * In a child of this process: gives up its rights and its handlers of signals, and ends with its
 * parent. It has this much more memory than now and this many seconds of a processor; UINT64_MAX:
 * no limit. It exits where that is not possible.
 */
void isolate_enter(uint64_t bytes, uint64_t cpu_seconds);

#endif
