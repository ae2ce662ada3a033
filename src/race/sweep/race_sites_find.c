/* SPDX-License-Identifier: MIT */
/*
 * race_sites_find.c - the memory accesses of a module that a sweep stalls. Not in a
 * handler.
 *
 * Functions come from the unwind table, with their exact lengths: data between functions is never
 * decoded as code. Inside a function, only instructions that control flow leads to count
 * (code/reach/reach.h); what may be an access elsewhere in it is left out and counted. Accesses
 * that the instruction alone shows to be harmless are excluded: the function's own frame,
 * thread-local variables, constants. A variable in the frame whose address the function takes is
 * included, because that is how threads share the stack of one of them. Locked instructions are
 * trapped but not stalled: their variable is meant to be atomic, and the grade of a plain access to
 * it depends on that.
 */
#include "race/sweep/race_sites_find.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "code/insn/insn.h"
#include "code/insn/insn_stall.h"
#include "code/reach/back.h"
#include "code/reach/reach.h"
#include "race/race_frames.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_walk.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_ranges.h"
#include "race/sweep/race_returns.h"
#include "race/sweep/race_sites.h"
#include "record/race_region.h"

#define GIVEN_MAX TABLE_SIZE(64u, 1u)
#define CALLED_MAX TABLE_SIZE(512u, 2u)

/* In a function: the variables of its frame whose address it takes. */
struct given {
	uint32_t count;
	uint32_t is_full;
	struct {
		uint8_t base; /* INSN_RSP or INSN_RBP */
		int64_t displacement;
	} rows[GIVEN_MAX];
};

/* Functions to be inspected, each once: first in, first out. */
struct called {
	uint32_t count;
	uint64_t address[CALLED_MAX];
};

/* Not on the stack: the thread that comes here may have a small one. */
struct memory {
	struct race_frames frames;
	struct called called;
	struct reach reach;
};

struct search {
	const struct race_module *module;
	struct race_listing *listing;
	struct race_spot *out;
	struct memory *memory;
	struct unwind_row *rows;
	int is_following; /* into what is called */
	uint32_t count;
	uint32_t max;
	uint64_t listed;   /* of the module, taken or not */
	uint64_t unproven; /* accesses, perhaps, in what is not known to be code */
	/*
	 * In a function: it loads the address of one that never returns; a call was taken to return
	 * before.
	 */
	int loads_last;
	int is_early;
	struct insn_regs regs;
	struct given given;
};

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

static int find_given(const struct given *g, uint32_t base, int64_t displacement)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->rows[i].base == base && g->rows[i].displacement == displacement)
			return 1;
	return 0;
}

/* lea with a frame register and no index: what insn_decode() does not call an access. */
static void note_given(struct search *s, const uint8_t *code, const struct insn *insn)
{
	struct given *g = &s->given;
	int32_t displacement = 0;

	if (insn->opcode_bytes != 1 || code[insn->opcode_at] != 0x8d || !insn->modrm_at ||
	    insn->rex & 1)
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
	uint32_t base = is_rsp ? INSN_RSP : INSN_RBP;
	if (find_given(g, base, displacement))
		return;
	if (g->count == GIVEN_MAX) {
		g->is_full = 1;
		return;
	}
	g->rows[g->count].base = base;
	g->rows[g->count++].displacement = displacement;
}

static int is_given(const struct search *s, const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		if (insn_can_stall(insn, i) && find_given(&s->given, m->base, m->displacement))
			return 1;
	}
	return 0;
}

/* The table is full, and this is of the frame: perhaps what it accesses is given away. */
static int is_perhaps_given(const struct search *s, const struct insn *insn)
{
	if (!s->given.is_full || insn->flags & INSN_NOT_RELOCATABLE)
		return 0;
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		if (insn_can_stall(insn, i) &&
		    (m->base == INSN_RSP || (m->base == INSN_RBP && !s->regs.r[INSN_RBP])))
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

/* Its address is in rbp, and that is not the frame of this function. */
static int is_by_free_rbp(const struct search *s, const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].base == INSN_RBP && s->regs.r[INSN_RBP])
			return 1;
	return 0;
}

static int is_read(const struct insn *insn)
{
	unsigned int access = 0;

	for (unsigned int i = 0; i < insn->memory_count; i++)
		access |= insn->memory[i].access;
	return !(access & INSN_WRITE);
}

/* All are listed; where there are more than can be trapped at once, which of them is by chance. */
static void take(struct search *s, uint64_t pc, const struct insn *insn, enum race_call call)
{
	int is_witness = insn->flags & INSN_ATOMIC;
	struct race_region *region = race.region;
	struct race_site *site = is_witness ? NULL : race_add_site(region, race_place_of(pc));
	uint32_t at = s->count;

	if (!site && !is_witness)
		counter_add(&region->sites_lost, 1u);
	if (site)
		__atomic_fetch_or(&site->flags, RACE_SITE_LISTED, __ATOMIC_RELAXED);
	s->listed++;
	if (s->count == s->max)
		race_count(RACE_LOST_TRAPS);
	if (s->count < s->max)
		s->count++;
	else
		at = (uint32_t)(race_random() % s->listed);
	if (at < s->max)
		s->out[at] = (struct race_spot){ .address = pc,
						 .site = site,
						 .is_witness = is_witness != 0,
						 .is_escaped = is_given(s, insn) != 0,
						 .is_by_free_rbp = is_by_free_rbp(s, insn) != 0,
						 .is_read = !call && is_read(insn),
						 .call = (uint8_t)call };
}

static void note_called(struct search *s, uint64_t start, uint64_t end, uint64_t target)
{
	struct called *c = &s->memory->called;

	if (target - start < end - start ||
	    target - s->module->text_start >= s->module->text_end - s->module->text_start)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->address[i] == target)
			return;
	if (c->count < CALLED_MAX)
		c->address[c->count++] = target;
}

/* ---- what is code ---- */

static int returns(void *arg, uint64_t pc, const struct insn *insn)
{
	struct search *s = arg;
	int is_by_register = back_is_by_register(insn);

	if (is_by_register && s->loads_last)
		return 0;
	s->is_early |= is_by_register;
	return race_call_returns(pc, insn);
}

/* Text is read as it is without traps. */
static int read_constant(void *arg, uint64_t address, void *to, uint64_t bytes)
{
	const struct search *s = arg;
	const struct race_module *m = s->module;

	if (!is_constant(m, address) || !is_constant(m, address + bytes - 1))
		return 0;
	if (address - m->text_start >= m->text_end - m->text_start || bytes > m->text_end - address)
		return race_copy(address, to, bytes);
	memcpy(to, race_code(m, address), bytes);
	return 1;
}

static int is_text(void *arg, uint64_t address)
{
	const struct race_module *m = ((const struct search *)arg)->module;

	return address - m->text_start < m->text_end - m->text_start;
}

static void on_insn(void *arg, uint64_t pc, const uint8_t *code, const struct insn *insn)
{
	struct search *s = arg;

	note_given(s, code, insn);
	if (!s->loads_last)
		s->loads_last = race_loads_last(pc, code, insn);
}

/* A part of this function, perhaps, with an entry of its own in the unwind table. */
static void on_leave(void *arg, uint64_t target)
{
	const struct search *s = arg;
	uint64_t at = target - s->module->text_start;

	if (is_text(arg, target))
		s->listing->outer[at / 8] |= (uint8_t)(1u << at % 8);
}

static int add_root(void *arg, uint64_t address)
{
	reach_root(arg, address);
	return 0;
}

/* 0: it is too long. */
static int reach_once(struct search *s, const struct race_frame *frame)
{
	const struct reach_ops ops = { s, returns, read_constant, is_text, on_insn, on_leave };
	struct reach *r = &s->memory->reach;

	if (reach_begin(r, race_code(s->module, frame->start), frame->start, frame->end, &ops))
		return 0;
	reach_root(r, frame->start);
	race_frame_roots(&s->memory->frames, frame, add_root, r);
	for (uint64_t pc = frame->start; pc < frame->end; pc++)
		if (reach_bit(s->listing->outer, pc - s->module->text_start))
			reach_root(r, pc);
	reach_run(r);
	return 1;
}

/* 1: s->memory->reach knows what is code in it. */
static int reach_function(struct search *s, const struct race_frame *frame)
{
	s->loads_last = s->is_early = 0;
	if (!reach_once(s, frame))
		return 0;
	return s->loads_last && s->is_early ? reach_once(s, frame) : 1;
}

/* What would be accesses in bytes that are not known to be code. */
static uint64_t count_unproven(struct search *s, uint64_t start, uint64_t end)
{
	uint64_t count = 0;
	struct insn insn;

	for (uint64_t pc = start; pc < end;) {
		uint64_t left = end - pc;

		if (insn_decode(race_code(s->module, pc),
				left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX, &insn)) {
			pc++;
			continue;
		}
		s->regs.r[INSN_RIP] = pc;
		count += has_access(s, &insn) != 0;
		pc += insn.length;
	}
	return count;
}

/* ---- a function ---- */

static void search_insn(struct search *s, const struct race_frame *frame, uint64_t pc)
{
	const struct race_module *m = s->module;
	uint64_t left = frame->end - pc;
	struct insn insn;

	if (insn_decode(race_code(m, pc), left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX, &insn))
		return;
	s->regs.r[INSN_RIP] = pc;
	if (!race_is_in_range(m, pc, pc + 1))
		return;
	if (s->is_following && (insn.kind == INSN_CALL || insn.kind == INSN_JUMP))
		note_called(s, frame->start, frame->end, pc + (uint64_t)insn.target);
	enum race_call call = race_call_of(&s->listing->calls, m, &insn, pc);
	if (!call && !has_access(s, &insn)) {
		if (is_perhaps_given(s, &insn))
			race_count(RACE_LOST_LOCALS);
		return;
	}
	if (reach_has(&s->memory->reach, pc, insn.length))
		take(s, pc, &insn, call);
	else
		s->unproven++;
}

static void search_function(struct search *s, const struct race_frame *frame)
{
	const struct reach *r = &s->memory->reach;
	uint64_t start = frame->start;
	uint64_t unproven = start; /* so far nothing of it is known to be code */

	/*
	 * As race_is_candidate() recognises a frame register: by its distance to the stack pointer.
	 */
	s->regs.r[INSN_RSP] = 0;
	s->regs.r[INSN_RBP] = race_frame_is_at_rbp(&s->memory->frames, frame) ? 0 : UINT64_MAX;
	s->regs.known = 1ull << INSN_RIP;
	s->given.count = s->given.is_full = 0;
	if (!reach_function(s, frame)) {
		s->unproven += count_unproven(s, start, frame->end);
		return;
	}
	for (uint64_t pc = start; pc < frame->end; pc++) {
		if (!reach_covers(r, pc))
			continue;
		if (unproven < pc)
			s->unproven += count_unproven(s, unproven, pc);
		unproven = pc + 1;
		if (reach_bit(r->first, pc - start))
			search_insn(s, frame, pc);
	}
	s->unproven += count_unproven(s, unproven, frame->end);
}

/* The row that begins at an address; UINT32_MAX: none. */
static uint32_t find_row(const struct search *s, uint64_t address)
{
	const int64_t wanted = (int64_t)(address - (uintptr_t)s->module->eh_frame);
	const uint32_t n = unwind_rows_until(s->rows, s->listing->functions, wanted);

	return n && s->rows[n - 1].start == wanted ? n - 1 : UINT32_MAX;
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
static void search_row(struct search *s, uint32_t function, const struct unwind_row *row)
{
	const struct unwind_index *h = s->module->eh_frame;
	uint64_t start = unwind_row_start(h, row);
	struct race_frame frame;

	if (!is_new(s->listing, function) ||
	    !race_frame_read(&s->memory->frames, (uintptr_t)h + (uint64_t)(int64_t)row->entry,
			     &frame))
		return;
	if (frame.start != start || start < s->module->text_start ||
	    frame.end > s->module->text_end || frame.end <= start)
		return;
	if (!race_is_in_range(s->module, start, frame.end))
		return;
	search_function(s, &frame);
}

static int read_head(const struct race_module *module, struct unwind_index *head)
{
	return module->eh_frame && race_copy((uintptr_t)module->eh_frame, head, sizeof(*head)) &&
	       unwind_index_is_sorted(head) && head->count;
}

uint32_t race_count_functions(const struct race_module *module)
{
	struct unwind_index head;

	return read_head(module, &head) ? head.count : 0;
}

int race_listing_begin(struct race_listing *l, const struct race_module *module, uint32_t functions)
{
	size_t bits = functions / 8 + 1;
	size_t bytes = bits + (module->text_end - module->text_start) / 8 + 1;
	uint8_t *memory = memory_map(bytes);

	if (memory_failed(memory))
		return -ENOMEM;
	*l = (struct race_listing){ .module = module,
				    .functions = functions,
				    .done = memory,
				    .outer = memory + bits,
				    .bytes = bytes };
	return 0;
}

void race_listing_drop(struct race_listing *l)
{
	if (l->done)
		memory_unmap(l->done, l->bytes);
	l->done = NULL;
}

/*
 * The program may close the object at any moment, so nothing of it is touched. Its unwind table is
 * read by a system call, and its text is the copy that was kept.
 */
static struct unwind_row *copy_rows(const struct race_listing *l)
{
	size_t bytes = l->functions * sizeof(l->module->eh_frame->rows[0]);
	struct unwind_row *rows = memory_map(bytes);

	if (memory_failed(rows))
		return NULL;
	if (race_copy((uintptr_t)l->module->eh_frame->rows, rows, bytes))
		return rows;
	memory_unmap(rows, bytes);
	return NULL;
}

/* 1: s can be used; to be ended. */
static int begin(struct search *s, struct race_listing *l, struct race_spot *out, uint32_t max)
{
	*s = (struct search){ .module = l->module, .listing = l, .out = out, .max = max };
	s->rows = copy_rows(l);
	if (!s->rows)
		return 0;
	s->memory = memory_map(sizeof(*s->memory));
	if (!memory_failed(s->memory)) {
		race_frames_begin(&s->memory->frames);
		return 1;
	}
	memory_unmap(s->rows, l->functions * sizeof(s->rows[0]));
	return 0;
}

/* How much of a file is left out is the same in each process, once all of it has been inspected. */
static uint32_t end(struct search *s)
{
	struct race_listing *l = s->listing;
	struct race_file *file = &race.region->files[s->module->file % RACE_FILES];

	l->unproven += s->unproven;
	if (l->unproven > counter_get(&file->sites_unproven))
		atomic_set(&file->sites_unproven, l->unproven);
	memory_unmap(s->rows, l->functions * sizeof(s->rows[0]));
	memory_unmap(s->memory, sizeof(*s->memory));
	return s->count;
}

uint32_t race_find_spots(struct race_listing *l, uint32_t *function, uint32_t most,
			 struct race_spot *out, uint32_t max)
{
	uint32_t i = *function;
	struct search s;

	if (i >= l->functions)
		return 0;
	*function = l->functions;
	if (!begin(&s, l, out, max))
		return 0;
	/*
	 * The last ones first: what is seldom run of a function lies before it, and is jumped into.
	 */
	for (; i < l->functions && (!most || s.count < most); i++)
		search_row(&s, l->functions - 1 - i, &s.rows[l->functions - 1 - i]);
	*function = i;
	return end(&s);
}

uint32_t race_find_spots_called(struct race_listing *l, const uint64_t *addresses, uint32_t n,
				uint32_t most, struct race_spot *out, uint32_t max)
{
	struct search s;

	if (!l->functions || !begin(&s, l, out, max))
		return 0;
	const struct called *called = &s.memory->called;
	s.is_following = 1;
	for (uint32_t i = 0; i < n; i++)
		note_called(&s, 0, 0, addresses[i]);
	for (uint32_t i = 0; i < called->count && s.count < most; i++) {
		uint32_t row = find_row(&s, called->address[i]);

		if (row != UINT32_MAX)
			search_row(&s, row, &s.rows[row]);
	}
	return end(&s);
}
