/* SPDX-License-Identifier: MIT */
/* race_modules.h - the object that an address belongs to, and whether its code is searched. */
#ifndef RACE_MODULES_H
#define RACE_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "code/insn/insn.h"
#include "code/unwind/unwind_index.h"

enum race_policy {
	RACE_CODE_INCLUDED,
	RACE_CODE_EXCLUDED, /* a runtime, or no object at all */
	RACE_CODE_LIBC,	    /* excluded except for its memory functions */
};

struct race_module {
	uint64_t key; /* 0: free row */
	uint32_t ready;
	uint32_t policy;       /* enum race_policy */
	uint32_t has_own_code; /* the library's, beside that of others perhaps */
	uint64_t start;
	uint64_t end;
	uint64_t text_start;
	uint64_t text_end;
	const uint8_t *code; /* text, as it is without the int3 of sites */
	uint64_t data_start; /* writable */
	uint64_t data_end;
	uint64_t bias;
	uint64_t dynamic;     /* 0: none */
	uint64_t relro_start; /* written by the loader alone */
	uint64_t relro_end;
	const struct unwind_index *eh_frame; /* or NULL */
	uint64_t file;			     /* row in the region; 0: none */
};

struct race_function {
	uint64_t start;
	uint64_t end;
	uint8_t access; /* which of its accesses are exact: enum race_access */
	uint8_t compares;
};
#define RACE_FUNCTIONS 96

/* Copies by the kernel, so that it cannot fault. 1: all of it. */
int race_copy(uint64_t address, void *to, size_t n);
extern char race_program_path[496];
extern struct race_function race_functions[RACE_FUNCTIONS];
extern int race_function_count;
/* NULL: no object, or one that there is no room for. */
const struct race_module *race_module_of(uint64_t address);
uint64_t race_place_of(uint64_t address);
/* The same for an address in the module, which may be NULL. */
uint64_t race_place_in(const struct race_module *module, uint64_t address);
/* The library is linked into the module, and this is part of it: never stalled nor reported. */
int race_is_own_code(const struct race_module *module, uint64_t pc);
/* The region is a new one: its table of files is empty. */
void race_modules_forget(void);
/* Remember that a location, of code or of a global variable, has to do with locked instructions. */
void race_note_atomic(uint64_t place);
/* May code there be the first of a pair? What it does alone decides. */
enum race_policy race_policy_of(uint64_t pc, const struct race_module **module);

/* The code that a thread has trapped in. It is looked up once, and handed on. */
struct race_code {
	const struct race_module *module; /* NULL: no object */
	enum race_policy policy;
	uint64_t place;
	unsigned int allowed; /* which accesses count there: enum race_access */
};
void race_code_at(uint64_t pc, struct race_code *out);

/* What counts of a libc function: 0 nothing, RACE_WRITE its writes, RACE_READ_WRITE all. */
unsigned int race_block_access(uint64_t pc);
/*
 * memcmp() of less than a vector reads a whole one: as many bytes of it count as it was given. 1:
 * cut.
 */
int race_block_clip(uint64_t pc, const struct insn_regs *regs, uint64_t address, uint32_t *size);
/* Keep a copy of the text, before traps are put into it. Not in a handler. */
int race_module_keep_code(const struct race_module *module);

/*
 * The copy of text at an address, and how many bytes there are from there on; NULL: the text was
 * not copied.
 */
const uint8_t *race_kept_code(uint64_t address, uint64_t *bytes);

/* The instructions at pc, which lies in the text of the module. */
static inline const void *race_code(const struct race_module *m, uint64_t pc)
{
	return m->code + (pc - m->text_start);
}

#endif
