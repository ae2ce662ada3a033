/* SPDX-License-Identifier: MIT */
/* probe_entry.h - where the code of a probe leads to. */
#ifndef TRAP_PROBE_ENTRY_H
#define TRAP_PROBE_ENTRY_H

#include <stdint.h>
#include <ucontext.h>

/*
 * What runs when the filter and the condition are true, runs on another stack, if both are set:
 * take() gives the top of one, aligned to 64, or 0. From there to give(), which gets that top, no
 * signal that is sent may come, and the context has the mask that is in force afterwards. Neither
 * uses a vector register. AS-Safe. Set once, before the first probe.
 */
struct trap_other_stack {
	uint64_t (*take)(ucontext_t *context);
	void (*give)(ucontext_t *context, uint64_t top);
};
extern struct trap_other_stack trap_other_stack __attribute__((visibility("hidden")));

/*
 * What the entry writes where the area is the software's own, with xsavec: what is not in use is
 * not in the area. Until the area is there the context has none, and the registers are the
 * program's.
 */
#define ARCH_SAVED_MAGIC 0x54504c58u

/* The low 8 bytes of a vector register, below 16, as the thread has it right now. */
uint64_t trap_live_vector(uint32_t number) __attribute__((visibility("hidden")));

/* Where a probe's code jumps to; and what that needs to know first. */
void trap_probe_entry(void);
void trap_probe_prepare(void);

#endif
