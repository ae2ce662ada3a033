/* SPDX-License-Identifier: MIT */
/* death_program.h - the BPF programs of death_watch.h. */
#ifndef HOST_DEATH_PROGRAM_H
#define HOST_DEATH_PROGRAM_H

struct death_watch;

/* A program of the watch, whose maps are open. A descriptor or -errno. */
int death_program_load(const struct death_watch *w, int which);

#endif
