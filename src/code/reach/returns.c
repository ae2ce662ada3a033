/* SPDX-License-Identifier: MIT */
/*
 * returns.c - see returns.h: control flow from the first instruction on, jump by jump, with the
 * tables of switches and the landing pads of exceptions. Not for handlers.
 */
#include "code/reach/returns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/sort.h"
#include "code/reach/back.h"
#include "code/reach/returns_priv.h"

#define RANGES_MAX 64u
#define STEPS_MAX (1u << 17)
#define UNSURE_MAX 256u

/* An instruction that was reached. */
struct reached {
	uint64_t address; /* 0: none */
	uint32_t length;
};

/* A location to continue at, and what ran before it. */
struct later {
	uint64_t address;
	struct returns_history history;
};

struct search {
	const struct returns_code *code;
	struct returns_found *out;
	struct returns_range range[RANGES_MAX];
	uint32_t ranges;
	struct reached *reached; /* a hash table */
	uint32_t reached_count;
	uint32_t reached_size; /* a power of 2 */
	struct later *todo;
	size_t todo_count;
	size_t todo_size;
	struct returns_history history;
	uint64_t avoided[RANGES_MAX]; /* functions that are not understood, where they begin */
	uint32_t avoided_count;
	uint64_t unsure[UNSURE_MAX]; /* what follows a call that may never come back */
	uint32_t unsure_count;
	/* what returns_is_sole_way() asks; 0: nothing is asked */
	uint64_t asked_before;
	uint64_t asked_behind;
	int asked_ways;	    /* to what lies behind, by jumps and exceptions */
	int loads_last;	    /* the address of a function that never returns: */
	int is_by_register; /* a call that may lead there */
};

static struct reached *slot_of(const struct search *s, uint64_t address)
{
	uint32_t mask = s->reached_size - 1;
	uint32_t i = (uint32_t)(address * HASH_MIX >> 32) & mask;

	while (s->reached[i].address && s->reached[i].address != address)
		i = (i + 1) & mask;
	return &s->reached[i];
}

static int grow(struct search *s)
{
	struct reached *old = s->reached;
	uint32_t size = s->reached_size;

	if (size >= 2 * STEPS_MAX)
		return -E2BIG;
	struct reached *bigger = calloc(size ? 2 * (size_t)size : 1024, sizeof(*old));
	if (!bigger)
		return -ENOMEM;
	s->reached = bigger;
	s->reached_size = size ? 2 * size : 1024;
	for (uint32_t i = 0; i < size; i++)
		if (old[i].address)
			*slot_of(s, old[i].address) = old[i];
	free(old);
	return 0;
}

/* 1: it was not reached before; 0; or -errno. */
static int reach(struct search *s, uint64_t address, uint32_t length)
{
	int err = 2 * s->reached_count >= s->reached_size ? grow(s) : 0;

	if (err)
		return err;
	struct reached *slot = slot_of(s, address);
	if (slot->address)
		return 0;
	*slot = (struct reached){ address, length };
	s->reached_count++;
	return 1;
}

/* history NULL: nothing is known about what ran before. */
static int push(struct search *s, uint64_t address, const struct returns_history *history)
{
	if (grow_room(s->todo, s->todo_count, s->todo_size))
		return -ENOMEM;
	struct later *later = &s->todo[s->todo_count++];
	later->address = address;
	s->asked_ways += s->asked_behind && address == s->asked_behind;
	if (history)
		later->history = *history;
	else
		later->history.count = 0;
	return 0;
}

static int add_exit(struct search *s, uint64_t address, int is_jump)
{
	struct returns_found *out = s->out;

	for (size_t i = 0; i < out->count; i++)
		if (out->exit[i].address == address)
			return 0;
	if (grow_room(out->exit, out->count, out->capacity))
		return -ENOMEM;
	out->exit[out->count++] = (struct returns_exit){ address, is_jump };
	return 0;
}

static const struct returns_range *range_at(const struct search *s, uint64_t address)
{
	for (uint32_t i = 0; i < s->ranges; i++)
		if (address >= s->range[i].start && address < s->range[i].end)
			return &s->range[i];
	return NULL;
}

static int push_handler(void *arg, uint64_t address)
{
	return push(arg, address, NULL);
}

/* 0, or -ENOENT: no entry of the unwind table, or too many functions. */
static int need_range(struct search *s, uint64_t address)
{
	struct returns_range range;

	if (range_at(s, address))
		return 0;
	if (s->ranges == RANGES_MAX)
		return -ENOENT;
	int err = s->code->range(s->code->arg, address, &range);
	if (err)
		return err;
	for (uint32_t i = 0; i < s->avoided_count; i++)
		if (s->avoided[i] == range.start)
			return -ENOENT;
	s->range[s->ranges++] = range;
	return returns_each_handler(s->code, &range, push_handler, s);
}

static int decode(const struct search *s, uint64_t address, struct returns_step *step)
{
	size_t n = s->code->copy(s->code->arg, address, step->bytes, sizeof(step->bytes));

	memset(step->bytes + n, 0, sizeof(step->bytes) - n);
	step->address = address;
	return n ? insn_decode(step->bytes, n, &step->insn) : -EILSEQ;
}

/* The word that a jump or call through memory at a fixed distance reads: an import. */
static int names_word(const struct returns_step *step, uint64_t *at)
{
	if ((step->insn.kind != INSN_JUMP_INDIRECT && step->insn.kind != INSN_CALL_INDIRECT) ||
	    !step->insn.memory_count || !(step->insn.flags & INSN_PC_RELATIVE))
		return 0;
	*at = step->address + (uint64_t)step->insn.target;
	return 1;
}

/* The stub that jumps to an imported function: 1, with the jump. */
static int is_stub(const struct search *s, uint64_t address, struct returns_step *jump)
{
	uint64_t unused;

	for (int i = 0; i < 2 && !decode(s, address, jump); i++) {
		if (jump->insn.kind == INSN_JUMP_INDIRECT && names_word(jump, &unused))
			return 1;
		if (jump->insn.kind != INSN_LANDING)
			break;
		address += jump->insn.length;
	}
	return 0;
}

#if defined(__x86_64__)
#define PUSH_NUMBER 0x68
#endif

/* It is not bound yet: the word leads to the loader, with the import's number. */
static int asks_loader(const struct search *s, uint64_t address)
{
	struct returns_step step;

	if (decode(s, address, &step))
		return 1;
	if (step.insn.kind == INSN_LANDING && decode(s, address + step.insn.length, &step))
		return 1;
#ifdef PUSH_NUMBER
	return step.bytes[0] == PUSH_NUMBER;
#else
	return 1;
#endif
}

/* 1: the jump through a word leads to code of this file, which is to be followed. */
static int follow_word(struct search *s, const struct returns_step *jump)
{
	uint64_t at;
	uint64_t target;

	if (!names_word(jump, &at) || s->code->word(s->code->arg, at, &target))
		return 0;
	int err = need_range(s, target);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (asks_loader(s, target))
		return 0;
	err = push(s, target, NULL);
	return err ? err : 1;
}

static void remember(struct returns_history *h, const struct returns_step *step)
{
	if (h->count == RETURNS_HISTORY) {
		h->is_whole = 0;
		memmove(h->step, h->step + 1, --h->count * sizeof(*step));
	}
	h->step[h->count++] = *step;
}

/* Where a branch goes if it is taken: what follows it there has the opposite condition. */
static int push_branch(struct search *s, const struct returns_step *step, uint64_t target)
{
	int err = push(s, target, &s->history);

	if (err)
		return err;
	if (step->address == s->asked_before)
		s->asked_ways--; /* a jump to what follows it is the way itself */
	struct returns_history *h = &s->todo[s->todo_count - 1].history;
	remember(h, step);
	if (step->insn.kind == INSN_JUMP_CONDITIONAL)
		h->step[h->count - 1].insn.condition ^= 1;
	return 0;
}

/* A branch to a location that it names: within the function, to another, or to an imported one. */
static int follow_branch(struct search *s, const struct returns_step *step)
{
	uint64_t target = step->address + (uint64_t)step->insn.target;
	struct returns_step stub;
	int err;

	if (!range_at(s, target) && is_stub(s, target, &stub)) {
		err = follow_word(s, &stub);
		if (err)
			return err < 0 ? err : 0;
		/* A condition may keep a branch from being taken, and then it is not an exit. */
		return add_exit(s, step->insn.kind == INSN_JUMP ? step->address : stub.address, 1);
	}
	err = need_range(s, target);
	if (err == -ENOENT && step->insn.kind == INSN_JUMP)
		return add_exit(s, step->address, 1);
	if (err == -ENOENT)
		return -EOPNOTSUPP;
	return err ? err : push_branch(s, step, target);
}

static int follow_table(struct search *s, const struct returns_table *table)
{
	uint64_t target;
	int err = 0;

	for (uint32_t i = 0; !err && i < table->count; i++) {
		err = returns_table_entry(s->code, table, i, &target);
		/* A switch stays in its function: its code and its cold part. */
		if (!err && !range_at(s, target))
			err = -EOPNOTSUPP;
		if (!err)
			err = push(s, target, NULL);
	}
	return err;
}

static int follow_indirect(struct search *s, const struct returns_step *step)
{
	struct returns_table table;
	uint64_t unused;

	if (names_word(step, &unused)) {
		int err = follow_word(s, step);
		return err ? (err < 0 ? err : 0) : add_exit(s, step->address, 1);
	}
	switch (returns_jump_kind(s->code, &s->history, step, &table)) {
	case RETURNS_JUMP_TABLE:
		return follow_table(s, &table);
	case RETURNS_JUMP_CALL:
		return add_exit(s, step->address, 1);
	default:
		return -EOPNOTSUPP;
	}
}

/*
 * If it is not known whether a call comes back, returns or constants may be behind it: only another
 * way to that location shows which.
 */
static int note_unsure(struct search *s, uint64_t behind)
{
	if (s->unsure_count == UNSURE_MAX)
		return -E2BIG;
	s->unsure[s->unsure_count++] = behind;
	return 0;
}

/*
 * A call comes back to what follows it, unless what it calls never returns. One into its own
 * function may not: code steps over data so, and changes where it returns to.
 */
static int follow_call(struct search *s, const struct returns_step *step, uint64_t entry)
{
	uint64_t target = step->address + (uint64_t)step->insn.target;
	const struct returns_range *range = range_at(s, step->address);
	const uint64_t behind = step->address + step->insn.length;

	if (back_is_by_register(&step->insn)) {
		s->is_by_register = 1;
		return 1;
	}
	if (step->insn.kind == INSN_CALL && target == behind)
		return 1;
	if (step->insn.kind == INSN_CALL && range && target > range->start && target < range->end &&
	    target != entry)
		return -EOPNOTSUPP;
	switch (s->code->comes_back(s->code->arg, step->address, &step->insn)) {
	case BACK_YES:
		return 1;
	case BACK_NEVER:
		return 0;
	default:
		return note_unsure(s, behind);
	}
}

/* 1: the next instruction follows it; 0: none does; or -errno. */
static int returns_follow(struct search *s, const struct returns_step *step, uint64_t entry)
{
	int err;

	if (step->insn.flags & (INSN_FAR | INSN_PRIVILEGED))
		return 0;
	switch (step->insn.kind) {
	case INSN_RETURN:
		return add_exit(s, step->address, 0);
	case INSN_JUMP:
		return follow_branch(s, step);
	case INSN_JUMP_CONDITIONAL:
		err = follow_branch(s, step);
		return err ? err : 1;
	case INSN_JUMP_INDIRECT:
		return follow_indirect(s, step);
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
		return follow_call(s, step, entry);
	case INSN_TRAP:
		/* A breakpoint of the program's own may be passed; ud2 is not. */
		return step->insn.arch == INSN_X86_64 && step->bytes[0] != 0x0f;
	default:
		return 1;
	}
}

/* One instruction after the other, to where none follows or the rest is known. */
static int run(struct search *s, uint64_t entry)
{
	uint64_t address = s->todo[--s->todo_count].address;
	struct returns_step step;
	int err = need_range(s, address);
	const struct returns_range *range = range_at(s, address);

	s->history = s->todo[s->todo_count].history;
	if (!s->history.count)
		s->history.is_whole = address == entry;
	/* What comes after a call that does not return may be another function, or no code. */
	while (!err && range && address >= range->start && address < range->end) {
		s->out->stopped_at = address;
		err = decode(s, address, &step);
		if (err)
			return -EILSEQ;
		int is_new = reach(s, address, step.insn.length);
		if (is_new <= 0)
			return is_new;
		int goes_on = returns_follow(s, &step, entry);
		if (goes_on <= 0)
			return goes_on;
		s->loads_last |=
			s->code->loads_last(s->code->arg, step.address, step.bytes, &step.insn);
		remember(&s->history, &step);
		address += step.insn.length;
	}
	return err == -ENOENT ? -EOPNOTSUPP : err;
}

static int by_address(const void *a, const void *b)
{
	const struct reached *x = a;
	const struct reached *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/*
 * Instructions that overlap show that something was taken for code and is not. A prefix may be
 * jumped over, as that of a locked instruction is: then both end at one address.
 */
static int check_overlaps(struct search *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->reached_size; i++)
		if (s->reached[i].address)
			s->reached[n++] = s->reached[i];
	sort_rows(s->reached, n, sizeof(*s->reached), by_address);
	for (uint32_t i = 0; i + 1 < n; i++) {
		uint64_t end = s->reached[i].address + s->reached[i].length;

		if (end <= s->reached[i + 1].address)
			continue;
		s->out->stopped_at = s->reached[i + 1].address;
		if (end != s->reached[i + 1].address + s->reached[i + 1].length)
			return -EILSEQ;
	}
	return 0;
}

static int search_once(struct search *s, uint64_t start)
{
	s->ranges = 0;
	s->todo_count = 0;
	s->reached_count = 0;
	if (s->reached_size)
		memset(s->reached, 0, s->reached_size * sizeof(*s->reached));
	s->out->count = 0;
	s->out->stopped_at = start;
	s->unsure_count = 0;
	s->loads_last = s->is_by_register = s->asked_ways = 0;
	int err = need_range(s, start);
	if (!err)
		err = push(s, start, NULL);
	while (!err && s->todo_count)
		err = run(s, start);
	if (!err && s->loads_last && s->is_by_register)
		err = -EOPNOTSUPP;
	for (uint32_t i = 0; !err && i < s->unsure_count; i++) {
		s->out->stopped_at = s->unsure[i] - 1;
		if (!slot_of(s, s->unsure[i])->address)
			err = -ENOLINK;
	}
	return err ? err : check_overlaps(s);
}

/* A function that this one ends with a jump to is not understood: the jump leaves what is known. */
static int can_avoid(struct search *s, int err)
{
	const struct returns_range *range = range_at(s, s->out->stopped_at);

	if ((err != -EOPNOTSUPP && err != -EILSEQ && err != -ENOLINK) || !range ||
	    range == &s->range[0] || s->avoided_count == RANGES_MAX)
		return 0;
	s->avoided[s->avoided_count++] = range->start;
	return 1;
}

static void search_free(struct search *s)
{
	free(s->reached);
	free(s->todo);
	free(s);
}

static struct search *search_new(const struct returns_code *code, struct returns_found *out)
{
	struct search *s = calloc(1, sizeof(*s));

	memset(out, 0, sizeof(*out));
	if (s) {
		s->code = code;
		s->out = out;
	}
	return s;
}

int returns_find(const struct returns_code *code, uint64_t start, struct returns_found *out)
{
	struct search *s = search_new(code, out);

	int err;

	if (!s)
		return -ENOMEM;
	do {
		err = search_once(s, start);
	} while (err && can_avoid(s, err));
	search_free(s);
	return err;
}

/* After a search, whose table check_overlaps() has sorted. */
static int is_reached(const struct search *s, uint64_t address)
{
	for (uint32_t i = 0; i < s->reached_count; i++)
		if (s->reached[i].address == address)
			return 1;
	return 0;
}

int returns_is_sole_way(const struct returns_code *code, uint64_t start, uint64_t before,
			uint64_t behind)
{
	struct returns_found found;
	struct search *s = search_new(code, &found);

	if (!s)
		return -ENOMEM;
	s->asked_before = before;
	s->asked_behind = behind;
	/* What is not understood may lead there, so nothing is avoided. */
	int result = search_once(s, start);
	if (!result)
		result = !s->asked_ways && is_reached(s, before) && is_reached(s, behind);
	search_free(s);
	returns_free(&found);
	return result;
}

void returns_free(struct returns_found *found)
{
	free(found->exit);
	memset(found, 0, sizeof(*found));
}
