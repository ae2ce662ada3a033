/* SPDX-License-Identifier: MIT */
/*
 * frame_edges.c - see frame_edges.h.
 *
 * An edge leads from an instruction to the next one, or to the target of its jump. A return, and a
 * jump whose target is not known, end the variable before they run: it is watched too short, never
 * too long.
 */
#include "report/lang/frame_edges.h"

#include "code/insn/insn.h"
#include "report/dwarf/instruction.h"

#include <errno.h>
#include <stdlib.h>

#define SITES_MAX 1024
#define GAP_BYTES_MAX 64

struct edges {
	struct symbols *s;
	Dwfl_Module *mod;
	const struct frame_ranges *code;
	const struct frame_ranges *live;
	struct frame_variable *v;
	uint64_t no_cfa; /* an edge where the CFA is not known */
};

static bool is_in(const struct frame_ranges *ranges, uint64_t address)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (address >= ranges->range[i].start && address < ranges->range[i].end)
			return true;
	return false;
}

static int add_site(struct edges *e, struct frame_sites *to, uint64_t address)
{
	struct frame_site site;

	for (size_t i = 0; i < to->count; i++)
		if (to->site[i].address == address)
			return 0;
	if (!frame_cfa_at(e->mod, address, &site)) {
		e->no_cfa = address;
		return -EINVAL;
	}
	if (to->count == SITES_MAX)
		return -E2BIG;
	struct frame_site *more = reallocarray(to->site, to->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	to->site = more;
	more[to->count++] = site;
	return 0;
}

/* The kernel puts no breakpoint on an instruction with a lock prefix. */
static bool can_break(struct edges *e, uint64_t address, struct insn *insn)
{
	return code_decode(e->s, address, address + INSTRUCTION_BYTES_MAX, insn) ||
	       !(insn->flags & INSN_ATOMIC) || !code_has_lock(e->s, address, insn->length);
}

/* Behind such instructions: what they do to the variable is not seen. */
static int add_entry(struct edges *e, uint64_t address)
{
	struct insn insn;

	while (!can_break(e, address, &insn) && is_in(e->live, address + insn.length))
		address += insn.length;
	return add_site(e, &e->v->entries, address);
}

/* A global or thread-local variable, whose location is in the instruction. */
static bool is_global(const struct insn_memory *memory)
{
	return memory->index == INSN_NO_REG &&
	       (memory->base == INSN_RIP || memory->base == INSN_NO_REG) &&
	       !(memory->flags & (INSN_MEM_NOT_COMPUTABLE | INSN_MEM_LANES));
}

/* Does it access no memory in this way but that of global variables, and continue to the next? */
static bool is_without(const struct insn *insn, enum insn_access access)
{
	if (insn->kind != INSN_OTHER && insn->kind != INSN_NOP)
		return false;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].access & access && !is_global(&insn->memory[i]))
			return false;
	return true;
}

/* Behind those that access no memory of the stack, else before the thread leaves. */
static int add_exit(struct edges *e, uint64_t from, uint64_t address)
{
	struct insn insn;

	while (!can_break(e, address, &insn)) {
		if (insn.memory_count != 1 || !is_global(&insn.memory[0]) ||
		    is_in(e->live, address + insn.length))
			return add_site(e, &e->v->exits, from);
		address += insn.length;
	}
	return add_site(e, &e->v->exits, address);
}

/*
 * A thread is stopped behind the instruction of a site. If the first one writes to the stack, the
 * site is the one before it, which leads nowhere else.
 */
static uint64_t entry_of(struct edges *e, uint64_t from, uint64_t to)
{
	struct insn insn;
	struct insn before;

	if (code_decode(e->s, to, to + INSTRUCTION_BYTES_MAX, &insn) ||
	    is_without(&insn, INSN_WRITE) || !can_break(e, from, &before))
		return to;
	return before.kind == INSN_JUMP || is_without(&before, INSN_WRITE) ? from : to;
}

static int add_edge(struct edges *e, uint64_t from, uint64_t to)
{
	bool was_live = is_in(e->live, from);
	bool is_live = is_in(e->live, to);

	if (!was_live && is_live)
		return add_entry(e, entry_of(e, from, to));
	if (!was_live || is_live)
		return 0;
	/* To another function: that has no frame of this one below it any more. */
	return is_in(e->code, to) ? add_exit(e, from, to) : add_site(e, &e->v->exits, from);
}

static int edges_take(struct edges *e, uint64_t at, const struct insn *insn, uint64_t range_end)
{
	uint64_t next = at + insn->length;
	bool is_live = is_in(e->live, at);
	int err = 0;

	switch (insn->kind) {
	case INSN_RETURN:
		return is_live ? add_site(e, &e->v->exits, at) : 0;
	case INSN_JUMP_INDIRECT:
		e->v->jumps_in_doubt += !is_live;
		return is_live ? add_site(e, &e->v->exits, at) : 0;
	case INSN_JUMP:
		return add_edge(e, at, at + (uint64_t)insn->target);
	case INSN_TRAP:
		return 0;
	case INSN_JUMP_CONDITIONAL:
		err = add_edge(e, at, at + (uint64_t)insn->target);
		break;
	default:
		break;
	}
	/* Behind the last call of a range, which does not return, is another function. */
	if (err || (next >= range_end && !is_in(e->code, next)))
		return err;
	return add_edge(e, at, next);
}

static bool are_without(struct edges *e, uint64_t from, uint64_t to, enum insn_access access)
{
	struct insn insn;

	for (uint64_t at = from; at < to; at += insn.length)
		if (code_decode(e->s, at, to, &insn) || !is_without(&insn, access))
			return false;
	return true;
}

/*
 * Compilers move single instructions of the block away from it: those that access nothing do not
 * matter.
 */
static void drop_empty(struct edges *e, struct frame_ranges *live)
{
	size_t kept = 0;

	for (size_t i = 0; i < live->count; i++)
		if (!are_without(e, live->range[i].start, live->range[i].end, INSN_READ_WRITE))
			live->range[kept++] = live->range[i];
	live->count = kept ? kept : live->count;
}

/*
 * Compilers mix in single instructions of other blocks: where these write no memory that may be the
 * variable's, it continues to exist.
 */
static void fill_gaps(struct edges *e, struct frame_ranges *live)
{
	size_t kept = 0;

	for (size_t i = 1; i < live->count; i++) {
		if (live->range[i].start - live->range[kept].end <= GAP_BYTES_MAX &&
		    is_in(e->code, live->range[kept].end) &&
		    are_without(e, live->range[kept].end, live->range[i].start, INSN_WRITE))
			live->range[kept].end = live->range[i].end;
		else
			live->range[++kept] = live->range[i];
	}
	live->count = live->count ? kept + 1 : 0;
}

static int walk(struct edges *e, const struct frame_range *range)
{
	struct insn insn;
	int err = 0;

	for (uint64_t at = range->start; !err && at < range->end; at += insn.length) {
		if (code_decode(e->s, at, range->end, &insn))
			return -EILSEQ;
		err = edges_take(e, at, &insn, range->end);
	}
	return err;
}

int frame_edges_find(struct symbols *s, Dwfl_Module *mod, const struct frame_ranges *code,
		     struct frame_ranges *live, struct frame_variable *v, char *why, size_t n)
{
	struct edges e = { .s = s, .mod = mod, .code = code, .live = live, .v = v };
	int err = 0;

	drop_empty(&e, live);
	fill_gaps(&e, live);
	for (size_t i = 0; !err && i < code->count; i++)
		err = walk(&e, &code->range[i]);
	if (!err && code->count && is_in(live, code->range[0].start))
		err = add_site(&e, &v->entries, code_entry(s, code->range[0].start));
	if (err == -ENOMEM)
		return err;
	if (e.no_cfa)
		snprintf(
			why, n,
			"the frame at 0x%llx is not known: the unwind table (.eh_frame) has no simple "
			"rule there",
			(unsigned long long)e.no_cfa);
	else if (err)
		snprintf(why, n,
			 "its code cannot be decoded, so where the variable ends is not known");
	else if (!v->entries.count)
		snprintf(why, n, "no jump leads to the code in which it exists");
	return err || !v->entries.count ? -EINVAL : 0;
}
