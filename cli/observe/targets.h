/* SPDX-License-Identifier: MIT */
/*
 * targets.h - the processes of a run, where they are several: -p A,B, --name and --follow.
 *
 * A uprobe is in the file of the code, and the kernel keeps the table of processes whose calls are
 * hits. Locations and types are looked up in the first process, and addresses in the process of
 * each hit.
 */
#ifndef CLI_OBSERVE_TARGETS_H
#define CLI_OBSERVE_TARGETS_H

#include "cli/observe/observe_settings.h"
#include "cli/observe/target_names.h"
#include "report/dwarf/symbols.h"

#include <trapline/trapline.h>

struct run_hit;

#define TARGETS_SYMBOLS_MAX 32 /* sets of names, which may be large */
#define TARGETS_SEEN_MAX 8

struct target_process {
	pid_t pid;
	char name[16];
	struct target_name at;	 /* by the kernel's records; else: */
	struct symbols *symbols; /* those of the first process, its own, or without names */
	/* Sites that it reached: an exec moves the code, and the distance changes. */
	struct {
		uint64_t address;
		uint64_t distance;
	} seen[TARGETS_SEEN_MAX];
	size_t seen_count;
};

struct targets {
	const struct observe_settings *set;
	struct symbols *first;
	struct symbols *nameless;
	struct target_names names;
	void *processes;			  /* tsearch() tree of those that had a hit */
	struct symbols *own[TARGETS_SYMBOLS_MAX]; /* of other processes: names stay valid */
	size_t own_count;
	uint64_t layout;	/* of the first process */
	uint64_t without_names; /* processes whose addresses have no names */
	uint64_t looked_ns;
	bool is_over; /* at the last look */
};

/* More than one process can give hits. */
bool targets_are_several(const struct observe_settings *set);

/*
 * Several processes need uprobes: why they do not work, from the error; and the refusal, with its
 * status.
 */
void targets_explain_uprobes(int err, char *why, size_t size);
int targets_wrong_without_uprobes(const struct observe_settings *set, const char *why);

/* Each process of -p, or those of --name, of which set->pid is the first. 0 or an exit status. */
int targets_choose(struct observe_settings *set, uint64_t start_ns);

/* Flags and the name of a program, for the events. */
void targets_opts(const struct observe_settings *set, struct trapline_event_opts *opts);

/* Begins with the first process, whose names are first. 0 or an exit status, line printed. */
int targets_open(struct targets *t, const struct observe_settings *set, struct symbols *first);
/* Adds all processes to the events, which are armed. 0 or an exit status, line printed. */
int targets_cover(struct targets *t, struct trapline_event *const *events, size_t count);
/* Both, where the settings mean several processes; else it does nothing. */
int targets_add(struct targets *t, const struct observe_settings *set, struct symbols *first,
		struct trapline_event *const *events, size_t count);

/* The symbols for a hit; they read the memory of its process. */
struct symbols *targets_symbols(struct targets *t, const struct trapline_hit *hit);
/* The name of a process that had a hit; NULL: there is one process only. */
const char *targets_name(const struct targets *t, pid_t pid);

/* Has every process ended? */
bool targets_have_ended(struct targets *t, struct trapline_event *const *events, size_t count);

/* `3 processes (4711, 4712, 4713)`, and what is still to come. */
void targets_describe(const struct observe_settings *set, char *buf, size_t n);
/* Notes on what was not covered. */
void targets_end(struct targets *t, struct trapline_event *const *events, size_t count);
void targets_release(struct targets *t);

#endif
