/* SPDX-License-Identifier: MIT */
/* late_jump.c - see late_jump.h. */
#include "guest/late_jump.h"

#include <errno.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "code/poke/change.h"
#include "code/poke/traps.h"
#include "code/probe/code_probe.h"
#include "code/probe/probe_word.h"
#include "guest/late_prologue.h"
#include "trap/probe_entry.h"

static int open_at(struct late_jump *jump, uint64_t at, struct code_problem *problem)
{
	if (!jump->word && !poke_lock_take(problem)) {
		jump->word = probe_word_near(jump->address);
		poke_lock_give();
	}
	if (!jump->word) {
		problem->why = "no memory is near it";
		return -ENOMEM;
	}
	struct code_filter filter = { .through = jump->word, .may_crowd = 1 };
	int err = code_probe_open(at, &filter, trap_probe_entry, NULL, 0, &jump->number, problem);
	if (err)
		return err;
	jump->is_open = true;
	return 0;
}

bool late_jump_has_no_room(int err)
{
	return err == -ENOSPC || err == -EOPNOTSUPP;
}

/* Behind its first instructions. */
static int open_behind(struct late_jump *jump, struct code_problem *problem)
{
	struct late_prologue prologue = { .entry = jump->address };
	int err = -ENOSPC;

	while (late_jump_has_no_room(err) && late_prologue_step(&prologue))
		err = open_at(jump, jump->address + prologue.bytes, problem);
	if (err)
		return err;
	jump->jump_at = jump->address + prologue.bytes;
	err = late_prologue_code(&prologue, jump->function, code_probes[jump->number].resume,
				 &jump->to, &jump->original);
	if (!err)
		return 0;
	code_probe_close(jump->number, problem);
	jump->is_open = false;
	jump->jump_at = 0;
	return err;
}

int late_jump_open(struct late_jump *jump, struct code_problem *problem)
{
	/* As it was the last time. */
	if (jump->jump_at)
		return open_at(jump, jump->jump_at, problem);
	int err = open_at(jump, jump->address, problem);
	if (late_jump_has_no_room(err))
		return open_behind(jump, problem);
	if (err)
		return err;
	jump->jump_at = jump->address;
	jump->to = jump->function;
	jump->original = code_probes[jump->number].resume;
	return 0;
}

static void on_late_trap(const struct trapline_trap_hit *hit)
{
	const struct late_jump *jump = hit->arg;
	ucontext_t *context = hit->context;
	uint64_t to = atomic_get(jump->word);

	if (to)
		context->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
}

/* Its word is 0 while it leads to the original function: the handler of traps knows the way. */
int late_jump_open_trap(struct late_jump *jump, uint64_t original, struct code_problem *problem)
{
	const struct trapline_traps_opts opts = {
		.size = sizeof(opts),
		.callback = on_late_trap,
		.arg = jump,
	};

	atomic_set(jump->word, (uint64_t)0);
	int err = traps_set(&jump->address, 1, &opts, &jump->traps, problem);
	if (err)
		return err;
	jump->original = original;
	jump->to = jump->function;
	jump->is_open = true;
	return 0;
}

AT_FORK void late_jump_lead(struct late_jump *jump, bool to_ours)
{
	if (jump->is_open)
		atomic_set(jump->word, to_ours	   ? jump->to :
				       jump->traps ? 0 :
						     code_probes[jump->number].resume);
}

bool late_jump_close(struct late_jump *jump)
{
	struct code_problem problem;

	late_jump_lead(jump, false);
	if (jump->traps ? traps_remove(jump->traps, &problem) :
			  jump->is_open && code_probe_close(jump->number, &problem))
		return false; /* the next start tries again */
	jump->traps = NULL;
	jump->is_open = false;
	return true;
}
