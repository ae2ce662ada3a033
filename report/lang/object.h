/* SPDX-License-Identifier: MIT */
/*
 * object.h - a whole value as people read it: structs, enums with variants, strings, slices.
 *
 * Some bytes of a value may not be known: its parts are in registers of which a hit has not all.
 */
#ifndef REPORT_LANG_OBJECT_H
#define REPORT_LANG_OBJECT_H

#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"

#define OBJECT_BYTES_MAX 192

/* Why a byte is not known. Below OBJECT_VECTOR + 16: the number of a vector register. */
enum object_state {
	OBJECT_KNOWN,
	OBJECT_GONE,
	OBJECT_UNREADABLE,
	OBJECT_VECTOR,
};

/* Text that a register pointed to at the hit. */
struct object_capture {
	uint64_t offset; /* of the pointer in the value */
	const char *text;
};

#define OBJECT_CAPTURES_MAX 4

struct object {
	struct symbols *s;
	uint64_t address; /* of the first byte; 0: not known, or in registers */
	/* What a hit has of memory beside the value itself. */
	struct object_capture capture[OBJECT_CAPTURES_MAX];
	size_t captures;
	uint8_t bytes[OBJECT_BYTES_MAX];
	uint8_t state[OBJECT_BYTES_MAX];
};

/* A pointer to a string, a map or the like: what it leads to is a part of the text. */
bool object_shows_target(const struct type *t);

void object_text(struct object *o, const struct type *t, char *buf, size_t n);
/* What a pointer leads to, of which object_shows_target() is true. Empty: NULL. */
void object_target_text(struct object *o, const struct type *t, char *buf, size_t n);

#endif
