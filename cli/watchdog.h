/* SPDX-License-Identifier: MIT */
/*
 * watchdog.h - a command that was asked to end does so, even inside code that reads a target's data.
 *
 * The loops of the commands look whether a signal came. Debug information that was made for it keeps
 * libdw busy for hours, and the loop is not reached. The command ends then as if it were killed: what
 * it had written stays, and the target continues.
 */
#ifndef CLI_WATCHDOG_H
#define CLI_WATCHDOG_H

#include <stdint.h>

/* Installs it; command is the name for the message. */
void watchdog_start(const char *command);

/* The number of lines that were printed, such as hits: what is said when the rest is cut off. */
void watchdog_printed(const uint64_t *count, const char *what);

/*
 * Call this in the handler of a signal that asks for the end. Without progress the command ends 5
 * seconds after the first signal, and 1 second after the second. It keeps errno.
 */
void watchdog_asked(void);

/* The run ends after ns, 0: never. Without progress the command ends 10 seconds later. */
void watchdog_time(uint64_t ns);

#endif
