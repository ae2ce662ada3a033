/* SPDX-License-Identifier: MIT */
/*
 * target_names.h - names for addresses in the processes of a run, also in those that have ended.
 *
 * What a process has mapped is known from the kernel's records, as of the time of a hit: it may
 * have ended since, or have executed another program.
 */
#ifndef CLI_OBSERVE_TARGET_NAMES_H
#define CLI_OBSERVE_TARGET_NAMES_H

#include "cli/launch/mapped_names.h"
#include "host/mappings.h"
#include "report/dwarf/symbols.h"

#include <trapline/trapline.h>

#define TARGET_NAMES_MAX 1024 /* processes: the oldest one makes room */

/* The names of a process. */
struct target_name {
	uint64_t version; /* of its mappings */
	struct symbols *symbols;
	struct target_name *
		*at; /* in the table; NULL: they are those of the first process, or none */
};

struct target_names {
	struct mappings mappings;
	struct mapped_names mapped;
	bool is_recorded;
	struct symbols *first;
	uint64_t first_key; /* of the files that the first process has mapped */
	struct target_name *open[TARGET_NAMES_MAX];
	size_t next;
	uint64_t asked;
	uint64_t asked_before; /* at the last look */
	uint64_t looked_ns;
	uint64_t hit_ns; /* of the last hit */
};

/*
 * The first process and its names. name: of processes that may begin later, "" for any, or NULL. No
 * rights: no records.
 */
void target_names_open(struct target_names *n, struct symbols *first, pid_t pid, const char *name);
/* After target_name_close() of all processes. */
void target_names_close(struct target_names *n);
/* Another process that runs already; it may have been added before. */
void target_names_add(struct target_names *n, pid_t pid);

/*
 * The names for a hit, which is not older than those before. NULL: its process is not known by
 * records. They are valid until the next call; strings of locations stay.
 */
struct symbols *target_names_of(struct target_names *n, const struct trapline_hit *hit,
				struct target_name *name);
/* Between hits: takes in what happened before the last look, if no hit was asked for since. */
void target_names_look(struct target_names *n);
void target_name_close(struct target_name *name);

#endif
