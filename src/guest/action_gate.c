/* SPDX-License-Identifier: MIT */
/* action_gate.c - see action_gate.h. */
#include "guest/action_gate.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/sys.h"

#define SIGNALS 32 /* those that Trapline takes are below */
#define NAP_NS 20000
#define NAPS_MOST 2000

struct gate {
	uint32_t calls; /* of the program that are between enter and exit */
	int32_t owner;	/* the thread that changes the action; 0: it is open */
};

static AFTER_FORK struct gate gates[SIGNALS];

static struct gate *gate_of(int signal)
{
	return signal > 0 && signal < SIGNALS ? &gates[signal] : NULL;
}

static void nap(void)
{
	const struct timespec pause = { 0, NAP_NS };

	sys_nap(&pause);
}

static int is_shut(const struct gate *g)
{
	const int32_t owner = atomic_get(&g->owner);

	return owner && owner != sys_gettid();
}

void action_gate_enter(int signal)
{
	struct gate *g = gate_of(signal);

	if (!g)
		return;
	atomic_add(&g->calls, 1u);
	for (unsigned int i = 0; is_shut(g) && i < NAPS_MOST; i++) {
		atomic_add(&g->calls, -1u);
		nap();
		atomic_add(&g->calls, 1u);
	}
}

/* After a fork in a handler the count is 0 already. */
void action_gate_exit(int signal)
{
	struct gate *g = gate_of(signal);

	if (g && atomic_get(&g->calls))
		atomic_add(&g->calls, -1u);
}

/*
 * A handler can interrupt a call and make another one: no call waits while this thread waits for
 * calls.
 */
void action_gate_shut(int signal)
{
	struct gate *g = gate_of(signal);
	const int32_t self = sys_gettid();

	if (!g)
		return;
	for (unsigned int i = 0; i < NAPS_MOST; i++) {
		int32_t none = 0;

		if (atomic_cas(&g->owner, &none, self)) {
			if (!atomic_get(&g->calls))
				return;
			atomic_set(&g->owner, 0);
		}
		nap();
	}
	/* A call that never ended: its thread left it by longjmp(). */
	atomic_set(&g->owner, self);
}

void action_gate_open(int signal)
{
	struct gate *g = gate_of(signal);

	if (g)
		atomic_set(&g->owner, 0);
}

AT_FORK void action_gates_forked(void)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		atomic_set_if_other(&gates[i].calls, 0u);
		atomic_set_if_other(&gates[i].owner, 0);
	}
}
