/* SPDX-License-Identifier: MIT */
/* race_calls.h - calls of the memory functions of libc. */
#ifndef RACE_CALLS_H
#define RACE_CALLS_H

#include <stdint.h>

#include "base/table_size.h"
#include "code/insn/insn.h"

struct race_module;

enum race_call {
	RACE_CALL_NONE,
	RACE_CALL_COPY,	     /* (to, from, bytes) */
	RACE_CALL_FILL,	     /* (to, value, bytes) */
	RACE_CALL_STRING,    /* (to, from), one byte at least */
	RACE_CALL_PRINT,     /* (to, ...), one byte at least */
	RACE_CALL_PRINT_N,   /* (to, bytes, ...), one byte if there is room */
	RACE_CALL_APPEND,    /* (to, ...): behind the string that is there */
	RACE_CALL_LENGTH,    /* (from): all of a string, with its end */
	RACE_CALL_COMPARE,   /* (from, from), one byte at least */
	RACE_CALL_COMPARE_N, /* (from, from, bytes), one byte if there are any */
	RACE_CALL_FIRST,     /* (from): one byte at least */
	RACE_CALL_OUT,	     /* (descriptor, from, bytes) */
	RACE_CALL_OUT_OF,    /* (from, size, count) */
};

/* A function can have two slots. */
#define RACE_CALL_SLOTS TABLE_SIZE(96, 1)

struct race_calls {
	uint32_t count;
	struct {
		uint64_t slot; /* of the linkage table */
		enum race_call kind;
	} rows[RACE_CALL_SLOTS];
};

#define RACE_IMPORTS_MAX TABLE_SIZE(4096u, 2u)

/* Addresses of functions that a module calls by name, for race_imports_find(). */
struct race_imports {
	uint32_t count;
	uint64_t address[RACE_IMPORTS_MAX];
};

/* Not in a handler. */
void race_calls_find(const struct race_module *module, struct race_calls *out);
/* The functions, wherever they are, that a module calls by name. Not in a handler. */
uint32_t race_imports_find(const struct race_module *module, uint64_t *out, uint32_t max);
enum race_call race_call_of(const struct race_calls *calls, const struct race_module *m,
			    const struct insn *insn, uint64_t pc);

#endif
