/* SPDX-License-Identifier: MIT */
/*
 * code_probe.h - a place in the own code where threads run a filter at full speed, and call who asked
 * for it when the filter lets them.
 *
 *	site:	jmp stub		in place of the first instruction
 *	stub:	the filter		machine code; "false" falls through
 *		the instruction		a copy of it, and a jump behind the original
 *	true:	push the number of the probe, call the entry, which comes back or goes to the instruction
 *
 * A thread may stand in a stub for as long as it likes, so stubs stay. One is used again when the
 * same filter comes to the same place.
 */
#ifndef CODE_PROBE_CODE_PROBE_H
#define CODE_PROBE_CODE_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/poke.h"

#define CODE_PROBES_MAX 16384u

/* What the entry looks at, by number. */
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
 * The instruction is back when it returns 0. On failure threads still come by, and find no owner; the
 * next call of either function tries again.
 */
int code_probe_close(uint32_t number, struct code_problem *problem);

/* Where the code of a probe begins. Its number is known. */
uint64_t code_probe_stub(uint32_t number);
/* What the stub does to call the entry, as a place to jump to. */
uint64_t code_probe_true(uint32_t number);

/* 1: the bytes are a probe's, or decide where its jump leads. Lock held. */
int code_probe_has(uint64_t address, size_t len);

/* 1: after the instructions at text the flags may still be read as they are. */
int code_probe_flags_are_live(const uint8_t *text, size_t available);

#endif
