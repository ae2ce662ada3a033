/* SPDX-License-Identifier: MIT */
/* message.h - one line for the user on stderr, and the exit status that belongs to it. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <stdbool.h>

/* The exit status of each command. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1,    /* the answer is no, or something failed during the run */
	CLI_USAGE = 2, /* wrong input: one line states what is wrong and how to correct it */
};

/* Prints `trapline watch: ...`. It returns CLI_USAGE, so that the caller can return it. */
int cli_wrong(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Until it is called with false, cli_wrong() keeps its line instead of printing it. With is_told
 * the line is printed then, else it is dropped.
 */
void cli_keep_wrong(bool keeps, bool is_told);

/* Prints a note: it is worth knowing, and is not an error. */
void cli_note(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A function gets these lines from now on, without the command's name. NULL: stderr gets them
 * again.
 */
typedef void (*cli_listener)(void *arg, bool is_note, const char *line);
void cli_set_listener(cli_listener to, void *arg);

#endif
