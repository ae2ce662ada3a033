/* SPDX-License-Identifier: MIT */
/* price.h - what one hit costs the thread that makes it, on this machine. */
#ifndef CLI_PRICE_H
#define CLI_PRICE_H

/*
 * Runs `one` many times in a throwaway child, after `prepare` has armed what it hits, and gives
 * the median in ns. The child has a deadline: a summary must not wait for a measurement.
 * Negative: it could not be measured.
 */
double price_ns(int (*prepare)(const void *arg), void (*one)(void), const void *arg);

#endif
