/* SPDX-License-Identifier: MIT */
/*
 * back.c - see back.h.
 *
 * A function has no end here: jumps are followed wherever they lead, and the first return that is
 * found is the answer. An answer that relies on a function whose own answer is not there yet
 * (recursion), or that was cut short, is not remembered.
 */
#include "code/reach/back.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "code/reach/last_function.h"

#define ANSWERS TABLE_SIZE(65536u, 64u)
#define SEEN 32768u
#define WAYS 8192u
#define WINDOW 512u
#define DEPTH_MAX 24u	     /* the stack may be a small one */
#define INSNS_MAX 16384u     /* of one function */
#define INSNS_IN_ALL 262144u /* of one question */
#define STEP_OVER 64u	     /* bytes of data that code steps over by a call */
#define NO_DEPTH UINT32_MAX

struct answer {
	uint64_t address; /* of a function or a word; 0: free row */
	uint32_t answer;
	uint32_t depth; /* BACK_ASKED: in the chain */
};

struct seen {
	uint64_t pc;
	uint64_t serial; /* of the function that is asked; 0: free row */
};

/* A function that is inspected. */
struct asked {
	uint64_t serial;
	uint32_t depth;
	uint32_t first_way;
	uint32_t insns;
	uint32_t lowest;	/* the first of the chain whose answer this one waits for */
	uint32_t is_unsure : 1; /* a way ends where it is not known how it continues */
	uint32_t is_cut : 1;	/* that was for want of room or time */
	uint32_t loads_last : 1;
	uint32_t is_chooser : 1; /* what it loads is asked, not whether it returns */
	uint32_t has_choice : 1;
};

struct back {
	struct back_ops ops;
	struct linkage linkage;
	uint64_t serial;
	uint32_t answer_count;
	uint32_t seen_count;
	uint32_t way_count;
	uint32_t insns; /* of this question */
	uint64_t window_at;
	size_t window_bytes;
	uint8_t window[WINDOW];
	uint64_t ways[WAYS];
	struct seen seen[SEEN];
	struct answer answers[ANSWERS];
};

static enum back_answer ask(struct back *b, struct asked *by, uint64_t address);
static enum back_answer ask_word(struct back *b, struct asked *by, uint64_t word);

struct back *back_open(const struct back_ops *ops)
{
	struct back *b = memory_map(sizeof(*b));

	if (memory_failed(b))
		return NULL;
	b->ops = *ops;
	b->linkage.memory.copy = ops->copy;
	b->linkage.memory.arg = ops->arg;
	return b;
}

static void back_forget(struct back *b)
{
	if (!b->answer_count)
		return; /* a table that is still empty has no memory yet */
	memset(b->answers, 0, sizeof(b->answers));
	b->answer_count = 0;
}

void back_close(struct back *b)
{
	if (!b)
		return;
	linkage_clear(&b->linkage);
	memory_unmap(b, sizeof(*b));
}

struct linkage *back_objects(struct back *b)
{
	linkage_clear(&b->linkage);
	back_forget(b);
	b->window_bytes = 0;
	return &b->linkage;
}

/* ---- tables ---- */

/* NULL: there is no room. */
static struct answer *answer_of(struct back *b, uint64_t address)
{
	uint64_t at = address * HASH_MIX >> 32;

	for (uint32_t i = 0; i < ANSWERS; i++) {
		struct answer *a = &b->answers[(at + i) % ANSWERS];

		if (a->address == address)
			return a;
		if (a->address)
			continue;
		if (b->answer_count == ANSWERS * 3 / 4)
			return NULL;
		b->answer_count++;
		a->address = address;
		return a;
	}
	return NULL;
}

/* 1: it was not, until now; 0; -1: there is no room. */
static int see(struct back *b, const struct asked *f, uint64_t pc)
{
	uint64_t at = (pc ^ f->serial << 20) * HASH_MIX >> 32;

	for (uint32_t i = 0; i < SEEN; i++) {
		struct seen *s = &b->seen[(at + i) % SEEN];

		if (s->serial == f->serial && s->pc == pc)
			return 0;
		if (s->serial)
			continue;
		if (b->seen_count == SEEN * 3 / 4)
			return -1;
		b->seen_count++;
		*s = (struct seen){ pc, f->serial };
		return 1;
	}
	return -1;
}

static size_t back_read(struct back *b, uint64_t pc, uint8_t *code)
{
	if (pc - b->window_at >= b->window_bytes ||
	    b->window_bytes - (pc - b->window_at) < INSN_LENGTH_MAX) {
		b->window_at = pc;
		b->window_bytes = b->ops.code(b->ops.arg, pc, b->window, WINDOW);
	}
	uint64_t from = pc - b->window_at;
	size_t n = b->window_bytes > from ? b->window_bytes - from : 0;

	if (n > INSN_LENGTH_MAX)
		n = INSN_LENGTH_MAX;
	memset(code, 0, INSN_LENGTH_MAX);
	memcpy(code, b->window + from, n);
	return n;
}

static int back_decode(struct back *b, uint64_t pc, uint8_t *code, struct insn *insn)
{
	size_t n = back_read(b, pc, code);

	return n ? insn_decode(code, n, insn) : -EFAULT;
}

static int is_code(struct back *b, uint64_t address)
{
	const struct linkage_object *o = linkage_at(&b->linkage, address);

	return o && address - o->text_start < o->text_end - o->text_start;
}

static enum back_answer not_known(struct asked *by, int is_cut)
{
	by->is_unsure = 1;
	by->is_cut |= is_cut != 0;
	return BACK_UNSURE;
}

/* ---- words that calls go through ---- */

/*
 * endbr64, bnd, and jmp *word(%rip): what compilers and linkers put between. 0: it is not such a
 * word.
 */
static uint64_t word_of_stub(struct back *b, uint64_t stub)
{
	uint8_t code[INSN_LENGTH_MAX];
	struct insn insn;

	for (int i = 0; i < 2 && !back_decode(b, stub, code, &insn); i++, stub += insn.length) {
		if (insn.kind == INSN_JUMP_INDIRECT && !back_is_by_register(&insn))
			return stub + (uint64_t)insn.target;
		if (insn.kind != INSN_LANDING)
			break;
	}
	return 0;
}

/* It is not bound yet: the word leads to the loader, with the import's number. */
static int is_unbound(struct back *b, uint64_t target)
{
	uint8_t code[INSN_LENGTH_MAX];
	struct insn insn;

	if (!is_code(b, target) || back_decode(b, target, code, &insn))
		return 1;
	if (insn.kind == INSN_LANDING && back_decode(b, target + insn.length, code, &insn))
		return 1;
	return insn.arch == INSN_X86_64 && code[0] == 0x68; /* push of a number */
}

/* A function that never returns is not the choice of another one. */
static enum back_answer ask_chooser(struct back *b, struct asked *by, uint64_t chooser);

/*
 * Any definition may be the one. The objects in which a name is looked for depend on how the object
 * was opened, and an object that is opened later may come first.
 */
static enum back_answer ask_name(struct back *b, struct asked *by, const char *name)
{
	enum back_answer result = BACK_UNKNOWN;

	for (uint32_t i = 0; i < b->linkage.count; i++) {
		enum back_answer one = BACK_UNKNOWN;
		uint64_t address;

		switch (linkage_find(&b->linkage, &b->linkage.objects[i], name, &address)) {
		case LINKAGE_NONE:
			continue;
		case LINKAGE_FUNCTION:
			one = ask(b, by, address);
			break;
		case LINKAGE_CHOOSER:
			one = ask_chooser(b, by, address);
			break;
		}
		if (one == BACK_NEVER)
			return one;
		if (result != BACK_UNSURE)
			result = one;
	}
	return result && !b->linkage.is_full ? result : not_known(by, 0);
}

static enum back_answer find_word(struct back *b, struct asked *by, uint64_t word)
{
	struct linkage_object *o = linkage_at(&b->linkage, word);
	char name[LINKAGE_NAME_MAX];
	uint64_t target = 0;

	int has_name = o ? linkage_name(&b->linkage, o, word, name) : 0;
	if (has_name > 0 && last_function_is(name))
		return BACK_NEVER;
	if (has_name < 0 || (!o && b->linkage.is_full))
		return not_known(by, 0);
	if (!b->ops.copy(b->ops.arg, word, &target, sizeof(target)))
		target = 0;
	if (!is_unbound(b, target))
		return ask(b, by, target);
	return has_name ? ask_name(b, by, name) : BACK_YES;
}

static enum back_answer ask_word(struct back *b, struct asked *by, uint64_t word)
{
	struct answer *row = answer_of(b, word);
	/*
	 * The answer for the word alone: it is remembered if nothing was cut, and nothing is waited
	 * for.
	 */
	struct asked here = { .depth = by->depth, .lowest = NO_DEPTH };

	if (row && row->answer)
		return row->answer;
	enum back_answer answer = find_word(b, &here, word);
	if (here.lowest < by->lowest)
		by->lowest = here.lowest;
	if (row && !here.is_cut && here.lowest == NO_DEPTH)
		row->answer = answer;
	by->is_cut |= here.is_cut;
	by->is_unsure |= answer == BACK_UNSURE;
	return answer;
}

static enum back_answer ask_target(struct back *b, struct asked *by, uint64_t target)
{
	uint64_t word = word_of_stub(b, target);

	return word ? ask_word(b, by, word) : ask(b, by, target);
}

/* ---- one function ---- */

/* Where the instruction takes an address from; 0: it loads none. *is_word: from there in memory. */
static uint64_t loaded(uint64_t pc, const uint8_t *code, const struct insn *insn, int *is_word)
{
	uint8_t opcode = insn->opcode_bytes == 1 ? code[insn->opcode_at] : 0;
	uint32_t constant;

	*is_word = 0;
	if (insn->arch != INSN_X86_64)
		return 0;
	if (insn->flags & INSN_PC_RELATIVE && opcode == 0x8d) /* lea */
		return pc + (uint64_t)insn->target;
	if (insn->flags & INSN_PC_RELATIVE && opcode == 0x8b && insn->rex & 8) { /* mov */
		*is_word = 1;
		return pc + (uint64_t)insn->target;
	}
	if (!insn->immediate_at || insn->immediate_bytes != sizeof(constant) ||
	    ((opcode & 0xf8) != 0xb8 && opcode != 0xc7)) /* mov of a constant */
		return 0;
	memcpy(&constant, code + insn->immediate_at, sizeof(constant));
	return constant;
}

static enum back_answer ask_loaded(struct back *b, struct asked *by, uint64_t pc,
				   const uint8_t *code, const struct insn *insn)
{
	struct asked aside = { .depth = by->depth, .lowest = NO_DEPTH };
	int is_word;
	uint64_t address = loaded(pc, code, insn, &is_word);

	if (!address || (!is_word && !is_code(b, address)))
		return BACK_UNKNOWN;
	return is_word ? ask_word(b, &aside, address) : ask_target(b, &aside, address);
}

static void note_loaded(struct back *b, struct asked *f, uint64_t pc, const uint8_t *code,
			const struct insn *insn)
{
	enum back_answer answer = ask_loaded(b, f, pc, code, insn);

	if (answer == BACK_NEVER)
		f->loads_last = 1;
	if (answer)
		f->has_choice = 1;
}

static int add_way(struct back *b, struct asked *f, uint64_t pc)
{
	if (b->way_count == WAYS) {
		not_known(f, 1);
		return 0;
	}
	b->ways[b->way_count++] = pc;
	return 1;
}

static enum back_answer ask_call(struct back *b, struct asked *f, uint64_t pc,
				 const struct insn *insn)
{
	uint64_t target = pc + (uint64_t)insn->target;

	if (back_is_by_register(insn))
		return f->loads_last ? not_known(f, 0) : BACK_YES;
	if (insn->kind != INSN_CALL && insn->kind != INSN_JUMP)
		return ask_word(b, f, target);
	/* To the next instruction: it fetches its own address. */
	if (insn->kind == INSN_CALL && target == pc + insn->length)
		return BACK_YES;
	/* Over data, or what replaces a jump by a register. */
	if (insn->kind == INSN_CALL && target - pc < STEP_OVER)
		return add_way(b, f, target) ? BACK_NEVER : BACK_UNSURE;
	return ask_target(b, f, target);
}

/* A jump that may lead elsewhere. 1: *pc is where it continues; 0: the way ends; -1: it returns. */
static int follow_jump(struct back *b, struct asked *f, uint64_t *pc, const struct insn *insn)
{
	uint64_t target = *pc + (uint64_t)insn->target;
	uint64_t word = insn->kind == INSN_JUMP ? word_of_stub(b, target) : 0;

	if (insn->kind == INSN_JUMP && !word) {
		*pc = target;
		return 1;
	}
	return (word ? ask_word(b, f, word) : ask_call(b, f, *pc, insn)) == BACK_YES ? -1 : 0;
}

/* The rest of a straight way. 1: it leads to a return. */
static int back_follow(struct back *b, struct asked *f, uint64_t pc)
{
	uint8_t code[INSN_LENGTH_MAX];
	struct insn insn;
	int is_new;

	while ((is_new = see(b, f, pc)) > 0) {
		if (++f->insns > INSNS_MAX || ++b->insns > INSNS_IN_ALL ||
		    !back_read(b, pc, code)) {
			not_known(f, 1);
			return 0;
		}
		if (back_decode(b, pc, code, &insn) || insn.flags & (INSN_PRIVILEGED | INSN_FAR))
			return 0;
		note_loaded(b, f, pc, code, &insn);
		int goes_on = 1;
		switch (insn.kind) {
		case INSN_RETURN:
			return !f->is_chooser;
		case INSN_TRAP:
			/* A breakpoint has another instruction below it, perhaps. */
			if (insn.arch == INSN_X86_64 && code[0] == 0xcc)
				not_known(f, 0);
			return 0;
		case INSN_JUMP:
		case INSN_JUMP_INDIRECT:
			goes_on = follow_jump(b, f, &pc, &insn);
			if (goes_on <= 0)
				return goes_on < 0 && !f->is_chooser;
			continue;
		case INSN_JUMP_CONDITIONAL:
			if (!add_way(b, f, pc + (uint64_t)insn.target))
				return 0;
			break;
		case INSN_CALL:
		case INSN_CALL_INDIRECT:
			goes_on = ask_call(b, f, pc, &insn) == BACK_YES;
			break;
		}
		if (!goes_on)
			return 0;
		pc += insn.length;
	}
	if (is_new < 0)
		not_known(f, 1);
	return 0;
}

/* Each way through it, until one leads to a return. */
static enum back_answer look_through(struct back *b, struct asked *f, uint64_t address)
{
	enum back_answer answer = BACK_UNKNOWN;

	f->serial = ++b->serial;
	f->first_way = b->way_count;
	f->lowest = NO_DEPTH;
	add_way(b, f, address);
	while (!answer && b->way_count > f->first_way)
		if (back_follow(b, f, b->ways[--b->way_count]))
			answer = BACK_YES;
	b->way_count = f->first_way;
	if (!answer)
		answer = f->is_unsure ? BACK_UNSURE : BACK_NEVER;
	return answer;
}

static enum back_answer ask_chooser(struct back *b, struct asked *by, uint64_t chooser)
{
	struct asked f = { .depth = by->depth + 1, .is_chooser = 1 };

	if (f.depth >= DEPTH_MAX)
		return not_known(by, 1);
	look_through(b, &f, chooser);
	if (f.loads_last)
		return BACK_NEVER;
	return f.has_choice ? BACK_YES : not_known(by, f.is_cut);
}

static enum back_answer ask(struct back *b, struct asked *by, uint64_t address)
{
	struct answer *row = answer_of(b, address);
	struct asked f = { .depth = by->depth + 1 };

	if (row && row->answer == BACK_ASKED) {
		if (row->depth < by->lowest)
			by->lowest = row->depth;
		return BACK_ASKED;
	}
	if (row && row->answer) {
		by->is_unsure |= row->answer == BACK_UNSURE;
		return row->answer;
	}
	if (!row || f.depth >= DEPTH_MAX)
		return not_known(by, 1);
	row->answer = BACK_ASKED;
	row->depth = f.depth;
	enum back_answer answer = look_through(b, &f, address);
	/* The answer of one that waits for another above it is true for this chain only. */
	int is_kept = answer == BACK_YES || (f.lowest >= f.depth && (!f.is_cut || f.depth == 1));
	row->answer = is_kept ? answer : BACK_UNKNOWN;
	if (answer != BACK_YES && f.lowest < f.depth && f.lowest < by->lowest)
		by->lowest = f.lowest;
	if (answer == BACK_UNSURE)
		not_known(by, f.is_cut);
	return answer;
}

/* ---- questions ---- */

static void begin_question(struct back *b, struct asked *by)
{
	*by = (struct asked){ .lowest = NO_DEPTH };
	b->insns = 0;
	b->way_count = 0;
	if (b->answer_count > ANSWERS / 2)
		back_forget(b);
	if (b->seen_count > SEEN / 4) {
		memset(b->seen, 0, sizeof(b->seen));
		b->seen_count = 0;
	}
}

enum back_answer back_call(struct back *b, uint64_t pc, const struct insn *insn)
{
	struct asked by;

	begin_question(b, &by);
	if (back_is_by_register(insn))
		return BACK_YES;
	if (insn->kind != INSN_CALL && insn->kind != INSN_JUMP)
		return ask_word(b, &by, pc + (uint64_t)insn->target);
	return ask_target(b, &by, pc + (uint64_t)insn->target);
}

int back_loads_last(struct back *b, uint64_t pc, const uint8_t *code, const struct insn *insn)
{
	struct asked by;

	begin_question(b, &by);
	return ask_loaded(b, &by, pc, code, insn) == BACK_NEVER;
}
