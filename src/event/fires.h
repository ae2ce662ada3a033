/* SPDX-License-Identifier: MIT */
/* fires.h - whether a debug register traps at all. */
#ifndef EVENT_FIRES_H
#define EVENT_FIRES_H

/*
 * Below some hypervisors a debug register takes any address and never traps. 0: so it is on the CPU
 * of this moment. 1: it traps, or it is not known, as none is free. Not in a handler.
 */
int event_register_fires(void);

#endif
