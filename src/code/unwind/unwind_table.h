/* SPDX-License-Identifier: MIT */
/*
 * unwind_table.h - .eh_frame and the tables of exception handlers: entries, their programs, landing
 * pads.
 *
 * A reader continues from an address, byte by byte. What cannot be read, or what no
 * compiler writes, makes is_wrong true; then all that it gives is 0. AS-Safe: no lock and no
 * allocation.
 */
#ifndef CODE_UNWIND_UNWIND_TABLE_H
#define CODE_UNWIND_UNWIND_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define UNWIND_OMITTED 0xff	    /* DW_EH_PE_omit */
#define UNWIND_PC_RELATIVE_INT 0x1b /* what compilers of x86-64 write: pcrel | sdata4 */

/* Where the bytes are copied from. */
struct unwind_source {
	/* Copies up to n bytes; how many, 0: there is nothing. */
	size_t (*copy)(void *arg, uint64_t address, void *to, size_t n);
	void *arg;
	void *room; /* has what was copied last, for a reader that goes back */
	uint32_t room_bytes;
};

struct unwind_reader {
	const struct unwind_source *source; /* NULL: the memory itself, which is there */
	const uint8_t *at;
	const uint8_t *end;
	uint64_t limit;	  /* address that is not read any more */
	uint64_t room_at; /* address of what is in the room */
	uint32_t room_used;
	int is_wrong;
};

/* source: NULL, or it outlives the reader. */
void unwind_open(struct unwind_reader *r, const struct unwind_source *source);
void unwind_seek(struct unwind_reader *r, uint64_t address, uint64_t limit);
uint64_t unwind_position(const struct unwind_reader *r);
uint64_t unwind_number(struct unwind_reader *r, unsigned int bytes);
uint64_t unwind_uleb(struct unwind_reader *r);
int64_t unwind_sleb(struct unwind_reader *r);
/* data: what a pointer relative to the table's own data counts from. */
uint64_t unwind_pointer(struct unwind_reader *r, uint8_t encoding, uint64_t data);

/* What entries share (a CIE). */
struct unwind_common {
	uint64_t at; /* 0: not read */
	uint64_t code_factor;
	int64_t data_factor;
	uint64_t return_register;
	uint64_t program; /* ... to end */
	uint64_t end;
	uint8_t version;
	uint8_t pointer;  /* encoding of the range */
	uint8_t handlers; /* encoding of the address of the table of handlers */
	uint8_t has_data; /* augmentation data, with its length */
	uint8_t is_plain; /* its augmentation has pointers alone: not the frame of a signal */
};

/* The code of one function, or of a part of it (an FDE). */
struct unwind_entry {
	uint64_t at;
	uint64_t end;	 /* of the entry */
	uint64_t common; /* address of its CIE; 0: it is one itself */
	uint64_t place;	 /* behind that */
	/* by unwind_read_entry(): */
	uint64_t start; /* of the code */
	uint64_t bytes;
	uint64_t handlers; /* table of them; 0: none */
	uint64_t program;
};

/* The length of an entry and its CIE. 0; -ENOENT: the end of the table; -EILSEQ. */
int unwind_read_head(struct unwind_reader *r, uint64_t at, struct unwind_entry *out);
/* 0 or -EILSEQ. Nothing is read again if *out has that one. */
int unwind_read_common(struct unwind_reader *r, uint64_t at, struct unwind_common *out);
int unwind_read_entry(struct unwind_reader *r, const struct unwind_common *common,
		      struct unwind_entry *e);

/* DW_CFA_*; of the first three the operand is in the same byte. */
enum unwind_op {
	UNWIND_ADVANCE = 0x40, /* those with an operand behind them, too */
	UNWIND_OFFSET = 0x80,  /* OFFSET_EXTENDED and its signed form, too */
	UNWIND_RESTORE = 0xc0, /* RESTORE_EXTENDED, too */
	UNWIND_NOP = 0x00,
	UNWIND_UNDEFINED = 0x07,
	UNWIND_SAME_VALUE = 0x08,
	UNWIND_REGISTER = 0x09,
	UNWIND_REMEMBER = 0x0a,
	UNWIND_RESTORE_STATE = 0x0b,
	UNWIND_DEF_CFA = 0x0c,
	UNWIND_DEF_CFA_REGISTER = 0x0d,
	UNWIND_DEF_CFA_OFFSET = 0x0e,
	UNWIND_DEF_CFA_EXPRESSION = 0x0f,
	UNWIND_EXPRESSION = 0x10,
	UNWIND_VALUE_OFFSET = 0x14,
	UNWIND_VALUE_EXPRESSION = 0x16,
	UNWIND_ARGS_SIZE = 0x2e,
};

struct unwind_step {
	enum unwind_op op;
	uint64_t reg;
	int64_t number; /* bytes, with the factor */
	uint64_t block; /* of an expression ... */
	uint64_t block_end;
};

/* 1: the next instruction of a program; 0: the end of it, or one that is not known. */
int unwind_next(struct unwind_reader *r, const struct unwind_common *common,
		struct unwind_step *out);

/*
 * Calls a function for each landing pad of the code that begins at start, until it returns an
 * error. 0, -EILSEQ or that error.
 */
int unwind_each_handler(struct unwind_reader *r, uint64_t table, uint64_t start,
			int (*each)(void *arg, uint64_t address), void *arg);

#endif
