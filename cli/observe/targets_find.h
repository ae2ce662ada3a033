/* SPDX-License-Identifier: MIT */
/* targets_find.h - processes of a name, descendants of a process, and how a process is laid out. */
#ifndef CLI_OBSERVE_TARGETS_FIND_H
#define CLI_OBSERVE_TARGETS_FIND_H

#include "cli/observe/observe_settings.h"

#include <limits.h>

/* What --name compares. */
struct target_identity {
	char comm[32];
	char exe[PATH_MAX]; /* the program */
};

/* False: it has ended, is a kernel thread, or is not the user's. */
bool targets_identify(pid_t pid, struct target_identity *out);
bool targets_has_name(const struct target_identity *who, const char *name);

/*
 * Calls act for each process that targets_identify() knows, except those of this program, until it
 * returns another value than 0. That value, or -errno.
 */
int targets_each(int (*act)(void *arg, pid_t pid, const struct target_identity *who), void *arg);

/* Processes of --name into set->pids. 0 or an exit status, line printed. */
int targets_find_named(struct observe_settings *set, uint64_t start_ns);

/* Adds to *out. 0 or an exit status, line printed. */
int targets_list_named(const struct observe_settings *set, struct opt_pids *out);
int targets_list_descendants(const struct observe_settings *set, struct opt_pids *out);

/* A note on processes of another program: they give no hit, unless it is in a shared library. */
void targets_note_other_files(const struct observe_settings *set);

/* Processes with the same number have their code at the same addresses. 0: it cannot be read. */
uint64_t targets_layout(pid_t pid);

#endif
