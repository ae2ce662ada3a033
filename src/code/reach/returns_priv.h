/* SPDX-License-Identifier: MIT */
/* returns_priv.h - what the files of returns_find() share. */
#ifndef CODE_REACH_RETURNS_PRIV_H
#define CODE_REACH_RETURNS_PRIV_H

#include "code/insn/insn.h"
#include "code/reach/returns.h"

#define RETURNS_HISTORY 16
#define RETURNS_TABLE_MAX 4096u

struct returns_step {
	uint64_t address;
	struct insn insn;
	uint8_t bytes[INSN_LENGTH_MAX];
};

/* The instructions before one, in the order of their execution: the newest is the last. */
struct returns_history {
	struct returns_step step[RETURNS_HISTORY];
	size_t count;
	int is_whole; /* from the first instruction of the function on */
};

/* The targets of a jump by a table, such as that of a switch. */
struct returns_table {
	uint64_t address;
	uint64_t base; /* added to each entry */
	uint32_t entry_bytes;
	uint32_t count;
};

enum returns_jump {
	RETURNS_JUMP_UNKNOWN,
	RETURNS_JUMP_TABLE,
	RETURNS_JUMP_CALL, /* as the last act, through a pointer */
};

/* What an indirect jump that follows the history is; the table is filled for one only. */
enum returns_jump returns_jump_kind(const struct returns_code *code,
				    const struct returns_history *before,
				    const struct returns_step *jump, struct returns_table *table);
/* 0 or -errno. */
int returns_table_entry(const struct returns_code *code, const struct returns_table *table,
			uint32_t i, uint64_t *target);

/* Each landing pad of a range. 0 or -errno; that of `each` too. */
int returns_each_handler(const struct returns_code *code, const struct returns_range *range,
			 int (*each)(void *arg, uint64_t address), void *arg);

#endif
