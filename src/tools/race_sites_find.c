/* SPDX-License-Identifier: MIT */
/*
 * race_sites_find.c - the memory accesses of a module that a sweep goes for. Not in a handler.
 *
 * Functions are those of the unwind table, with their exact lengths: data between functions is
 * never taken for code. A function in which decoding does not come to its very end is left out. What
 * can be told from the instruction alone is dropped: own frames, thread-local variables, constants,
 * and, to be held, locked instructions. A variable of the own frame whose address the function
 * takes is kept: that is how threads share what lies on the stack of one of them. Locked instructions
 * are trapped all the same: what they access is meant to be atomic, and a plain access to that
 * elsewhere is graded by it.
 */
#include <string.h>

#include "base/memory.h"
#include "base/sys.h"
#include "code/insn.h"
#include "tools/race_priv.h"

/* What lies behind the CIE pointer of an FDE, as all compilers write it: pcrel sdata4. */
struct fde {
	uint32_t length;
	uint32_t cie;
	int32_t start; /* from here */
	uint32_t bytes;
};

#define GIVEN_MAX 32u
#define CALLED_MAX 512u

/* Of a function: the variables of its frame whose address it takes. */
struct given {
	uint32_t count;
	struct {
		uint8_t base; /* INSN_RSP or INSN_RBP */
		int64_t displacement;
	} rows[GIVEN_MAX];
};

/* Of .eh_frame, what was copied last: its entries stand in order, most often. */
struct window {
	uint64_t start;
	uint32_t bytes;
	uint8_t copy[4096];
};

/* Functions to be looked at, each once: first in, first out. */
struct called {
	uint32_t count;
	uint64_t address[CALLED_MAX];
};

/* Not on the stack: the thread that comes here may have a small one. */
struct memory {
	struct window window;
	struct called called;
};

struct search {
	const struct race_module *module;
	struct race_listing *listing;
	struct race_spot *out;
	struct memory *memory;
	int is_following; /* into what is called */
	uint32_t count;
	uint32_t max;
	uint64_t listed; /* of the module, taken or not */
	struct insn_regs regs;
	struct given given;
};

/* 1: rbp is the frame. Else it may point anywhere. */
static int has_frame(const uint8_t *code, uint64_t bytes)
{
	static const uint8_t landing[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t prologue[] = { 0x55, 0x48, 0x89, 0xe5 };

	if (bytes > sizeof(landing) && !memcmp(code, landing, sizeof(landing))) {
		code += sizeof(landing);
		bytes -= sizeof(landing);
	}
	return bytes > sizeof(prologue) && !memcmp(code, prologue, sizeof(prologue));
}

static int is_constant(const struct race_module *m, uint64_t address)
{
	if (address < m->start || address >= m->end)
		return 0;
	return address < m->data_start || address >= m->data_end ||
	       (address >= m->relro_start && address < m->relro_end);
}

/* Relative to the pc: the address is known. 1: worth it. */
static int is_worth(struct search *s, const struct insn *insn, unsigned int operand)
{
	uint64_t address;

	if (!race_is_candidate(insn, operand, &s->regs))
		return 0;
	if (insn->memory[operand].base != INSN_RIP ||
	    insn_address(insn, operand, &s->regs, &address))
		return 1;
	return !is_constant(s->module, address);
}

/* lea with a frame register and no index: what insn_decode() does not call an access. */
static void note_given(struct search *s, const uint8_t *code, const struct insn *insn)
{
	struct given *g = &s->given;
	int32_t displacement = 0;

	if (insn->opcode_bytes != 1 || code[insn->opcode_at] != 0x8d || !insn->modrm_at ||
	    insn->rex & 1 || g->count == GIVEN_MAX)
		return;
	uint8_t modrm = code[insn->modrm_at];
	int is_rsp = (modrm & 7) == 4 && code[insn->modrm_at + 1] == 0x24 && !(insn->rex & 2);
	int is_rbp = (modrm & 7) == 5 && modrm >> 6 && !s->regs.r[INSN_RBP];
	if (modrm >> 6 == 3 || (!is_rsp && !is_rbp))
		return;
	if (insn->displacement_bytes == 1)
		displacement = (int8_t)code[insn->displacement_at];
	else if (insn->displacement_bytes == 4)
		memcpy(&displacement, code + insn->displacement_at, sizeof(displacement));
	g->rows[g->count].base = is_rsp ? INSN_RSP : INSN_RBP;
	g->rows[g->count++].displacement = displacement;
}

static int is_given(const struct search *s, const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		for (uint32_t k = 0; k < s->given.count; k++)
			if (race_is_holdable(insn, i) && m->base == s->given.rows[k].base &&
			    m->displacement == s->given.rows[k].displacement)
				return 1;
	}
	return 0;
}

static int has_access(struct search *s, const struct insn *insn)
{
	/* A copy of it elsewhere would be another instruction. */
	if (insn->flags & INSN_NOT_RELOCATABLE)
		return 0;
	if (insn->flags & INSN_ATOMIC)
		return insn->memory_count > 0 && !insn->memory[0].segment;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (is_worth(s, insn, i))
			return 1;
	return is_given(s, insn);
}

/* All are listed; where there are more than can be trapped at once, which of them is by chance. */
static void take(struct search *s, uint64_t pc, const struct insn *insn,
		 enum race_call call)
{
	int is_witness = insn->flags & INSN_ATOMIC;
	struct race_region *region = race.region;
	struct race_site *site =
		is_witness ? NULL : race_add_site(region, race_place_of(pc));
	uint32_t at = s->count;

	if (!site && !is_witness)
		counter_add(&region->sites_lost, 1u);
	if (site)
		__atomic_fetch_or(&site->flags, RACE_SITE_LISTED, __ATOMIC_RELAXED);
	s->listed++;
	if (s->count < s->max)
		s->count++;
	else
		at = (uint32_t)(race_random() % s->listed);
	if (at < s->max)
		s->out[at] = (struct race_spot){ .address = pc,
						  .site = site,
						  .is_witness = is_witness != 0,
						  .is_escaped = is_given(s, insn) != 0,
						  .call = (uint8_t)call };
}

/* 1: decoding comes to the end of the function. */
static int is_sound(struct search *s, uint64_t start, uint64_t end)
{
	const struct race_module *m = s->module;
	struct insn insn;
	uint64_t pc = start;

	s->given.count = 0;
	while (pc < end) {
		uint64_t left = end - pc;
		if (insn_decode(race_code(m, pc), left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX,
				&insn))
			return 0;
		note_given(s, race_code(m, pc), &insn);
		pc += insn.length;
	}
	return pc == end;
}

static void note_called(struct search *s, uint64_t start, uint64_t end, uint64_t target)
{
	struct called *c = &s->memory->called;

	if (target - start < end - start || target - s->module->text_start >=
						    s->module->text_end - s->module->text_start)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->address[i] == target)
			return;
	if (c->count < CALLED_MAX)
		c->address[c->count++] = target;
}

static void search_function(struct search *s, uint64_t start, uint64_t end)
{
	const struct race_module *m = s->module;
	struct insn insn;

	/* As race_is_candidate() tells a frame register: by its distance to the stack pointer. */
	s->regs.r[INSN_RSP] = 0;
	s->regs.r[INSN_RBP] = has_frame(race_code(m, start), end - start) ? 0 : UINT64_MAX;
	s->regs.known = 1ull << INSN_RIP;
	if (!is_sound(s, start, end))
		return;
	for (uint64_t pc = start; pc < end; pc += insn.length) {
		uint64_t left = end - pc;
		if (insn_decode(race_code(m, pc), left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX,
				&insn))
			return;
		s->regs.r[INSN_RIP] = pc;
		if (race_is_for_some() && !race_is_in_range(m, pc, pc + 1))
			continue;
		if (s->is_following && (insn.kind == INSN_CALL || insn.kind == INSN_JUMP))
			note_called(s, start, end, pc + (uint64_t)insn.target);
		enum race_call call = race_call_of(&s->listing->calls, m, &insn, pc);
		if (call || has_access(s, &insn))
			take(s, pc, &insn, call);
	}
}

static int copy_fde(struct window *w, const struct fde *there, struct fde *out)
{
	uint64_t at = (uintptr_t)there;

	if (at < w->start || at + sizeof(*out) > w->start + w->bytes) {
		w->start = at;
		w->bytes = sizeof(w->copy);
		/* Near the end of what is mapped: the entry alone. */
		if (!race_copy(at, w->copy, w->bytes)) {
			w->bytes = sizeof(*out);
			if (!race_copy(at, w->copy, w->bytes))
				w->bytes = 0;
		}
	}
	if (!w->bytes)
		return 0;
	memcpy(out, w->copy + (at - w->start), sizeof(*out));
	return 1;
}

/* 1: it was not, until now. */
static int is_new(struct race_listing *l, uint32_t function)
{
	uint8_t bit = (uint8_t)(1u << function % 8);

	if (function >= l->functions || l->done[function / 8] & bit)
		return 0;
	l->done[function / 8] |= bit;
	return 1;
}

/* One row of the table: where a function begins, and its length in the FDE. */
static void search_row(struct search *s, uint32_t function, const int32_t row[2])
{
	const struct race_eh_frame *h = s->module->eh_frame;
	const struct fde *there = (const void *)((const char *)h + (int64_t)row[1]);
	uint64_t start = (uintptr_t)h + (uint64_t)(int64_t)row[0];
	struct fde fde;

	if (!is_new(s->listing, function) || !copy_fde(&s->memory->window, there, &fde))
		return;
	uint64_t end = start + fde.bytes;

	if ((uintptr_t)&there->start + (uint64_t)(int64_t)fde.start != start ||
	    start < s->module->text_start || end > s->module->text_end || end <= start)
		return;
	if (race_is_for_some() && !race_is_in_range(s->module, start, end))
		return;
	search_function(s, start, end);
}

static int read_head(const struct race_module *module, struct race_eh_frame *head)
{
	return module->eh_frame &&
	       race_copy((uintptr_t)module->eh_frame, head, sizeof(*head)) &&
	       race_eh_frame_is_sorted(head) && head->count;
}

uint32_t race_count_functions(const struct race_module *module)
{
	struct race_eh_frame head;

	return read_head(module, &head) ? head.count : 0;
}

/*
 * The program may close the object at any moment, so nothing of it is touched: its unwind table is
 * read by a system call, and its text is the copy that was kept.
 */
static int32_t (*copy_rows(const struct race_listing *l, uint32_t from))[2]
{
	size_t bytes = (l->functions - from) * sizeof(l->module->eh_frame->rows[0]);
	int32_t(*rows)[2] = memory_map(bytes);

	if (memory_failed(rows))
		return NULL;
	if (race_copy((uintptr_t)&l->module->eh_frame->rows[from], rows, bytes))
		return rows;
	memory_unmap(rows, bytes);
	return NULL;
}

/* 1: s can be used; to be ended. */
static int begin(struct search *s, struct race_listing *l, struct race_spot *out, uint32_t max)
{
	*s = (struct search){ .module = l->module, .listing = l, .out = out, .max = max };
	s->memory = memory_map(sizeof(*s->memory));
	return !memory_failed(s->memory);
}

static uint32_t end(struct search *s, int32_t (*rows)[2], uint32_t count)
{
	if (rows)
		memory_unmap(rows, count * sizeof(rows[0]));
	memory_unmap(s->memory, sizeof(*s->memory));
	return s->count;
}

uint32_t race_find_spots(struct race_listing *l, uint32_t *function, uint32_t most,
			 struct race_spot *out, uint32_t max)
{
	uint32_t from = *function;
	uint32_t i = from;
	struct search s;

	if (from >= l->functions || !begin(&s, l, out, max))
		return 0;
	int32_t(*rows)[2] = copy_rows(l, from);
	for (; rows && i < l->functions && (!most || s.count < most); i++)
		search_row(&s, i, rows[i - from]);
	*function = rows ? i : l->functions;
	return end(&s, rows, l->functions - from);
}

/* The row that begins at an address; UINT32_MAX: none. */
static uint32_t find_row(const struct race_listing *l, int32_t (*rows)[2], uint64_t address)
{
	int64_t wanted = (int64_t)(address - (uintptr_t)l->module->eh_frame);
	uint32_t low = 0;
	uint32_t high = l->functions;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (rows[middle][0] < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->functions && rows[low][0] == wanted ? low : UINT32_MAX;
}

uint32_t race_find_spots_called(struct race_listing *l, const uint64_t *addresses, uint32_t n,
				uint32_t most, struct race_spot *out, uint32_t max)
{
	struct search s;

	if (!l->functions || !begin(&s, l, out, max))
		return 0;
	const struct called *called = &s.memory->called;
	int32_t(*rows)[2] = copy_rows(l, 0);
	s.is_following = 1;
	for (uint32_t i = 0; i < n; i++)
		note_called(&s, 0, 0, addresses[i]);
	for (uint32_t i = 0; rows && i < called->count && s.count < most; i++) {
		uint32_t row = find_row(l, rows, called->address[i]);

		if (row != UINT32_MAX)
			search_row(&s, row, rows[row]);
	}
	return end(&s, rows, l->functions);
}
