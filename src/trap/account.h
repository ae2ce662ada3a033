/* SPDX-License-Identifier: MIT */
/*
 * account.h - what becomes of the hits of an event: its limit, and what is lost. AS-Safe, all of
 * it.
 */
#ifndef TRAP_ACCOUNT_H
#define TRAP_ACCOUNT_H

#include "event/event.h"
#include "trap/past.h"
#include <stdint.h>

/* A hit that the kernel let pass and that is lost here has not used up the limit. */
void account_lost(struct trapline_event *ev, uint64_t *counter);
/* The counters of an event that was closed in the meantime cannot be read any more. */
void account_late(struct trapline_event *ev, uint64_t data);
/* Take one of the hits that the limit still allows. *last: it was the last one. */
int account_grant(struct trapline_event *ev, int *last);
/*
 * The kernel has counted an access once more: see past.h. It reports an address in the watched
 * bytes, as far down as the access reaches, and counts for each event that has it. One of several
 * events had the signal.
 */
void account_step(const struct past *past, uint64_t watched);

#endif
