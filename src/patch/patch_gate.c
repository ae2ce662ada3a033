/* SPDX-License-Identifier: MIT */
/*
 * patch_gate.c - see patch_gate.h. It runs before the vector registers are saved, and in SIGTRAP.
 */
#include "base/general_regs.h"

#include <linux/futex.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "patch/patch_gate.h"
#include "trap/arch.h"

/* A waiting thread goes back for all when the thread that patches is so late. */
#define GRACE_NS 100000000u

/* The phase in which the calling thread was last found outside. */
static __thread uint32_t outside_in __attribute__((tls_model("initial-exec")));

const struct patch_side *patch_left(const struct trapline_patch *patch, uint32_t phase)
{
	return PATCH_KIND(phase) == TRAPLINE_PATCH_TO_NEW ? &patch->old_side : &patch->new_side;
}

TRAP_PATH static int is_changing(uint32_t phase)
{
	return PATCH_KIND(phase) >= TRAPLINE_PATCH_TO_NEW;
}

TRAP_PATH static uint64_t old_or_new(const struct patch_site *site,
				     const struct trapline_patch *patch, int is_new)
{
	return is_new ? patch->new_addresses[site->index] : site->resume;
}

/* The kind in which a change ends, and in which it began. */
TRAP_PATH static int goes_to_new(uint32_t phase)
{
	return PATCH_KIND(phase) == TRAPLINE_PATCH_TO_NEW;
}

TRAP_PATH static uint64_t ask(const struct patch_site *site, struct trapline_patch *patch)
{
	if (!patch)
		return site->resume;
	uint32_t phase = atomic_get(&patch->phase);

	if (!is_changing(phase))
		return old_or_new(site, patch, PATCH_KIND(phase) == TRAPLINE_PATCH_NEW);
	if (patch->consistency == TRAPLINE_PATCH_PER_THREAD && outside_in == phase)
		return old_or_new(site, patch, goes_to_new(phase));
	return 0;
}

TRAP_PATH uint64_t patch_gate_ask(struct probe_gate *gate, ucontext_t *context)
{
	struct patch_site *site = (struct patch_site *)gate;

	atomic_add(&site->users, 1u);
	uint64_t pc = ask(site, atomic_get(&site->patch));
	atomic_add(&site->users, -1u);
	return pc;
}

TRAP_PATH static void note_outside(struct trapline_patch *patch, struct patch_mark *mark,
				   uint32_t phase)
{
	outside_in = phase;
	if (!mark || atomic_get(&mark->outside_in) == phase)
		return;
	atomic_set(&mark->outside_in, phase);
	if (atomic_add(&patch->arrivals, 1u) + 1 == atomic_get(&patch->arrivals_due))
		sys4(SYS_futex, &patch->arrivals, FUTEX_WAKE_PRIVATE, 1, NULL);
}

TRAP_PATH static void raise_to(uint64_t *longest, uint64_t ns)
{
	uint64_t known = atomic_get(longest);

	while (ns > known && !atomic_cas(longest, &known, ns))
		;
}

/* Until the phase is another one. */
TRAP_PATH static void wait_for_change(struct trapline_patch *patch, uint32_t phase)
{
	uint64_t start = clock_now_ns();
	uint64_t until = patch->deadline_ns + GRACE_NS;
	struct timespec at = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
	uint32_t expected = phase;

	counter_add(&patch->waits, 1);
	while (atomic_get(&patch->phase) == phase && clock_now_ns() < until)
		sys6(SYS_futex, &patch->phase, FUTEX_WAIT_BITSET_PRIVATE, phase, &at, NULL,
		     FUTEX_BITSET_MATCH_ANY);
	uint32_t back = goes_to_new(phase) ? TRAPLINE_PATCH_OLD : TRAPLINE_PATCH_NEW;
	if (atomic_cas(&patch->phase, &expected, (phase & ~3u) | back))
		sys4(SYS_futex, &patch->phase, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
	uint64_t now = clock_now_ns();
	uint64_t ended = atomic_get(&patch->ended_ns);
	raise_to(&patch->longest_wait_ns, now - start);
	/* From then on it waits for a processor only. */
	raise_to(&patch->longest_held_ns, (ended > start && ended < now ? ended : now) - start);
}

TRAP_PATH static int is_outside(const struct trapline_patch *patch, uint32_t phase,
				struct patch_mark *mark, const ucontext_t *context)
{
	if (outside_in == phase || (mark && atomic_get(&mark->outside_in) == phase))
		return 1;
	int inside = patch_look_at_self(patch, phase, context);

	if (mark && inside >= 0)
		atomic_set(&mark->inside, (uint32_t)inside + 1);
	return inside == PATCH_OUTSIDE;
}

TRAP_PATH static uint64_t take(const struct patch_site *site, struct trapline_patch *patch,
			       const ucontext_t *context)
{
	struct patch_mark *mark = NULL;
	uint64_t pc;

	counter_add(&patch->decided, 1);
	while (!(pc = ask(site, patch))) {
		uint32_t phase = atomic_get(&patch->phase);

		if (!is_changing(phase))
			continue;
		if (!mark)
			mark = patch_mark_of(patch, sys_gettid());
		if (!is_outside(patch, phase, mark, context)) {
			if (atomic_get(&patch->phase) == phase)
				return old_or_new(site, patch, !goes_to_new(phase));
			continue;
		}
		note_outside(patch, mark, phase);
		if (patch->consistency != TRAPLINE_PATCH_PER_THREAD)
			wait_for_change(patch, phase);
	}
	return pc;
}

TRAP_PATH uint64_t patch_gate_take(struct probe_gate *gate, ucontext_t *context)
{
	struct patch_site *site = (struct patch_site *)gate;

	atomic_add(&site->users, 1u);
	struct trapline_patch *patch = atomic_get(&site->patch);
	uint64_t pc = patch ? take(site, patch, context) : site->resume;
	atomic_add(&site->users, -1u);
	return pc;
}

TRAP_PATH struct patch_mark *patch_mark_of(const struct trapline_patch *patch, pid_t tid)
{
	uint32_t at = (uint32_t)tid * 0x9e3779b1u;

	for (uint32_t i = 0; i <= patch->mark_mask; i++, at++) {
		struct patch_mark *mark = &patch->marks[at & patch->mark_mask];
		uint32_t known = atomic_get(&mark->tid);

		if (known == (uint32_t)tid ||
		    (!known &&
		     (atomic_cas(&mark->tid, &known, (uint32_t)tid) || known == (uint32_t)tid)))
			return mark;
	}
	return NULL;
}

TRAP_PATH void patch_tick(struct trapline_patch *patch, pid_t tid, const ucontext_t *context)
{
	uint32_t phase = atomic_get(&patch->phase);

	if (!is_changing(phase) || outside_in == phase ||
	    patch_is_on_the_way(patch, arch_pc(context)))
		return;
	struct patch_mark *mark = patch_mark_of(patch, tid);
	int inside = patch_look_at_self(patch, phase, context);

	if (inside == PATCH_OUTSIDE)
		note_outside(patch, mark, phase);
	else if (mark && inside >= 0)
		atomic_set(&mark->inside, (uint32_t)inside + 1);
}
