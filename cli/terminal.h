/* SPDX-License-Identifier: MIT */
/* terminal.h - what a terminal can show, and text that is broken into lines for it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#define TERMINAL_COLUMNS 90

/* It is a terminal with colours, and NO_COLOR is not set. */
bool terminal_has_color(int fd);

/* It is a terminal on which a line can be replaced. */
bool terminal_has_status(int fd);

/* A status line is on standard error, or no longer: a message removes it first. */
void terminal_set_status(bool is_shown);
void terminal_clear_status(void);

/*
 * Prints text from the column `indent` on, where the cursor is. Lines are broken at blanks before
 * column TERMINAL_COLUMNS; further lines begin at `indent`.
 */
void terminal_wrap(FILE *f, const char *text, int indent);

/*
 * Prints lines, with what is too long broken and indented. A line that is one word and a colon,
 * such as `options:`, is a heading, and bold where there is colour; so is a leading `usage:`.
 */
void terminal_print(FILE *f, const char *text, bool has_color);

#endif
