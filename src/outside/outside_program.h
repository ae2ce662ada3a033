/* SPDX-License-Identifier: MIT */
/* outside_program.h - the BPF programs of a search from outside: at sites, and at the watch. */
#ifndef OUTSIDE_PROGRAM_H
#define OUTSIDE_PROGRAM_H

#include "base/ebpf.h"

#include <stdint.h>

/* Descriptors of maps, and the process. */
struct outside_maps {
	int shared_fd; /* struct outside_shared */
	int traps_fd;  /* struct outside_traps */
	int ring_fd;   /* wakes the command */
	int notes_fd;  /* of each thread: the last site */
	struct ebpf_ids ids;
	int inner_pid; /* as numbered there */
};

/* Each: a descriptor or -errno. */
int outside_load_site(const struct outside_maps *maps, char *log, uint32_t log_size);
int outside_load_watch(const struct outside_maps *maps, char *log, uint32_t log_size);

#endif
