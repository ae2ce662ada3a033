/* SPDX-License-Identifier: MIT */
/*
 * probe_gate.h - the owner of a probe that is not an event, but decides where the thread continues.
 *
 * A gate is the first member of what it belongs to, and stays for ever: a thread may be on its way.
 */
#ifndef TRAP_PROBE_GATE_H
#define TRAP_PROBE_GATE_H

#include <stdint.h>
#include <ucontext.h>

struct probe_gate {
	/*
	 * Where the thread continues; 0: take() knows. It leaves the vector registers alone.
	 * AS-Safe.
	 */
	uint64_t (*ask)(struct probe_gate *gate, ucontext_t *context);
	/* Where it continues, for certain. AS-Safe. */
	uint64_t (*take)(struct probe_gate *gate, ucontext_t *context);
};

/* In the table of probes the owner's lowest bit distinguishes a gate from an event. */
static inline void *probe_gate_owner(struct probe_gate *gate)
{
	return (void *)((uintptr_t)gate | 1);
}

static inline struct probe_gate *probe_gate_of(void *owner)
{
	return (uintptr_t)owner & 1 ? (struct probe_gate *)((uintptr_t)owner & ~(uintptr_t)1) :
				      NULL;
}

#endif
