/* SPDX-License-Identifier: MIT */
/* race_watch_open.h - the watches and breakpoints of this process are opened. Not in a handler. */
#ifndef RACE_WATCH_OPEN_H
#define RACE_WATCH_OPEN_H

/* Sets race_watch, by what trapline has opened and this process may have. */
void race_watch_choose(void);
/* 0: the process may open as many descriptors as it takes; or -errno. */
int race_watch_have_descriptors(void);
/*
 * One after the other: what race_watch uses; then, where there are samples, the last step. 0 or
 * -errno.
 */
int race_watch_open(void);
int race_break_open(void);
int race_watch_get_ready(void);
/*
 * The breakpoint of race_turn.h, after race_break_open(). 0, also where none is needed, or no
 * register is left: then the clock alone chooses.
 */
int race_turn_open(void);

#endif
