/* SPDX-License-Identifier: MIT */
/*
 * flow_jumps.c - what makes a thread report that it is at a site: a jump, or an int3 where none
 * fits.
 *
 * A thread with SIGTRAP blocked dies of an int3. In a process that was attached to, threads can
 * block it at any time. They do so by libc, in a thread that libc is just making, in a handler, or
 * by a system call of their own. So there are jumps only. A location that has no room for one is
 * left out: that of libc is counted, and one that the user named is refused. In a process that the
 * command has started every mask is known (guest/signals.c), and an int3 may be there.
 */
#include "base/general_regs.h"

#include "flow/flow_jumps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "code/poke/traps_switch.h"
#include "code/probe/code_probe.h"
#include "core/code_start.h"
#include "flow/flow_budget.h"
#include "flow/flow_glance.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "guest/own_stack.h"
#include "trap/probe_entry.h"
#include "trap/probe_gate.h"

#define TRIES 20
#define TRAP_NS 4000u /* until Trapline's handler runs, and after it */
#define JUMP_NS 300u
#define GLANCES 256u
#define GLANCE_NS 1500u
#define GLANCE_BYTES 8u /* in a nanosecond */
#define TRY_NS 50000000

struct flow_gate {
	struct probe_gate gate; /* first: see probe_gate.h */
	uint32_t site;
};

static struct flow_gate gates[FLOW_SITES];
static struct code_probe_wish wishes[FLOW_SITES];
static uint32_t gate_count;
static uint32_t are_resting;

static struct trapline_traps *traps;
static uint32_t of_trap[FLOW_SITES];
static uint32_t trap_count;

static void look(const struct flow_site *site, ucontext_t *context, uint64_t ns_around)
{
	const uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID) - ns_around;

	flow_on_site(site, context);
	flow_spend(FLOW_TRAP_NS, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun);
	flow_budget_trap();
}

/* ---- jumps ---- */

/*
 * Threads come by as soon as a jump is, which is before all of them do: the number is known then.
 */
static uint64_t resume_of(const struct flow_gate *gate)
{
	return code_probes[wishes[gate - gates].number].resume;
}

static uint64_t flow_gate_ask(struct probe_gate *gate, ucontext_t *context)
{
	const struct flow_gate *own = (const struct flow_gate *)gate;
	static uint32_t glances;
	uint64_t bytes;

	if (atomic_get(&are_resting))
		return resume_of(own);
	/* Now and then all of it: whether there is budget for the traps is asked there. */
	if (!(++glances % GLANCES) || !flow_glance(&flow_sites[own->site], context, &bytes))
		return 0;
	flow_spend(FLOW_TRAP_NS, bytes ? GLANCE_NS + bytes / GLANCE_BYTES : JUMP_NS);
	return resume_of(own);
}

static uint64_t flow_gate_take(struct probe_gate *gate, ucontext_t *context)
{
	const struct flow_gate *own = (const struct flow_gate *)gate;
	const struct flow_site *site = &flow_sites[own->site];

	look(site, context, JUMP_NS);
	const uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

	return pc == site->address ? resume_of(own) : pc;
}

static int place_jumps(char *why, size_t n)
{
	struct code_problem problem = { NULL, 0 };
	int err = -EBUSY;

	for (uint32_t i = 0; i < gate_count; i++) {
		gates[i].gate = (struct probe_gate){ flow_gate_ask, flow_gate_take };
		wishes[i] = (struct code_probe_wish){
			.address = flow_sites[gates[i].site].address,
			.owner = probe_gate_owner(&gates[i].gate),
		};
	}
	/* The command unblocks SIGTRAP where it is blocked. */
	for (int i = 0; err == -EBUSY && i < TRIES; i++) {
		const struct timespec pause = { 0, TRY_NS };

		err = code_probe_open_many(wishes, gate_count, trap_probe_entry, &problem);
		if (err == -EBUSY)
			sys_nap(&pause);
	}
	if (err)
		snprintf(why, n, "%s", problem.why ? problem.why : strerror(-err));
	return err;
}

/* ---- int3 ---- */

static void on_trap(const struct trapline_trap_hit *hit)
{
	look(&flow_sites[of_trap[hit->index]], hit->context, TRAP_NS);
}

static int place_traps(char *why, size_t n)
{
	static uint64_t addresses[FLOW_SITES];
	const struct trapline_traps_opts opts = { .size = sizeof(opts), .callback = on_trap };

	for (uint32_t i = 0; i < gate_count; i++) {
		if (!wishes[i].error)
			continue;
		/* A child by vfork(2) comes here, which a trap would kill. */
		if (flow_sites[gates[i].site].kind == FLOW_SITE_END) {
			flow_count(FLOW_LEFT_OUT, 1);
			continue;
		}
		of_trap[trap_count] = gates[i].site;
		addresses[trap_count++] = wishes[i].address;
	}
	const int err = trap_count ? trapline_traps_set(addresses, trap_count, &opts, &traps) : 0;

	if (err)
		trapline_explain(err, why, n);
	return err;
}

/* Where no jump fits and no int3 may be. */
static int leave_out(char *why, size_t n)
{
	for (uint32_t i = 0; i < gate_count; i++) {
		const struct flow_site *site = &flow_sites[gates[i].site];

		if (!wishes[i].error)
			continue;
		flow_count(FLOW_LEFT_OUT, 1);
		if (!flow_site_is_of_user(site))
			continue;
		snprintf(why, n,
			 "%s has no room for a jump (%s), and an int3 would end a thread that "
			 "blocks SIGTRAP; start the program with trapline flow",
			 site->name, wishes[i].why ? wishes[i].why : strerror(-wishes[i].error));
		return -EOPNOTSUPP;
	}
	return 0;
}

/* ---- all ---- */

int flow_jumps_start(int may_trap, char *why, size_t n)
{
	int err = code_start();

	gate_count = 0;
	trap_count = 0;
	/* What Trapline reads itself until they are all there is not a source. */
	atomic_set(&are_resting, 1u);
	trap_probe_prepare();
	own_stacks_prepare();
	for (uint32_t i = 0; i < flow_site_count; i++)
		/* One for all that are at an address: the user's come first, and have one. */
		if (!flow_sites[i].is_quiet &&
		    flow_site_at(flow_sites[i].address) == &flow_sites[i])
			gates[gate_count++].site = i;
	if (err)
		snprintf(why, n, "its code cannot be changed");
	else
		err = place_jumps(why, n);
	if (err)
		return err;
	err = may_trap ? place_traps(why, n) : leave_out(why, n);
	if (err)
		flow_jumps_end();
	else
		atomic_set(&are_resting, 0u);
	return err;
}

int flow_jumps_end(void)
{
	struct code_problem problem;

	atomic_set(&are_resting, 1u);
	int err = traps ? trapline_traps_remove(traps) : 0;
	if (!err)
		traps = NULL;
	if (gate_count && !code_probe_close_many(wishes, gate_count, &problem))
		gate_count = 0;
	return err;
}

void flow_jumps_rest(void)
{
	atomic_set(&are_resting, 1u);
	if (traps)
		traps_rest_all(traps);
}

int flow_jumps_switch(int on)
{
	static uint32_t rows[FLOW_SITES];
	struct code_problem problem;

	atomic_set(&are_resting, (uint32_t)!on);
	for (uint32_t i = 0; i < trap_count; i++)
		rows[i] = i;
	return traps ? traps_switch(traps, rows, trap_count, on, &problem) : 0;
}
