/* SPDX-License-Identifier: MIT */
/*
 * race_sites_find.c - the memory accesses of a module that a sweep goes for. Not in a handler.
 *
 * Functions are those of the unwind table, with their exact lengths: data between functions is
 * never taken for code. A function in which decoding does not come to its very end is left out. What
 * can be told from the instruction alone is dropped: own frames, thread-local variables, constants,
 * and, to be held, locked instructions. A variable of the own frame whose address the function
 * takes is kept: that is how threads share what lies on the stack of one of them. These are trapped all the same: what they access is meant to
 * be atomic, and a plain access to that elsewhere is graded by it.
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

/* Of a function: the variables of its frame whose address it takes. */
struct given {
	uint32_t count;
	struct {
		uint8_t base; /* INSN_RSP or INSN_RBP */
		int64_t displacement;
	} rows[GIVEN_MAX];
};

struct search {
	const struct race_module *module;
	const struct race_calls *calls;
	struct race_spot *out;
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
		if (race_is_replay() && !race_is_in_range(m, pc, pc + 1))
			continue;
		enum race_call call = race_call_of(s->calls, m, &insn, pc);
		if (call || has_access(s, &insn))
			take(s, pc, &insn, call);
	}
}

/* One row of the table: where a function begins, and its length in the FDE. */
static void search_row(struct search *s, const struct race_eh_frame *h, const int32_t row[2])
{
	const struct fde *there = (const void *)((const char *)h + (int64_t)row[1]);
	uint64_t start = (uintptr_t)h + (uint64_t)(int64_t)row[0];
	struct fde fde;

	if (!race_copy((uintptr_t)there, &fde, sizeof(fde)))
		return;
	uint64_t end = start + fde.bytes;

	if ((uintptr_t)&there->start + (uint64_t)(int64_t)fde.start != start ||
	    start < s->module->text_start || end > s->module->text_end || end <= start)
		return;
	if (race_is_replay() && !race_is_in_range(s->module, start, end))
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
uint32_t race_find_spots(const struct race_module *module, const struct race_calls *calls,
			 uint32_t *function, uint32_t most, struct race_spot *out, uint32_t max)
{
	const struct race_eh_frame *there = module->eh_frame;
	struct search s = { .module = module, .calls = calls, .out = out, .max = max };
	struct race_eh_frame head;

	if (!read_head(module, &head) || *function >= head.count)
		return 0;
	uint32_t rows_left = head.count - *function;
	size_t bytes = rows_left * sizeof(head.rows[0]);
	int32_t(*rows)[2] = memory_map(bytes);
	if (memory_failed(rows))
		return 0;
	uint32_t done = rows_left;
	if (race_copy((uintptr_t)&there->rows[*function], rows, bytes))
		for (done = 0; done < rows_left && (!most || s.count < most); done++)
			search_row(&s, there, rows[done]);
	memory_unmap(rows, bytes);
	*function += done;
	return s.count;
}
