// SPDX-License-Identifier: MIT
/* break_cost.c - measures the cost of a breakpoint's hit in a child that breaks on its own code. */
#include "cli/break/break.h"
#include "cli/observe/cost.h"

/* The kernel emulates the first instruction of the one at a uprobe, and not that of the other. */
void break_cost_emulated(void);
void break_cost_stepped(void);
#if defined(__x86_64__)
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "test %eax, %eax"
#else
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "cmp x0, x0"
#endif
#define FUNCTION(name, first)                                                                    \
	__asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name \
		":\n\t" first "\n\tret\n.size " #name ", . - " #name "\n")
FUNCTION(break_cost_emulated, FIRST_EMULATED);
FUNCTION(break_cost_stepped, FIRST_STEPPED);

struct cost {
	const struct break_settings *set;
	enum break_cost_kind kind;
};

static int break_cost_prepare(const void *arg)
{
	const struct cost *p = arg;
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *t;
	uint64_t address = p->kind == BREAK_COST_EMULATED ? (uintptr_t)break_cost_emulated :
							    (uintptr_t)break_cost_stepped;

	open_opts.flags = p->set->no_bpf ? TRAPLINE_NO_BPF : 0;
	opts.flags = p->set->stack ? TRAPLINE_STACK_BYTES : 0;
	int err = trapline_open(0, &open_opts, &t);
	if (err < 0)
		return err;
	if (p->kind == BREAK_COST_HARDWARE)
		return trapline_break(t, address, &opts, &event);
	opts.flags |= p->set->ret ? TRAPLINE_RETURNS : 0;
	return trapline_break_sites(t, &address, 1, &opts, &event);
}

double break_cost_ns(const struct break_settings *set, enum break_cost_kind kind)
{
	struct cost p = { set, kind };

	return cost_ns(break_cost_prepare,
		       kind == BREAK_COST_EMULATED ? break_cost_emulated : break_cost_stepped, &p);
}
