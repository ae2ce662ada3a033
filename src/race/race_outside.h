/* SPDX-License-Identifier: MIT */
/* race_outside.h - samples that come from outside, and the signal that trapline has ended. */
#ifndef RACE_OUTSIDE_H
#define RACE_OUTSIDE_H

#include <stdint.h>

#include "record/race_region.h"

/* Where all processes have it. It stays mapped. NULL: there is none. */
extern struct race_gate *race_common_gate;

/*
 * Copy a descriptor of trapline that has this name in /proc, or is the event with this id. trapline
 * may have ended, and another process may have its number. Returns a descriptor or -errno. Not in a
 * handler.
 */
int race_copy_descriptor(int pidfd, int number, const char *name);
int race_copy_event(int pidfd, int number, uint64_t id);
int race_outside_start(void);
/* A sample is being taken: none is welcome before that time. */
void race_gate_open_at(uint64_t ns);
/* A sample was taken: the budget states when the next one is welcome. */
void race_gate_set(uint64_t now_ns);
void race_outside_end(void);
/* This comes last: where the pipe is seen to be gone, nothing is left. */
void race_outside_close(void);
/* No process has the end of the pipe that shows the command's end. */
int race_outside_is_left(void);

#endif
