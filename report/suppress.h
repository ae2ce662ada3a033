/* SPDX-License-Identifier: MIT */
/*
 * suppress.h - which reports the user does not want, in the two syntaxes that people already have.
 *
 * ThreadSanitizer's, a line each: `race:PATTERN` (any frame of either stack, or the variable),
 * `race_top:PATTERN` (the function that makes an access), `called_from_lib:PATTERN` (a library that
 * makes one). A pattern matches anywhere in a name; `*` is anything, `^` and `$` hold on to the ends.
 *
 * Valgrind's, a block each: a name, Tool:Kind, then one line a frame from the innermost on: `fun:`,
 * `obj:`, `src:` with `*` and `?`, which match whole names, or `...` for any number of frames.
 *
 * Both may stand in one file, with `#` comments. What belongs to other errors is passed over and counted.
 */
#ifndef REPORT_SUPPRESS_H
#define REPORT_SUPPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suppression {
	const char *file; /* where it stands, as given */
	int line;
	const char *text; /* its line, or the name of its block */
	uint64_t matches; /* records that it kept from being reported */
};

/* Strings may be NULL: not known. */
struct suppress_frame {
	const char *function; /* as a reader knows it */
	const char *symbol;   /* as the file has it, mangled */
	const char *source;
	int line;
	const char *module; /* no folders */
	const char *path;   /* of the module */
	bool is_inlined;    /* the next frame is the function that it was put into */
};

struct suppress_stack {
	const struct suppress_frame *frames; /* innermost first */
	size_t count;
	size_t top; /* which frame makes the access: its caller's, for a memory function */
};

struct suppress_race {
	struct suppress_stack stacks[2];
	const char *variable; /* NULL: not known */
};

struct suppressions;

/* *out is released by suppressions_free(), which takes NULL. 0 or -ENOMEM. */
int suppressions_new(struct suppressions **out);
void suppressions_free(struct suppressions *s);

/*
 * Add what stands in a text or a file. -EINVAL: error[] is one line, "FILE:LINE: what is wrong";
 * -errno of the file: error[] tells too.
 */
int suppressions_parse(struct suppressions *s, const char *file, const char *text, char *error,
		       size_t n);
int suppressions_read(struct suppressions *s, const char *path, char *error, size_t n);

/* suppress_known.c: what ships with the command. 0 or -ENOMEM. */
#define SUPPRESSIONS_KNOWN "built in"
int suppressions_add_known(struct suppressions *s);
/* Nobody wants to hear of one that ships and was not used. */
bool suppression_is_told(const struct suppression *s);

size_t suppressions_count(const struct suppressions *s);
const struct suppression *suppressions_at(const struct suppressions *s, size_t i);
/* Lines and blocks that are for other errors: mutex:, Memcheck:Leak. */
size_t suppressions_passed_over(const struct suppressions *s);

/* The first that matches, its count raised; NULL: none. */
const struct suppression *suppressions_match(struct suppressions *s,
					     const struct suppress_race *race);

/* How much of a name stays without what compilers add: .constprop.0, .isra.1, .cold. */
size_t suppress_plain_length(const char *name);

#endif
