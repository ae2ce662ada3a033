/* SPDX-License-Identifier: MIT */
/*
 * break_loaded.h - the files that a process has loaded since the last look, and what they have.
 *
 * To read the names of a whole process takes long, and its thread is stalled in the meantime. So
 * each file is searched once, when it is new.
 */
#ifndef CLI_BREAK_BREAK_LOADED_H
#define CLI_BREAK_BREAK_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct break_loaded {
	uint64_t *known; /* files that were searched */
	size_t count;
	size_t room;
};

/* True: a new file has LOCATION, or only the process itself shows whether it does. */
bool break_loaded_may_have(struct break_loaded *l, pid_t pid, const char *location);
void break_loaded_free(struct break_loaded *l);

#endif
