/* SPDX-License-Identifier: MIT */
/* safepoint_sites.h - the safepoints in code, which all domains share: see safepoint_sites.c. */
#ifndef SAFEPOINT_SAFEPOINT_SITES_H
#define SAFEPOINT_SAFEPOINT_SITES_H

#include <stdint.h>

/* Does the program have the sites that a back end needs? 0 or -errno, recorded. */
int sites_open_poll(void);
int sites_open_poke(void);
void sites_close(void);

/* Each site jumps, until as many sites_disarm(). 0 or -errno, recorded. */
int sites_arm(int by_int3);
void sites_disarm(int by_int3);

uint64_t sites_count(void);

#endif
