/* SPDX-License-Identifier: MIT */
/*
 * late_trap.h - SIGTRAP of a process that runs already is Trapline's for a while, and the program
 * does not notice.
 *
 * The program's calls reach Trapline in the meantime, by jumps of the caller's. A handler that the
 * program installs is recorded, and does not replace Trapline's.
 */
#ifndef GUEST_LATE_TRAP_H
#define GUEST_LATE_TRAP_H

#include <signal.h>
#include <stdbool.h>

#include "guest/signals.h"

/* What sigaction(2) of the program does, for every signal; next is that of libc. */
int late_trap_action(signals_set_action next, int signal, const struct sigaction *action,
		     struct sigaction *old);

/*
 * As signals_take_marked() and trap_install(): the calls reach Trapline already. keeps_open:
 * SIGTRAP stays open where the program blocks it, with its marker instead, which the command
 * changes back at the end. 0 or -errno.
 */
int late_trap_take(int (*end)(void), bool keeps_open);
/*
 * A thread of the program may have been in sigaction(2) then: waits until none is. In a thread of
 * Trapline, which is open.
 */
void late_trap_look_again(void);
/*
 * Nothing of Trapline raises SIGTRAP any more: it is blocked as the program asks, and what it reads
 * stays right.
 */
void late_trap_rest(void);
/*
 * Then: until the command has blocked SIGTRAP again where a marker is, or has ended. In a thread of
 * Trapline.
 */
void late_trap_wait_for_masks(void);
/*
 * An action of the program that is not the default one is the kernel's again, and so are the calls
 * until late_trap_end(). No trap of Trapline can come any more. As for late_trap_look_again().
 */
void late_trap_give_back(signals_set_action next);
/* The calls lead to libc alone. */
void late_trap_end(void);

#endif
