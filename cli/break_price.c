// SPDX-License-Identifier: MIT
/* break_price.c - the price of a hit of a breakpoint: a child breaks on code of its own alike. */
#include "cli/break.h"
#include "cli/price.h"

/* One begins with an instruction that the kernel emulates at a uprobe, the other does not. */
void break_price_emulated(void);
void break_price_stepped(void);
#if defined(__x86_64__)
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "test %eax, %eax"
#else
#define FIRST_EMULATED "nop"
#define FIRST_STEPPED "cmp x0, x0"
#endif
#define FUNCTION(name, first)                                               \
	__asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name  \
		", %function\n" #name ":\n\t" first "\n\tret\n.size " #name \
		", . - " #name "\n")
FUNCTION(break_price_emulated, FIRST_EMULATED);
FUNCTION(break_price_stepped, FIRST_STEPPED);

struct price {
	const struct break_settings *set;
	enum break_price_kind kind;
};

static int prepare(const void *arg)
{
	const struct price *p = arg;
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *t;
	uint64_t address = p->kind == BREAK_PRICE_EMULATED ?
				   (uintptr_t)break_price_emulated :
				   (uintptr_t)break_price_stepped;

	open_opts.flags = p->set->no_bpf ? TRAPLINE_NO_BPF : 0;
	opts.flags = p->set->stack ? TRAPLINE_STACK_BYTES : 0;
	int err = trapline_open(0, &open_opts, &t);
	if (err < 0)
		return err;
	if (p->kind == BREAK_PRICE_HARDWARE)
		return trapline_break(t, address, &opts, &event);
	opts.flags |= p->set->ret ? TRAPLINE_RETURNS : 0;
	return trapline_break_sites(t, &address, 1, &opts, &event);
}

double break_price_ns(const struct break_settings *set, enum break_price_kind kind)
{
	struct price p = { set, kind };

	return price_ns(prepare,
			kind == BREAK_PRICE_EMULATED ? break_price_emulated :
						       break_price_stepped,
			&p);
}
