/* SPDX-License-Identifier: MIT */
/*
 * search_out.h - where the report of a search (race, heap, flow) goes: standard error as text,
 * standard output as JSON, or a file.
 *
 * The program writes on the same terminal, or into the same file, at any time. So each report
 * leaves with one write(2): what the program writes is before a report or behind it, never inside.
 */
#ifndef CLI_SEARCH_SEARCH_OUT_H
#define CLI_SEARCH_SEARCH_OUT_H

#include <stdbool.h>
#include <stdio.h>

struct search_out {
	FILE *f;
	const char *name; /* for messages */
	char *room;	  /* a whole report; NULL: standard output, which has its own */
	bool is_terminal;
	int err; /* errno of the first write that failed; 0: none */
};

/*
 * path: NULL means standard error for text, and standard output for other forms. 0 or an exit
 * status, line printed.
 */
int search_out_open(struct search_out *o, const char *command, const char *path, bool is_text);
/*
 * After each report, and before a message of the command itself. 0, or the errno of the first
 * failure.
 */
int search_out_flush(struct search_out *o);
void search_out_close(struct search_out *o);

#endif
