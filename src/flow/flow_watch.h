/* SPDX-License-Identifier: MIT */
/*
 * flow_watch.h - debug registers on the copies that windows leave behind, so that the next thread
 * that touches one continues in a window.
 */
#ifndef FLOW_WATCH_H
#define FLOW_WATCH_H

#include <stdint.h>

/* Bytes of a source that lie in memory as they are. */
struct flow_kept {
	uint64_t address;
	uint64_t order; /* the newest has the highest */
	uint32_t bytes;
	uint32_t is_computed;
};

/* Opens what is free of the registers, and returns how many. Not in a handler. */
uint32_t flow_watch_start(void);
void flow_watch_end(void);

/*
 * A window begins in this thread: 1: the registers rest in the meantime. 0: they do not, for there
 * are other threads; and flow_watch_owns() states whose hits in the window are nothing new.
 */
int flow_watch_rest(void);
int flow_watch_owns(uint64_t address);
/* It has ended. */
void flow_watch_aim(int has_rested);

/* What lies in this page was looked up again: flow_watch_page(), then each copy. */
void flow_watch_page(uint64_t page);
void flow_watch_keep(uint64_t address, uint32_t bytes, int is_computed);

#endif
