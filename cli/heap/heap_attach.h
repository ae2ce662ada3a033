/* SPDX-License-Identifier: MIT */
/* heap_attach.h - `trapline heap -p`: the detector comes into a process that runs, and goes. */
#ifndef HEAP_ATTACH_H
#define HEAP_ATTACH_H

#include "cli/heap/heap_settings.h"
#include "cli/inject/inject.h"
#include "cli/launch/agent_start.h"
#include "record/heap_region.h"

#include <stdbool.h>
#include <stdio.h>

struct heap_attach {
	struct inject_masked *unblocked; /* threads that had SIGSEGV blocked */
	size_t unblocked_count;
	int lock_fd;   /* the process notices when it is closed; -1: none */
	bool has_left; /* the process stated that nothing is sampled any more */
};

/* The memory becomes the process's. 0 when blocks are sampled; or an exit status, line printed. */
int heap_attach(struct heap_attach *attach, const struct agent_region *memory,
		const struct heap_cli_settings *set);
/* Ends it there. A process that is stopped does it when it continues. */
void heap_attach_end(struct heap_attach *attach, struct heap_region *region, pid_t pid);
/* What stays there. */
void heap_attach_summary(const struct heap_attach *attach, const struct heap_region *region,
			 FILE *f);

#endif
