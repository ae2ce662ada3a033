/* SPDX-License-Identifier: MIT */
/* cost.h - what one hit costs the thread that makes it, on this machine. */
#ifndef CLI_OBSERVE_COST_H
#define CLI_OBSERVE_COST_H

/*
 * Forks a child that calls `prepare`, which arms an event, and then `one` many times, which hits it.
 * Returns the median in ns, or a negative number if it could not be measured. The child has a
 * deadline, so that a summary does not wait for it.
 */
double cost_ns(int (*prepare)(const void *arg), void (*one)(void), const void *arg);

#endif
