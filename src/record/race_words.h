/* SPDX-License-Identifier: MIT */
/*
 * race_words.h - a race in words: the members of its JSON object, and what the record states in
 * them.
 *
 * The library prints these members. trapline prints the same ones (report/finding/finding_json.h),
 * which a test compares, and knows more of them. What the library does not know stays null.
 */
#ifndef RECORD_RACE_WORDS_H
#define RECORD_RACE_WORDS_H

#include "record/race_judge.h"
#include "record/race_region.h"

enum race_value_kind {
	RACE_VALUE_NULL,
	RACE_VALUE_TEXT,    /* of at most `most` bytes */
	RACE_VALUE_NUMBER,  /* above INT64_MAX, where JSON's integers end, it is written as HEX */
	RACE_VALUE_SIGNED,  /* number is an int64_t */
	RACE_VALUE_HEX,	    /* a text with 0x */
	RACE_VALUE_BOOLEAN, /* number */
	RACE_VALUE_SIDE,    /* an object with the members of a side */
	RACE_VALUE_STACK,   /* an array of the frames of a side */
};

struct race_value {
	enum race_value_kind kind;
	uint32_t most;
	union {
		const char *text;
		uint64_t number;
		const void *part; /* the struct race_side */
	};
};

/* The members in their order; their names are in the lists below. */
struct race_words {
	struct race_value type, kind, grade, fingerprint, count, pid, time_ns, first, second,
		address, size, variable, memory, block, old, new, stalled_ns, why, varied;
};

struct race_side_words {
	struct race_value access, locked, tid, thread, time_ns, function, module, module_path, file,
		line, via, stack, ip, decoded, build_id, line_in_function;
};

struct race_frame_words {
	struct race_value ip, function, offset, module, module_offset, file, line;
};

#define RACE_WORDS(words) (sizeof(words) / sizeof(struct race_value))
extern const char *const race_names[RACE_WORDS(struct race_words)];
extern const char *const race_side_names[RACE_WORDS(struct race_side_words)];
extern const char *const race_frame_names[RACE_WORDS(struct race_frame_words)];

/* All members that the record itself gives; the others are null. */
struct race_words race_words(const struct race_record *record, struct race_judgement judgement);
struct race_side_words race_side_words(const struct race_side *side);

/* text: NULL gives null. It ends after `most` bytes, or before. */
static inline struct race_value race_value_text(const char *text, uint32_t most)
{
	return (struct race_value){ .kind = text ? RACE_VALUE_TEXT : RACE_VALUE_NULL,
				    .most = most,
				    .text = text };
}

static inline struct race_value race_value_number(uint64_t number)
{
	return (struct race_value){ .kind = RACE_VALUE_NUMBER, .number = number };
}

static inline struct race_value race_value_signed(int64_t number)
{
	return (struct race_value){ .kind = RACE_VALUE_SIGNED, .number = (uint64_t)number };
}

static inline struct race_value race_value_hex(uint64_t number)
{
	return (struct race_value){ .kind = RACE_VALUE_HEX, .number = number };
}

/* "read", "write", "read-modify-write" or "unknown". */
const char *race_access_name(unsigned int access);
/* The same, but "locked read-modify-write" for a locked instruction. */
const char *race_side_access_name(const struct race_side *side);
/* "heap", "stack" and so on, by enum race_memory. */
const char *race_memory_name(uint32_t memory);
/* "write-write", "read-write" (in either order) or "unknown-origin". */
const char *race_kind(const struct race_record *record);
/* enum race_step in words: why a process cannot be searched. */
const char *race_step_name(uint32_t step);

#endif
