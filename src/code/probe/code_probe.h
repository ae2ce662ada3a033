/* SPDX-License-Identifier: MIT */
/*
 * code_probe.h - a location in the own code where threads run a filter at full speed. They call the
 * owner when the filter accepts them.
 *
 *	site:	jmp stub		in place of the first instruction
 *	stub:	the filter		machine code; "false" falls through
 *		the instruction		a copy of it, and a jump behind the original
 *	true:	push the number of the probe, call the entry
 *		which comes back or goes to the instruction
 *
 * A thread may be in a stub for as long as it likes, so stubs stay. One is used again when the same
 * filter reaches the same location.
 */
#ifndef CODE_PROBE_CODE_PROBE_H
#define CODE_PROBE_CODE_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/poke.h"
#include "code/poke/poke_view.h"

#define CODE_PROBES_MAX 16384u

/* What the entry inspects, by number. */
struct code_probe {
	uint64_t address;
	uint64_t resume; /* the copy of the instruction */
	void *owner;	 /* NULL: the event is closed */
	uint32_t generation;
};
extern struct code_probe code_probes[CODE_PROBES_MAX];

/* Machine code that leaves all registers alone; see cond/native.h. length 0: always true. */
struct code_filter {
	const uint8_t *bytes;
	uint32_t length;
	uint32_t true_at;
	/*
	 * If it is not NULL there are no bytes: the code is a jump to where this word leads. That
	 * is the copy of the instruction at first.
	 */
	uint64_t *through;
	/*
	 * If there is no other way, the jump's landing may lie where the heap would grow in a
	 * while.
	 */
	int may_crowd;
};

/*
 * Put a probe at address, where an instruction begins. *number is its row in code_probes. entry is
 * called with the number pushed below the red zone. From then on threads come by.
 *
 * 0; -ENOSPC or -EOPNOTSUPP: a jump cannot be had there, but a trap may; errors as poke_commit().
 */
int code_probe_open(uint64_t address, const struct code_filter *filter, void (*entry)(void),
		    void *owner, uint32_t generation, uint32_t *number,
		    struct code_problem *problem);

/*
 * The instruction is back when it returns 0. On failure threads still come by, and find no owner;
 * the next call of either function tries again.
 */
int code_probe_close(uint32_t number, struct code_problem *problem);

/* One of many that are put into the code at once. */
struct code_probe_wish {
	uint64_t address;
	void *owner;
	const char *why;
	uint32_t number; /* if error is 0 */
	int error;	 /* as code_probe_open() returns it */
};

/*
 * As code_probe_open() with generation 0, but the text changes once for all. Where single stores
 * are not promised, an int3 is at each address for as long as one change takes. A location that
 * cannot have a jump is left out, with its error. The jumps are not there for windows, which see
 * what was there before. 0, or -errno and none is placed.
 */
int code_probe_open_many(struct code_probe_wish *wishes, size_t n, void (*entry)(void),
			 struct code_problem *problem);
/* Closes the probes without an error. 0, or -errno as code_probe_close(). */
int code_probe_close_many(const struct code_probe_wish *wishes, size_t n,
			  struct code_problem *problem);

/* The text of a jump that windows do not see. A thread that reads a row finds it whole. */
#define CODE_PROBES_HIDDEN 1024u
struct code_probe_text {
	uint64_t address;
	uint32_t len;
	uint8_t before[SITE_MAX];
	uint8_t after[SITE_MAX];
};
extern struct code_probe_text code_probe_texts[CODE_PROBES_HIDDEN];
extern uint32_t code_probe_text_count;
/* In n bytes that were read at pc, puts back what was there before such jumps. */
void code_probe_read_under(uint64_t pc, uint8_t *text, unsigned int n);

/* Where the code of a probe begins. Its number is known. */
uint64_t code_probe_stub(uint32_t number);
/* What the stub does to call the entry, as a location to jump to. */
uint64_t code_probe_true(uint32_t number);

/* 1: after the instructions at text the flags may still be read as they are. */
int code_probe_flags_are_live(const uint8_t *text, size_t available);

#endif
