/* SPDX-License-Identifier: MIT */
/* source.h - what the source text states of an access, where it can be read. */
#ifndef REPORT_CODE_SOURCE_H
#define REPORT_CODE_SOURCE_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum source_says {
	SOURCE_UNKNOWN, /* no line, or its file cannot be read */
	SOURCE_PLAIN,
	SOURCE_ATOMIC,
};

/*
 * The text of the statement that line (from 1) is part of, with a #pragma before it and without
 * comments, to be freed; NULL: there is no such line. The stream is read on from where it is.
 */
char *source_statement_in(FILE *stream, int line);

/* Does it name something atomic or volatile? NULL: that is unknown. */
enum source_says source_statement_says(const char *statement);

/* Is a macro used there that the stream defines as something atomic? */
bool source_uses_atomic_macro(FILE *stream, const char *statement);

/*
 * Might the access be made by a macro? For a call whose arguments name something this is not known
 * from the text.
 */
bool source_may_hide_access(const char *statement);

/* The next name in the text, of n characters; NULL: none. */
const char *source_next_name(const char *text, size_t *n);

/* What a statement stores, as far as it is known without the rest of the language. */
struct source_store {
	bool is_assignment; /* =, +=, ++ and the like, and no assembler */
	bool is_constant;   /* what is assigned is a number or a word in capitals */
	char name[64];	    /* the variable or the member; empty: not seen */
};
void source_store_in(const char *statement, struct source_store *out);

/*
 * source_statement_says() of the code at an address. The file is looked for where it was compiled
 * and, if the tree has been moved since, by the end of its name in the folders above the object.
 */
enum source_says source_says(struct symbols *s, uint64_t address, int line);
/*
 * The source by its name in a report: where it was compiled, or in the folders above the object,
 * which may be NULL.
 */
FILE *source_open(const char *object, const char *file);
/* Its text, to be freed; NULL: SOURCE_UNKNOWN. */
char *source_statement(struct symbols *s, uint64_t address, int line);

#endif
