/* SPDX-License-Identifier: MIT */
/* patch_site.c - see patch_site.h. A site and its word stay for ever, and are used again. */
#include "patch/patch_site.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/poke/change.h"
#include "code/poke/traps.h"
#include "code/probe/code_probe.h"
#include "code/probe/probe_word.h"
#include "trap/probe_entry.h"

#define SETTLE_STEP_NS 20000
#define SETTLE_STEPS 5000

static struct patch_site *sites; /* never unmapped */
static uint32_t site_count;

static struct patch_site *site_make(uint64_t address)
{
	struct patch_site *site = &sites[site_count];

	if (site_count == PATCH_SITES_MAX)
		return NULL;
	site->word = probe_word_near(address);
	if (!site->word)
		return NULL;
	site->address = address;
	site->gate.ask = patch_gate_ask;
	site->gate.take = patch_gate_take;
	site_count++;
	return site;
}

static struct patch_site *site_at(uint64_t address, struct code_problem *problem)
{
	if (!sites) {
		void *memory = memory_map(PATCH_SITES_MAX * sizeof(*sites));

		if (memory_failed(memory))
			return NULL;
		sites = memory;
	}
	for (uint32_t i = 0; i < site_count; i++)
		if (sites[i].address == address)
			return &sites[i];
	if (poke_lock_take(problem))
		return NULL;
	struct patch_site *site = site_make(address);
	poke_lock_give();
	return site;
}

static void on_patch_trap(const struct trapline_trap_hit *hit)
{
	const struct patch_site *site = hit->arg;
	ucontext_t *context = hit->context;
	uint64_t to = atomic_get(site->word);

	if (to)
		trap_set_pc(context, to);
}

/* Its word is 0 while it leads to the old function: the handler of traps knows the way. */
static int open_patch_trap(struct patch_site *site, struct code_problem *problem)
{
	const struct trapline_traps_opts opts = {
		.size = sizeof(opts),
		.callback = on_patch_trap,
		.arg = site,
	};

	atomic_set(site->word, (uint64_t)0);
	site->stub = 0;
	site->stub_end = 0;
	site->resume = 0;
	return traps_set(&site->address, 1, &opts, &site->traps, problem);
}

static int open_patch_jump(struct patch_site *site, struct code_problem *problem)
{
	struct code_filter filter = { .through = site->word, .may_crowd = 1 };
	int err = code_probe_open(site->address, &filter, trap_probe_entry,
				  probe_gate_owner(&site->gate), 0, &site->number, problem);

	if (err)
		return err;
	site->stub = code_probe_stub(site->number);
	site->to_gate = code_probe_true(site->number);
	site->stub_end = site->to_gate;
	site->resume = code_probes[site->number].resume;
	return 0;
}

int patch_site_open(uint64_t address, int may_trap, struct patch_site **out,
		    struct code_problem *problem)
{
	struct patch_site *site = site_at(address, problem);

	if (!site) {
		problem->why = "too many functions have been patched, or no memory is near them";
		return -ENOSPC;
	}
	problem->why = "the function is patched already; undo that patch first";
	if (site->is_open)
		return -EBUSY;
	trap_probe_prepare();
	int err = open_patch_jump(site, problem);
	if (may_trap && (err == -ENOSPC || err == -EOPNOTSUPP))
		err = open_patch_trap(site, problem);
	if (err)
		return err;
	site->is_open = 1;
	*out = site;
	return 0;
}

void patch_site_lead(struct patch_site *site, enum patch_way way)
{
	uint64_t to = site->resume;

	if (way == PATCH_WAY_NEW)
		to = site->patch->new_addresses[site->index];
	if (way == PATCH_WAY_GATE)
		to = site->to_gate;
	atomic_set(site->word, to);
}

int patch_site_close(struct patch_site *site, struct code_problem *problem)
{
	int err;

	if (site->traps) {
		err = traps_remove(site->traps, problem);
		if (err)
			return err;
		site->traps = NULL;
	} else {
		err = code_probe_close(site->number, problem);
	}
	/* A library that is gone has taken its jump with it. */
	if (!err || err == -EFAULT)
		site->is_open = 0;
	return site->is_open ? err : 0;
}

int patch_site_settle(const struct patch_site *site)
{
	const struct timespec step = { 0, SETTLE_STEP_NS };

	for (int i = 0; i < SETTLE_STEPS && atomic_get(&site->users); i++)
		sys_nap(&step);
	return atomic_get(&site->users) ? -EBUSY : 0;
}
