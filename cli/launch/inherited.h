/* SPDX-License-Identifier: MIT */
/*
 * inherited.h - a program that is started inherits what this command inherited, and nothing else.
 *
 * Libraries open files without O_CLOEXEC, such as libdwfl the debug information of an earlier run.
 */
#ifndef CLI_LAUNCH_INHERITED_H
#define CLI_LAUNCH_INHERITED_H

/*
 * Notes open descriptors and ignored signals: at the start, before this command changes any. Standard
 * input, output and error that are closed stay so for a program that is started. Here they fail.
 */
void inherited_note(void);
/* In the child, before exec: all others are closed by it, and these signals are ignored again. */
void inherited_only(void);

#endif
