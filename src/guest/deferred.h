/* SPDX-License-Identifier: MIT */
/*
 * deferred.h - a signal that was sent to the program waits until a tool has ended.
 *
 * The program has it blocked, and takes it by itself. The tool cannot end in a handler: its
 * instructions have to go first, because a thread with SIGTRAP blocked dies of one.
 */
#ifndef GUEST_DEFERRED_H
#define GUEST_DEFERRED_H

#include <signal.h>

/* As in the kernel, the second one of a kind is merged with the first. In the handler. AS-Safe. */
void deferred_keep(const siginfo_t *info);
/* Sends them again, each to whom it was sent. Not in a handler. */
void deferred_send(void);
/* The calling thread has opened that signal: the same of what is for it. */
void deferred_send_open(int signal);
/* 1: one waits that is for the calling thread, or for any. AS-Safe. */
int deferred_has(int signal);

#endif
