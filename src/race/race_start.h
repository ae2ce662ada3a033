/* SPDX-License-Identifier: MIT */
/*
 * race_start.h - the search in this process as the rest of the detector and the library see it; see
 * race.h.
 */
#ifndef RACE_START_H
#define RACE_START_H

/* The program's threads have all ended, and its first one only waits for Trapline's. */
int race_is_kept_by_us(void);
/* In a forked child: as race_forked(), and the search does not continue there. */
void race_forget(void);

#endif
