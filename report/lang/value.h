/* SPDX-License-Identifier: MIT */
/*
 * value.h - bytes of the target as people and programs read them, by their type.
 *
 * A hit has at most 8 bytes: a whole variable or a part of it. A view is the watched variable, and
 * a part is a range of its bytes. The target of a pointer is read when it is printed, so it may
 * have changed since the hit.
 */
#ifndef REPORT_LANG_VALUE_H
#define REPORT_LANG_VALUE_H

#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"

#include <jansson.h>

struct value_view {
	const struct type *type;
	uint32_t bit_offset; /* of a bit-field in its first byte */
	uint32_t bit_size;   /* 0: no bit-field */
};

struct value_part {
	uint64_t offset; /* in the view */
	uint32_t len;	 /* 1 to 8 */
	bool old_known;
	bool new_known;
	uint64_t old_value; /* zero-extended, in the machine's byte order */
	uint64_t new_value;
};

/*
 * `OPEN -> CLOSED`, or for a part of several members `.low 1 -> 2, .high 0`: those that changed
 * as a change. is_read: equal values are one.
 */
void value_change(struct symbols *s, const struct value_view *v, const struct value_part *p,
		  bool is_read, char *buf, size_t n);

/* The old or the new value: a JSON number, string, boolean, or object or array of those. */
json_t *value_json(struct symbols *s, const struct value_view *v, const struct value_part *p,
		   bool is_new);

/* One value of a scalar type. */
void value_number_text(struct symbols *s, const struct type *t, uint64_t value, char *buf,
		       size_t n);
/* A number of 9 to 16 bytes: long double as a number, others as their bits. */
void value_wide_text(const struct type *t, const uint64_t words[2], char *buf, size_t n);
json_t *value_number_json(struct symbols *s, const struct type *t, uint64_t value);

/* The first `shown` bytes of text in double quotes. False: it does not look like text. */
bool value_quote(const char *text, size_t len, size_t shown, char *buf, size_t n);

/* A pointer to text, when the text was read before: `0x5581c0 "text"`. */
void value_string_text(uint64_t pointer, const char *text, char *buf, size_t n);

/*
 * The scalars in a range of a type, each with its path (`.pos.x`, `[3]`). Arrays of char are one.
 * A leaf that is not whole in the range has type NULL. Not 0 from visit ends and is returned.
 */
struct value_leaf {
	const char *path;
	const struct type *type;
	uint64_t offset;
	uint64_t len;
	uint32_t bit_offset;
	uint32_t bit_size;
};
typedef int (*value_visitor)(const struct value_leaf *leaf, void *arg);
int value_leaves(const struct type *t, uint64_t offset, uint64_t len, value_visitor visit,
		 void *arg);

#endif
