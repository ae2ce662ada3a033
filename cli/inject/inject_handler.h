/* SPDX-License-Identifier: MIT */
/* inject_handler.h - see inject_handler.c. */
#ifndef INJECT_HANDLER_H
#define INJECT_HANDLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * 1: the thread is in a handler, and has none of the signals blocked when that returns. 0: it is
 * not. -EAGAIN: it runs, which shows nothing.
 */
int handler_opens(pid_t pid, pid_t tid, uint64_t signals);
/* The same of a thread that is still with this stack pointer. */
bool handler_opens_at(pid_t pid, uint64_t stack, uint64_t signals);

#endif
