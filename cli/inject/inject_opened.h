/* SPDX-License-Identifier: MIT */
/*
 * inject_opened.h - SIGTRAP is open in all threads of a running process while a tool's events raise
 * it there.
 *
 * A thread that has it blocked gets the marker instead (base/marker.h), and does not notice. The
 * agent does the same to what the program blocks in the meantime. At the end it is blocked again
 * where a marker is.
 */
#ifndef CLI_INJECT_INJECT_OPENED_H
#define CLI_INJECT_INJECT_OPENED_H

#include "cli/inject/inject.h"

struct inject_opened {
	struct inject_masked *threads;
	size_t count;
};

/* Before the agent is called. */
void inject_opened_find(struct inject_opened *o, pid_t pid);
/* Once the agent handles SIGTRAP there. */
void inject_opened_begin(struct inject_opened *o, pid_t pid);
/* Nothing raises it any more: until the agent's thread has left. */
void inject_opened_end(struct inject_opened *o, pid_t pid);
void inject_opened_free(struct inject_opened *o);

#endif
