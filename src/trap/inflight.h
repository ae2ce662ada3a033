/* SPDX-License-Identifier: MIT */
/*
 * inflight.h - which threads are inside a callback, and of which event.
 *
 * It is entered before the handler inspects the event's generation. So the thread that closes the
 * event either raises the generation first, and the handler turns back, or finds the entry and
 * waits. An entry of a thread that has died inside its callback is recognised and ignored.
 */
#ifndef TRAP_INFLIGHT_H
#define TRAP_INFLIGHT_H

#include <stdint.h>
#include <sys/types.h>

/* Returns the entry, or NULL when the table is full. */
uint64_t *inflight_enter(pid_t tid, uint32_t event_index);
void inflight_leave(uint64_t *entry);

/* Wait until no other live thread is inside a callback of the event. -EBUSY: gave up. */
int inflight_wait(pid_t pid, uint32_t event_index);

/* Whether another live thread is inside a callback of the event. */
int inflight_is_any(pid_t pid, uint32_t event_index);

#endif
