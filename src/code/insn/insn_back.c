/* SPDX-License-Identifier: MIT */
/*
 * insn_back.c - see insn_back.h. tests/unit/test_insn_back.c compares it with single-stepped code.
 */
#include <errno.h>
#include <string.h>

#include "code/insn/insn_back.h"

#define FLAG_DIRECTION (1u << 10)
/* Intel may report a rep instruction after a group of its steps. */
#define REP_GROUP_BYTES 64
/* Fewer state nothing. */
#define VOTES_MIN 4

/* One query under way. */
struct search {
	const struct insn_back_query *query;
	struct insn_back *out;
	uint64_t pc;
};

/* The bytes before the pc, and the instructions that may end there. */
struct window {
	uint8_t bytes[INSN_BACK_WINDOW];
	unsigned int n; /* of them are known: the last is before the pc */
	uint16_t ends;	/* bit n: one of length n ends there */
	uint32_t chains;
	uint32_t votes[INSN_LENGTH_MAX + 1]; /* by length: chains of instructions that end in it */
};

static uint8_t enter_level(const struct insn *insn)
{
	/* The operand's size decides: 8 bytes and 8 for each level. */
	return (uint8_t)(insn->memory[0].size / 8 - 1);
}

static int is_leave(const struct insn *insn)
{
	return insn->memory_count == 1 && insn->memory[0].base == INSN_RBP &&
	       insn->memory[0].flags & INSN_MEM_IMPLICIT && insn->memory[0].access == INSN_READ;
}

static int is_enter(const struct insn *insn)
{
	const uint64_t frame = 1ull << INSN_RBP | 1ull << INSN_RSP;

	return insn->memory_count && insn->memory[0].base == INSN_RSP &&
	       insn->memory[0].flags & INSN_MEM_IMPLICIT && (insn->writes & frame) == frame &&
	       insn->memory[0].access == INSN_WRITE;
}

static void set_known(struct insn_regs *regs, unsigned int reg, uint64_t value)
{
	regs->r[reg] = value;
	regs->known |= 1ull << reg;
}

static void restore_stack(const struct insn *insn, const struct insn_regs *after,
			  struct insn_regs *before)
{
	if (!(after->known & 1ull << INSN_RSP))
		return;
	if (insn->flags & INSN_CHANGES_SP)
		set_known(before, INSN_RSP, after->r[INSN_RSP] - (uint64_t)insn->sp_change);
	else if (is_leave(insn))
		set_known(before, INSN_RBP, after->r[INSN_RSP] - insn->memory[0].size);
	else if (is_enter(insn) && enter_level(insn) == 0 && after->known & 1ull << INSN_RBP)
		set_known(before, INSN_RSP, after->r[INSN_RBP] + insn->memory[0].size);
}

/* One step back: the pointers moved by the size of an element. */
static void restore_string(const struct insn *insn, const struct insn_regs *after,
			   struct insn_regs *before)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		const uint64_t step = after->flags & FLAG_DIRECTION ? -(uint64_t)m->size : m->size;

		if (m->base < INSN_RIP && after->known & 1ull << m->base)
			set_known(before, m->base, after->r[m->base] - step);
	}
}

/*
 * The registers before insn, from those after, as far as they follow.
 *
 * What insn has overwritten leaves known, except where it follows: the stack pointer after push,
 * pop, leave and enter, and the pointers of string instructions.
 */
static void restore_registers(const struct insn *insn, uint64_t address,
			      const struct insn_regs *after, struct insn_regs *before)
{
	*before = *after;
	before->known &= ~insn->writes;
	set_known(before, INSN_RIP, address);
	if (insn->kind == INSN_STRING)
		restore_string(insn, after, before);
	else
		restore_stack(insn, after, before);
}

/* What a decoded instruction leaves for certain: 32-bit results have no upper half. */
static int contradicts(const struct insn *insn, const struct insn_regs *after)
{
	for (unsigned int reg = 0; reg < INSN_RIP; reg++)
		if (insn->clears_upper & after->known & 1ull << reg && after->r[reg] >> 32)
			return 1;
	return 0;
}

/* Does operand i of a rep instruction reach the watch within the group of steps behind it? */
static int touches_within_group(const struct search *s, const struct insn *insn, unsigned int i,
				const struct insn_regs *before)
{
	const struct insn_memory *m = &insn->memory[i];
	const uint64_t back = before->flags & FLAG_DIRECTION ? 0 : REP_GROUP_BYTES - m->size;
	uint64_t start;

	if (!(m->flags & INSN_MEM_REPEATS) || insn_address(insn, i, before, &start))
		return 0;
	start -= back;
	return s->query->watch - start < REP_GROUP_BYTES ||
	       start - s->query->watch < s->query->watch_bytes;
}

/* The best operand: 2 its address is known to touch, 1 it may, 0 none. */
static int find_operand(const struct search *s, const struct insn *insn,
			const struct insn_regs *before, unsigned int *operand)
{
	int best = 0;

	for (unsigned int i = 0; i < insn->memory_count; i++) {
		if (!(insn->memory[i].access & s->query->access))
			continue;
		const int touches =
			insn_touches(insn, i, before, s->query->watch, s->query->watch_bytes);
		int grade = touches == 1 ? 2 : touches == 2 || touches == -ENODATA;

		if (!grade && touches_within_group(s, insn, i, before))
			grade = 1;
		if (grade > best) {
			best = grade;
			*operand = i;
		}
	}
	return best;
}

/* An address that follows from the registers and fits is worth more than one that is lost. */
static uint32_t weight_of(const struct insn_back_candidate *c)
{
	return c->is_address_known ? c->votes * 4 : c->votes;
}

/* The heavier first; then the longer, which is the same with its prefixes. */
static int comes_before(const struct insn_back_candidate *a, const struct insn_back_candidate *b)
{
	if (weight_of(a) != weight_of(b))
		return weight_of(a) > weight_of(b);
	return a->length > b->length;
}

static void add_candidate(struct insn_back *out, const struct insn_back_candidate *candidate)
{
	unsigned int at = out->count;

	while (at && comes_before(candidate, &out->candidates[at - 1]))
		at--;
	if (out->count == INSN_BACK_MAX) {
		out->more++;
		if (at == INSN_BACK_MAX)
			return;
	} else {
		out->count++;
	}
	for (unsigned int i = out->count - 1u; i > at; i--)
		out->candidates[i] = out->candidates[i - 1];
	out->candidates[at] = *candidate;
}

static void add_found(struct search *s, const struct insn *insn, uint64_t address,
		      const struct insn_regs *before, unsigned int operand, int grade,
		      uint32_t votes)
{
	const struct insn_memory *m = &insn->memory[operand];
	struct insn_back_candidate candidate = {
		.address = address,
		.touched = s->query->watch,
		.size = m->size,
		.votes = votes,
		.flags = insn->flags,
		.length = insn->length,
		.kind = insn->kind,
		.access = m->access,
		.is_address_known = grade == 2,
		.operand = (uint8_t)operand,
	};

	if (grade == 2)
		insn_address(insn, operand, before, &candidate.touched);
	add_candidate(s->out, &candidate);
}

/* The code at address, as far as text has it: how many bytes, at most want. */
static size_t fetch(const struct search *s, uint64_t address, uint8_t *buf, size_t want)
{
	const struct insn_back_query *q = s->query;
	const uint64_t offset = address - q->text_address;

	if (offset >= q->text_bytes)
		return 0;
	const size_t left = q->text_bytes - offset;
	const size_t n = left < want ? left : want;

	memcpy(buf, q->text + offset, n);
	return n;
}

static int is_branch(const struct insn *insn)
{
	return insn->kind >= INSN_JUMP && insn->kind <= INSN_RETURN;
}

/* Takes insn, which ends at the pc or repeats at it, as a candidate if it is one. */
static void try_instruction(struct search *s, const struct insn *insn, uint64_t address,
			    uint32_t votes)
{
	struct insn_regs before;
	unsigned int operand = 0;

	if (is_branch(insn) || insn->flags & INSN_PRIVILEGED || contradicts(insn, s->query->after))
		return;
	restore_registers(insn, address, s->query->after, &before);
	const int grade = find_operand(s, insn, &before, &operand);
	if (grade)
		add_found(s, insn, address, &before, operand, grade, votes);
}

/* As many bytes before the pc as text has, a window's at most. */
static void fill_window(const struct search *s, struct window *w)
{
	const uint64_t in_text = s->pc - s->query->text_address;

	w->n = in_text < INSN_BACK_WINDOW ? (unsigned int)in_text : INSN_BACK_WINDOW;
	if (fetch(s, s->pc - w->n, w->bytes, w->n) != w->n)
		w->n = 0;
}

/* Each chain of instructions that begins in the bytes before the pc, and ends there, votes. */
static INSN_NOT_INLINED void look_before(const struct search *s, struct window *w)
{
	/*
	 * By distance from the pc: length of the last instruction of the chain that begins there.
	 */
	uint8_t last[INSN_BACK_WINDOW + 1] = { 0 };

	memset(w, 0, sizeof(*w));
	fill_window(s, w);
	for (unsigned int back = 1; back <= w->n; back++) {
		const int length = insn_length_x86_64(w->bytes + w->n - back, back);

		if (length <= 0 || (unsigned int)length > back)
			continue;
		last[back] = last[back - (unsigned int)length];
		if ((unsigned int)length == back) {
			last[back] = (uint8_t)back;
			w->ends |= (uint16_t)(1u << back);
		}
		if (!last[back])
			continue;
		w->votes[last[back]]++;
		w->chains++;
	}
}

static void try_before_pc(struct search *s)
{
	struct window w;
	struct insn insn;

	look_before(s, &w);
	s->out->chains = w.chains;
	for (unsigned int length = 1; length <= INSN_LENGTH_MAX; length++) {
		if (w.ends & 1u << length &&
		    !insn_decode_x86_64(w.bytes + w.n - length, length, &insn))
			try_instruction(s, &insn, s->pc - length, w.votes[length]);
	}
}

/* Between two of its steps a string instruction with rep has the pc at itself. */
static INSN_NOT_INLINED void try_at_pc(struct search *s)
{
	uint8_t bytes[INSN_LENGTH_MAX];
	struct insn insn;
	const size_t n = fetch(s, s->pc, bytes, sizeof(bytes));

	if (insn_decode_x86_64(bytes, n, &insn) || insn.kind != INSN_STRING ||
	    !(insn.flags & INSN_REPEATS))
		return;
	/* The pc is the start of an instruction for certain: no vote is needed. */
	try_instruction(s, &insn, s->pc, INSN_BACK_WINDOW);
}

/*
 * Is one of several so far ahead that the others are chance? The true one is among them, so votes
 * for starts that are not candidates do not count.
 */
static enum insn_back_found judge(const struct search *s)
{
	const struct insn_back *out = s->out;
	const struct insn_back_candidate *best = &out->candidates[0];
	const uint32_t second = out->count > 1 ? weight_of(&out->candidates[1]) : 0;

	if (!out->count)
		return INSN_BACK_NONE;
	if (best->votes >= VOTES_MIN && weight_of(best) > 3 * second)
		return INSN_BACK_LIKELY;
	return INSN_BACK_AMBIGUOUS;
}

int insn_back_x86_64(const struct insn_back_query *query, struct insn_back *out)
{
	struct search s = { .query = query, .out = out, .pc = query->after->r[INSN_RIP] };

	memset(out, 0, sizeof(*out));
	try_before_pc(&s);
	try_at_pc(&s);
	out->found = (uint8_t)judge(&s);
	return out->count + out->more;
}
