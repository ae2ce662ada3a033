/* SPDX-License-Identifier: MIT */
/* insn_back.c - see insn_back.h. Held to single-stepped code by tests/unit/test_insn_back.c. */
#include <errno.h>
#include <string.h>

#include "code/insn_back.h"

#define FLAG_DIRECTION (1u << 10)
/* Intel may report a rep instruction after a group of its steps. */
#define REP_GROUP_BYTES 64
/* Fewer say nothing. A candidate that no chain can vote for, a return or jump, has as many. */
#define VOTES_MIN 4

/* One query under way. */
struct search {
	const struct insn_back_query *query;
	struct insn_back *out;
	uint64_t pc;
	uint64_t boundary; /* start of the instruction before pc, by known_start; 0 unknown */
};

/* The bytes before an address, and the instructions that may end there. */
struct window {
	uint8_t bytes[INSN_BACK_WINDOW];
	unsigned int n; /* of them are known: the last is before the address */
	uint16_t ends;	/* bit n: one of length n ends there */
	uint32_t chains;
	uint32_t votes[INSN_LENGTH_MAX +
		       1]; /* by length: chains of instructions that end in it */
};

static uint8_t enter_level(const struct insn *insn)
{
	/* The operand's size tells: 8 bytes and 8 for each level. */
	return (uint8_t)(insn->memory[0].size / 8 - 1);
}

static int is_leave(const struct insn *insn)
{
	return insn->memory_count == 1 && insn->memory[0].base == INSN_RBP &&
	       insn->memory[0].flags & INSN_MEM_IMPLICIT &&
	       insn->memory[0].access == INSN_READ;
}

static int is_enter(const struct insn *insn)
{
	const uint64_t frame = 1ull << INSN_RBP | 1ull << INSN_RSP;

	return insn->memory_count && insn->memory[0].base == INSN_RSP &&
	       insn->memory[0].flags & INSN_MEM_IMPLICIT &&
	       (insn->writes & frame) == frame && insn->memory[0].access == INSN_WRITE;
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
		set_known(before, INSN_RSP,
			  after->r[INSN_RSP] - (uint64_t)insn->sp_change);
	else if (is_leave(insn))
		set_known(before, INSN_RBP, after->r[INSN_RSP] - insn->memory[0].size);
	else if (is_enter(insn) && enter_level(insn) == 0 &&
		 after->known & 1ull << INSN_RBP)
		set_known(before, INSN_RSP, after->r[INSN_RBP] + insn->memory[0].size);
}

/* One step back: the pointers moved by the size of an element. */
static void restore_string(const struct insn *insn, const struct insn_regs *after,
			   struct insn_regs *before)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		const uint64_t step = after->flags & FLAG_DIRECTION ? -(uint64_t)m->size :
								      m->size;

		if (m->base < INSN_RIP && after->known & 1ull << m->base)
			set_known(before, m->base, after->r[m->base] - step);
	}
}

void insn_back_registers(const struct insn *insn, uint64_t address,
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
		if (insn->clears_upper & after->known & 1ull << reg &&
		    after->r[reg] >> 32)
			return 1;
	return 0;
}

/* Does operand i of a rep instruction reach the watch within the group of steps behind it? */
static int touches_within_group(const struct search *s, const struct insn *insn,
				unsigned int i, const struct insn_regs *before)
{
	const struct insn_memory *m = &insn->memory[i];
	const uint64_t back = before->flags & FLAG_DIRECTION ? 0 :
							       REP_GROUP_BYTES - m->size;
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
		const int touches = insn_touches(insn, i, before, s->query->watch,
						 s->query->watch_bytes);
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
static int comes_before(const struct insn_back_candidate *a,
			const struct insn_back_candidate *b)
{
	if (weight_of(a) != weight_of(b))
		return weight_of(a) > weight_of(b);
	return a->length > b->length;
}

static void add_candidate(struct insn_back *out,
			  const struct insn_back_candidate *candidate)
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

/* The code at address, from text or from memory: how many bytes, at most want. */
static size_t fetch(const struct search *s, uint64_t address, uint8_t *buf, size_t want)
{
	const struct insn_back_query *q = s->query;
	const uint64_t offset = address - q->text_address;

	if (offset < q->text_bytes) {
		const size_t left = q->text_bytes - offset;
		const size_t n = left < want ? left : want;

		memcpy(buf, q->text + offset, n);
		return n;
	}
	if (q->memory && !q->memory->read(q->memory->context, address, buf, want))
		return want;
	return 0;
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

	if (is_branch(insn) || insn->flags & INSN_PRIVILEGED ||
	    contradicts(insn, s->query->after))
		return;
	insn_back_registers(insn, address, s->query->after, &before);
	const int grade = find_operand(s, insn, &before, &operand);
	if (grade)
		add_found(s, insn, address, &before, operand, grade, votes);
}

/* As many bytes before end as can be had: a window's, or what text has of it. */
static void fill_window(const struct search *s, uint64_t end, struct window *w)
{
	const uint64_t in_text = end - s->query->text_address;

	w->n = INSN_BACK_WINDOW;
	if (fetch(s, end - w->n, w->bytes, w->n) == w->n)
		return;
	w->n = in_text < INSN_BACK_WINDOW ? (unsigned int)in_text : 0;
	if (fetch(s, end - w->n, w->bytes, w->n) != w->n)
		w->n = 0;
}

/* Each chain of instructions that begins in the bytes before end, and ends there, votes. */
static void look_before(const struct search *s, uint64_t end, struct window *w)
{
	/* By distance from end: length of the last instruction of the chain that begins there. */
	uint8_t last[INSN_BACK_WINDOW + 1] = { 0 };

	memset(w, 0, sizeof(*w));
	fill_window(s, end, w);
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

/* The instruction that ends at the pc, if known_start leads there. */
static void decode_forward(struct search *s)
{
	const struct insn_back_query *q = s->query;
	uint64_t at = q->known_start;
	uint64_t previous = 0;

	if (!at || at > s->pc || s->pc - at > INSN_BACK_FORWARD_MAX ||
	    at - q->text_address > q->text_bytes ||
	    s->pc - q->text_address > q->text_bytes)
		return;
	while (at < s->pc) {
		const int length =
			insn_length_x86_64(q->text + (at - q->text_address), s->pc - at);
		if (length <= 0)
			return;
		previous = at;
		at += (unsigned int)length;
	}
	s->boundary = previous;
}

static void try_before_pc(struct search *s)
{
	struct window w;
	struct insn insn;

	look_before(s, s->pc, &w);
	s->out->chains = w.chains;
	for (unsigned int length = 1; length <= INSN_LENGTH_MAX; length++) {
		if (!(w.ends & 1u << length) ||
		    (s->boundary && s->pc - length != s->boundary))
			continue;
		if (!insn_decode_x86_64(w.bytes + w.n - length, length, &insn))
			try_instruction(s, &insn, s->pc - length, w.votes[length]);
	}
}

/* Between two of its steps a string instruction with rep has the pc at itself. */
static void try_at_pc(struct search *s)
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

static int read_word(const struct search *s, uint64_t address, uint64_t *out)
{
	const struct insn_memory_access *memory = s->query->memory;

	return memory ? memory->read(memory->context, address, out, 8) : -EOPNOTSUPP;
}

/* Would this call, with these registers before it, have led to the pc? */
static int leads_to_pc(const struct search *s, const struct insn *call, uint64_t address,
		       const struct insn_regs *before)
{
	uint64_t place;
	uint64_t target;

	if (call->kind == INSN_CALL)
		return address + (uint64_t)call->target == s->pc;
	if (call->target_reg != INSN_NO_REG)
		return before->r[call->target_reg] == s->pc;
	return !insn_address(call, 0, before, &place) && !read_word(s, place, &target) &&
	       target == s->pc;
}

static int is_call(const struct insn *insn)
{
	return insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT;
}

/* The pc may be the entry of what a call called: the return address tells which. */
static void try_call(struct search *s)
{
	const struct insn_regs *after = s->query->after;
	struct window w;
	struct insn insn;
	struct insn_regs before;
	uint64_t back;

	if (!(after->known & 1ull << INSN_RSP) || read_word(s, after->r[INSN_RSP], &back))
		return;
	look_before(s, back, &w);
	for (unsigned int length = 2; length <= INSN_LENGTH_MAX; length++) {
		const uint64_t address = back - length;
		unsigned int operand = 0;

		if (!(w.ends & 1u << length) ||
		    insn_decode_x86_64(w.bytes + w.n - length, length, &insn) ||
		    !is_call(&insn))
			continue;
		insn_back_registers(&insn, address, after, &before);
		const int grade = find_operand(s, &insn, &before, &operand);
		if (grade && leads_to_pc(s, &insn, address, &before))
			add_found(s, &insn, address, &before, operand, grade,
				  w.votes[length]);
	}
}

/* A read of the watch that took the pc from there, by an instruction whose place is lost. */
static void add_elsewhere(struct search *s, enum insn_kind kind, uint64_t touched)
{
	const struct insn_back_candidate candidate = {
		.touched = touched,
		.size = 8,
		.kind = (uint8_t)kind,
		.access = INSN_READ,
		.is_address_known = 1,
		.votes = VOTES_MIN,
	};

	if (touched - s->query->watch < s->query->watch_bytes ||
	    s->query->watch - touched < 8)
		add_candidate(s->out, &candidate);
}

static void try_elsewhere(struct search *s)
{
	const struct insn_regs *after = s->query->after;
	const uint64_t watched_word = s->query->watch & ~7ull;
	const uint64_t below = after->r[INSN_RSP] - 8;
	uint64_t word;

	if (!(s->query->access & INSN_READ))
		return;
	if (after->known & 1ull << INSN_RSP && !read_word(s, below, &word) &&
	    word == s->pc) {
		add_elsewhere(s, INSN_RETURN, below);
		if (below == watched_word)
			return;
	}
	if (!read_word(s, watched_word, &word) && word == s->pc)
		add_elsewhere(s, INSN_JUMP_INDIRECT, watched_word);
}

/*
 * Is one of several so far ahead that the others are chance? The true one is among them, so votes
 * for starts that are no candidates do not count.
 */
static enum insn_back_found judge(const struct search *s)
{
	const struct insn_back *out = s->out;
	const struct insn_back_candidate *best = &out->candidates[0];
	const uint32_t second = out->count > 1 ? weight_of(&out->candidates[1]) : 0;

	if (!out->count)
		return INSN_BACK_NONE;
	/* The instruction before the pc is known, and no branch has led here instead. */
	if (s->boundary && out->count == 1 && best->address &&
	    (best->is_address_known || s->query->memory))
		return INSN_BACK_CERTAIN;
	if (best->votes >= VOTES_MIN && weight_of(best) > 3 * second)
		return INSN_BACK_LIKELY;
	return INSN_BACK_AMBIGUOUS;
}

int insn_back_x86_64(const struct insn_back_query *query, struct insn_back *out)
{
	struct search s = { .query = query, .out = out, .pc = query->after->r[INSN_RIP] };

	memset(out, 0, sizeof(*out));
	decode_forward(&s);
	try_before_pc(&s);
	try_at_pc(&s);
	try_call(&s);
	try_elsewhere(&s);
	out->found = (uint8_t)judge(&s);
	return out->count + out->more;
}
