/* SPDX-License-Identifier: MIT */
/* race_linger.h - in a sweep: a program ends while some of its threads still exist. */
#ifndef RACE_LINGER_H
#define RACE_LINGER_H

/* At the end of a process that has traps. 0 or -errno. */
int race_linger_begin(void);
/* Until no thread waits in exit() any more. */
void race_linger_end(void);

#endif
