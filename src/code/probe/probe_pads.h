/* SPDX-License-Identifier: MIT */
/*
 * probe_pads.h - jumps at addresses that were not chosen: where the displacement of a probe's jump
 * leads. All of it needs poke_lock.
 */
#ifndef CODE_PROBE_PROBE_PADS_H
#define CODE_PROBE_PROBE_PADS_H

#include <stddef.h>
#include <stdint.h>

#define PADS_AT_ONCE 16

/*
 * Put a jump to target at each of n addresses, all or none. They stay for ever: a thread may be on
 * one of them. So many bytes above the heap are left out. 0; -EBUSY: not all of that memory can be
 * had; -EACCES: it cannot be written; -ENOMEM.
 */
int pads_place(const uint64_t *addresses, size_t n, uint64_t target, uint64_t heap_grows);

#endif
