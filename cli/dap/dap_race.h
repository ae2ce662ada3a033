/* SPDX-License-Identifier: MIT */
/*
 * dap_race.h - races that a command of the console finds, for the client. Each is a group of lines,
 * of which two lead to the two locations, and an event traplineRace, which clients turn into
 * diagnostics.
 */
#ifndef CLI_DAP_DAP_RACE_H
#define CLI_DAP_DAP_RACE_H

#include "cli/dap/dap.h"

/* The JSON lines of `trapline race`, as they come out of a pipe. */
struct dap_races {
	char *text; /* of a line that is not whole yet */
	size_t count;
	size_t room;
	bool is_skipping; /* the rest of a line that is too long */
};

void dap_race_read(struct dap *d, struct dap_races *r, const char *bytes, size_t n);
void dap_race_free(struct dap_races *r);

#endif
