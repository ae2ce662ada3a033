/* SPDX-License-Identifier: MIT */
/*
 * at_state.h - the registers and the stack of a stopped thread, printed so that two runs can be
 * compared.
 */
#ifndef AT_STATE_H
#define AT_STATE_H

#include "cli/at/at_regs.h"
#include "cli/at/at_step.h"
#include "report/dwarf/symbols.h"

#include <stdbool.h>
#include <stdio.h>

struct at_state {
	uint64_t count;	     /* of occurrences; 0: not counted */
	const char *counter; /* NULL: none */
	uint64_t value;	     /* of that */
	bool has_steps;
	struct at_steps steps;		 /* made before the registers are read */
	uint64_t regs[AT_REGISTERS_MAX]; /* by DWARF number; the last is the pc */
};

/*
 * Steps a thread that is stopped, where steps are wanted, and reads its registers; it stays
 * stopped. 0 or -errno; when it ended while being stepped there are no registers.
 */
int at_state_read(pid_t pid, pid_t tid, struct at_state *out);

void at_state_json(FILE *f, struct symbols *s, const struct at_state *state, bool with_stack);
void at_state_text(FILE *f, struct symbols *s, const struct at_state *state, const char *location,
		   bool with_stack);

#endif
