/* SPDX-License-Identifier: MIT */
/*
 * watchdog.h - a command that was asked to end does so, even inside code that reads a target's
 * data.
 *
 * The loops of the commands look whether a signal came. Debug information that was made for it
 * keeps libdw busy for hours, and the loop is not reached. The command ends then as if it were
 * killed: what it had written stays, and the target continues.
 */
#ifndef CLI_WATCHDOG_H
#define CLI_WATCHDOG_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Signals that asked for the end since watchdog_start(). */
extern volatile sig_atomic_t asked_by; /* the last one; 0: none */
extern volatile sig_atomic_t asked_times;
extern volatile sig_atomic_t asked_interrupts; /* how many of them were Ctrl-C */

/* The number of lines that were printed, such as hits: what is stated when the rest is cut off. */
void watchdog_printed(const uint64_t *count, const char *what);

/*
 * SIGINT, SIGTERM and SIGHUP, and with_quit also SIGQUIT, ask for the end from now on. Without
 * progress the command ends 5 seconds after the first one, and 1 second after the second. Its name
 * is for the message.
 */
void watchdog_start(const char *command, bool with_quit);

/* The run ends after ns, 0: never. Without progress the command ends 10 seconds later. */
void watchdog_time(uint64_t ns);

/*
 * Passes the last signal on to a process, and forgets it. The terminal sends its signals to all
 * processes in its foreground, so these need not be passed on. Returns its number; 0: there was
 * none.
 */
int watchdog_forward(pid_t pid);

#endif
