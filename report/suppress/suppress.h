/* SPDX-License-Identifier: MIT */
/*
 * suppress.h - findings that the user does not want reported, in ThreadSanitizer's syntax.
 *
 * A suppression is one line: `race:PATTERN` (any frame of a stack, or a name),
 * `race_top:PATTERN` (the function that makes an access), `called_from_lib:PATTERN` (the library
 * that makes one). For errors of the heap these are `heap:`, `heap_top:` and `heap_from_lib:`, for
 * flows `flow:`, `flow_top:` and `flow_from_lib:`. A pattern matches anywhere in a name; `*` is
 * anything, `^` and `$` match the ends.
 *
 * A line that begins with `#` is a comment. Suppressions of other errors are ignored and counted.
 */
#ifndef REPORT_SUPPRESS_SUPPRESS_H
#define REPORT_SUPPRESS_SUPPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suppression {
	const char *file; /* where it is, as given */
	int line;
	const char *text; /* its line */
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

/* Each has rules of its own. */
enum suppress_tool {
	SUPPRESS_RACES,
	SUPPRESS_HEAP,
	SUPPRESS_FLOWS,
};

struct suppress_finding {
	enum suppress_tool tool;
	const struct suppress_stack *stacks;
	size_t stack_count;
	const char *names[2]; /* of its memory, its source, its sink; NULL: not known */
};

struct suppressions;

/* *out is released by suppressions_free(), which takes NULL. 0 or -ENOMEM. */
int suppressions_new(struct suppressions **out);
void suppressions_free(struct suppressions *s);

/*
 * Adds the suppressions of a text or a file. -EINVAL: error[] is one line, "FILE:LINE:
 * the cause"; with -errno of the file error[] is filled too.
 */
int suppressions_parse(struct suppressions *s, const char *file, const char *text, char *error,
		       size_t n);
int suppressions_read(struct suppressions *s, const char *path, char *error, size_t n);

/* suppress_known.c: the built-in suppressions. 0 or -ENOMEM. */
#define SUPPRESSIONS_KNOWN "built in"
int suppressions_add_known(struct suppressions *s);
/* Built-in suppressions are reported only if they were used. */
bool suppression_is_reported(const struct suppression *s);

size_t suppressions_count(const struct suppressions *s);
const struct suppression *suppressions_at(const struct suppressions *s, size_t i);
/* Lines that are for other errors: mutex:, deadlock:. */
size_t suppressions_passed_over(const struct suppressions *s);

/* The first that matches, its count raised; NULL: none. */
const struct suppression *suppressions_match(struct suppressions *s,
					     const struct suppress_finding *finding);

/* How much of a name stays without what compilers add: .constprop.0, .isra.1, .cold. */
size_t suppress_plain_length(const char *name);

#endif
